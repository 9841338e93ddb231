"""The epochs with a special meaning, the version since which commits have epochs, and the interval of metadata refreshes: all
three protocols have the same.
"""

from __future__ import annotations

from typing import Final

# Epochs of members, in heartbeats and records.
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
LEAVING_STATIC_EPOCH: Final = -2
"""The epoch with which a static member leaves that will come back within its session; a new member may take over its instance id
meanwhile."""

# Epochs of groups and their targets.
FIRST_EPOCH: Final = 1
"""The epoch of a group that no member has joined yet; it counts as having an empty target assignment."""
NO_EPOCH: Final = -1

OFFSETS_SINCE: Final = 9
"""The version of OffsetCommit and OffsetFetch from which on they have member epochs."""

DUE_NOW: Final = 0
LOOK_AGAIN_MS: Final = 2**31 - 1
"""The time until a group checks its topics without being told of a change: practically never, since changes are reported."""
