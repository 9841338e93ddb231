"""Topic names: which are legal, which collide, which are the broker's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))
"""What clients may read but not write, and Metadata marks as internal."""

MAX_LENGTH: Final = 249  # so that "<topic>-<partition>.<32 hex digits>-delete" still fits into a file name of 255
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_reason(name: str) -> str | None:
    """Why `name` cannot be a topic's, None if it can."""
    if not name:
        return "A topic name may not be empty."
    if name in (".", ".."):
        return f"'{name}' cannot be a topic name."
    if len(name) > MAX_LENGTH:
        return f"A topic name has at most {MAX_LENGTH} characters, this one has {len(name)}."
    if not _LEGAL.fullmatch(name):
        return f"'{name}' has characters other than ASCII letters, digits, '.', '_' and '-'."
    return None


def collision(name: str, existing: Iterable[str]) -> str | None:
    """An existing topic whose name differs from `name` only in '.' and '_', which look the same in metrics' names."""
    if "." not in name and "_" not in name:
        return None
    same = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == same), None)
