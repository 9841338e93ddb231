"""The rules for topic names: which are legal, which collide, and which are internal."""

from __future__ import annotations

import re
from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))
"""The topics that clients may read but not write, and that Metadata marks as internal."""

MAX_LENGTH: Final = 249  # so that "<topic>-<partition>.<32 hex digits>-delete" still fits into a file name of 255
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_reason(name: str) -> str | None:
    """Returns why `name` cannot be a topic's, None if it can."""
    if not name:
        return "A topic needs a name."
    if name in (".", ".."):
        return f"A topic cannot have the name '{name}'."
    if len(name) > MAX_LENGTH:
        return f"A topic name may have at most {MAX_LENGTH} characters; this one has {len(name)}."
    if not _LEGAL.fullmatch(name):
        return f"The topic name '{name}' may only have the letters a to z and A to Z, digits, '.', '_' and '-'."
    return None


def metrics_name(name: str) -> str:
    """Returns how a topic is called in the names of metrics, where '.' and '_' look the same."""
    return name.replace(".", "_")
