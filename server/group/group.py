"""A `Group` is a group of any kind, as all kinds have it: it is listed, described and deleted, and owns committed offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.server.group.kind import Kind
from ottla.server.group.records import GroupRecord


class Group(ABC):
    """A group of any kind. Subclasses hold its members."""

    kind: ClassVar[Kind]
    group_id: str
    protocol_type: str | None
    """The type that ListGroups shows: "consumer", "connect", "share", "streams", ...; None until a member joins a
    classic group.
    """
    members: Mapping[str, Any]
    """The members by member id."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """Returns the state that ListGroups and the describing APIs show: "Empty", "Stable", ..."""

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Says whether the group has no members, so that it may be deleted."""
        return not self.members

    @property
    def is_simple(self) -> bool:
        """Says whether no member has ever joined it, so that it has nothing but committed offsets (Kafka calls it a "simple"
        group).
        """
        return False

    @property
    def is_expendable(self) -> bool:
        """Says whether the group may be removed once its last offset has expired."""
        return self.is_empty

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Returns whether members read the topic; if so, its offsets neither expire nor may be deleted."""

    @property
    def may_expire_offsets(self) -> bool:
        """Says whether offsets of topics that the group is not subscribed to may expire now."""
        return True

    def expires_from_ms(self, commit_timestamp_ms: int) -> int:
        """Returns when the retention time of an offset begins: at its commit or, for a classic group, when the group became
        empty.
        """
        return commit_timestamp_ms

    @abstractmethod
    def tombstones(self) -> Sequence[GroupRecord]:
        """Returns the records that remove the group, without those of its offsets."""
