"""Finds or makes the group that a record of a newer protocol is replayed into."""

from __future__ import annotations

from typing import TypeVar

from ottla.server.group.records import ProtocolRecord
from ottla.server.group.seam import Group

G = TypeVar("G", bound=Group)


def group_of(groups: dict[str, Group], record: ProtocolRecord, made: type[G]) -> G | None:
    """Returns the group, which its first record makes, or None for a tombstone of what does not exist.

    A group that holds nothing but offsets has been a classic one until now and is replaced. ValueError: it is a group of
    another kind.
    """
    group = groups.get(record.group_id)
    if group is not None and group.is_simple and record.value is not None:
        group = None
    if group is None:
        if record.value is None:
            return None
        group = groups[record.group_id] = made(record.group_id)  # type: ignore[call-arg]  # those who come here take an id
    if not isinstance(group, made):
        raise ValueError(f"group {record.group_id} is no {made.kind.value} group")  # noqa: TRY004 - for the log, not for a caller
    return group
