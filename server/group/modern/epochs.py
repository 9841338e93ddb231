"""Epochs with a meaning of their own, and when a group looks at its topics without a reason: the same in all three protocols."""

from __future__ import annotations

from typing import Final

# Of members, in heartbeats and records.
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
LEAVING_STATIC_EPOCH: Final = -2
"""A static member that will come back within its session: until then its instance id is free to be taken over."""

# Of groups and their targets.
FIRST_EPOCH: Final = 1
"""The epoch of a group that nobody has joined yet, for which an empty assignment counts as made."""
NO_EPOCH: Final = -1

DUE_NOW: Final = 0
LOOK_AGAIN_MS: Final = 2**31 - 1
"""How long until a group looks at its topics without a reason: as good as never, since changes of topics are reported."""
