"""This module finds or creates the group that a record of a newer protocol is replayed into."""

from __future__ import annotations

from typing import TypeVar

from ottla.server.group.records import ProtocolRecord
from ottla.server.group.seam import Group

G = TypeVar("G", bound=Group)


def group_of(groups: dict[str, Group], record: ProtocolRecord, group_class: type[G]) -> G | None:
    """Returns the group, which its first record creates, or None for a tombstone of a group that does not exist.

    A group that has nothing but offsets counted as a classic one until now and is replaced. Raises ValueError if the group is of
    another kind.
    """
    group = groups.get(record.group_id)
    if group is not None and group.is_simple and record.value is not None:
        group = None
    if group is None:
        if record.value is None:
            return None
        group = groups[record.group_id] = group_class(record.group_id)  # type: ignore[call-arg]  # all classes that come here take an id
    if not isinstance(group, group_class):
        raise ValueError(f"group {record.group_id} is not a {group_class.kind.value} group")  # noqa: TRY004 - for the log, not for a caller
    return group
