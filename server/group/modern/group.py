"""Defines what the groups of the newer protocols have in common: members and a target assignment, and how their records
are replayed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from ottla.server.group.errors import GroupError
from ottla.server.group.group import Group
from ottla.server.group.modern.assignor import Assignment
from ottla.server.group.modern.epochs import DUE_NOW, FIRST_EPOCH, NO_EPOCH
from ottla.server.group.modern.names import Names
from ottla.server.group.records import GroupRecord, ProtocolRecord
from ottla.wire.errors import ErrorCode


class ModernMember(Protocol):
    """A member as a group replays its records. It is immutable: a record makes another one of it."""

    @property
    def member_id(self) -> str: ...

    def with_metadata(self, value: Any) -> Self:
        """Returns the member with the ids, client and subscription of its metadata record."""
        ...

    def with_assignment(self, value: Any) -> Self:
        """Returns the member with the epoch and assignment of its record of the current assignment."""
        ...

    def without_assignment(self) -> Self:
        """Returns the member after the tombstone of its assignment; the tombstone of the member itself comes next."""
        ...


M = TypeVar("M", bound=ModernMember)

LARGE: Final = 300
"""A group whose members name more topics than that is large (`is_large`). An operation on another takes less than a turn."""


class ModernGroup(Group, Generic[M]):
    """A group whose members get their target assignments from the broker. Only `replay` changes what is in its records."""

    metadata_key: ClassVar[type]
    """The key of the record that the group begins with; its tombstone ends the group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.assignment_epoch = FIRST_EPOCH
        """The epoch that the target assignment was made for."""
        self.assignment_timestamp_ms = 0
        self.assignment_failed_ms = 0
        """The time at which a target could last not be made or written, so that not every heartbeat tries; 0 if never."""
        self.members: dict[str, M] = {}
        self.topics_seen = 0
        """The number of changes of topics that it has seen (`Topics.have_changed`)."""

    def present(self, member: M) -> M | None:
        """Returns the member that is there now in place of one that was there before, or None if it left."""
        return self.members.get(member.member_id)

    def is_early(self, now_ms: int, interval_ms: int) -> bool:
        """Returns whether the last target was made, or could not be made, less than `interval_ms` ago."""
        last_ms = max(self.assignment_timestamp_ms, self.assignment_failed_ms)
        return last_ms != 0 and now_ms < last_ms + interval_ms

    def member(self, member_id: str) -> M:
        """Returns a member. Raises GroupError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id}.")
        return member

    # Replay

    @abstractmethod
    def replay(self, record: ProtocolRecord) -> None:
        """Applies a record, except the tombstone of the group itself, which the function `replay` handles."""

    @abstractmethod
    def _new_member(self, member_id: str) -> M:
        """Returns a member of which nothing but its id is known yet."""

    @abstractmethod
    def _put(self, member: M) -> None:
        """Adds a member, or replaces the one with its id, and updates what is derived from the members."""

    @abstractmethod
    def _drop(self, member_id: str) -> None:
        """Removes a member that is there, and what was derived from it."""

    def _replay_member(self, key: Any, value: Any) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put((member or self._new_member(key.member_id)).with_metadata(value))
        elif member is not None:
            self._drop(key.member_id)

    def _replay_current(self, key: Any, value: Any) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put((member or self._new_member(key.member_id)).with_assignment(value))
        elif member is not None:
            self._put(member.without_assignment())

    def _replay_target_epoch(self, key: Any, value: Any) -> None:
        self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp


class SubscribedGroup(ModernGroup[M]):
    """A group whose members subscribe to topics by name, and get partitions of them."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.names = Names()
        """The names that the members subscribe to."""
        self.targets: dict[str, Assignment] = {}
        self.refresh_at_ms = DUE_NOW
        """The time when its topics are checked again; it is DUE_NOW after one of them has changed."""
        self.changes = 0
        """The number of records that were replayed, and of times that topics have changed: what is planned in between is no
        longer true."""

    @property
    def is_large(self) -> bool:
        """Returns whether its members name so many topics that an operation may take longer than a turn."""
        return len(self.names.counts) > LARGE

    def topics_changed(self) -> None:
        """Has its topics checked by the next heartbeat."""
        self.refresh_at_ms = DUE_NOW
        self.changes += 1


G = TypeVar("G", bound=ModernGroup[Any])


def replay(
    groups: dict[str, Group], record: GroupRecord, group_class: type[G], discard: Callable[[G, ErrorCode], object]
) -> None:
    """Applies a record to its group, which begins with its first record and ends with the tombstone of its `metadata_key`. Then
    `discard` is called with it and the code for requests that wait. Raises ValueError if the group is of another kind.
    """
    assert isinstance(record, ProtocolRecord)
    group = group_of(groups, record, group_class)
    if group is None:
        return
    if record.value is None and isinstance(record.key, group_class.metadata_key):
        del groups[group.group_id]
        discard(group, ErrorCode.UNKNOWN_MEMBER_ID)
    else:
        group.replay(record)


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
        group = groups[record.group_id] = group_class(record.group_id)
    if not isinstance(group, group_class):
        raise ValueError(f"a record of a {group_class.kind.value} group is for the {group.kind.value} group {record.group_id}")  # noqa: TRY004 - for the log, not for a caller
    return group
