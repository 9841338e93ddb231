"""The seam between kinds of groups: what every kind has in common, and what a group protocol does for its groups.

A shard (shard.py) holds the groups of one partition of `__consumer_offsets`, of all kinds in one namespace: an id is one group.
What they share is here: they are listed, described, deleted, own committed offsets and change by replayed records only. What
sets them apart is a GroupProtocol, one object per kind and shard, which is opened when the first record or request of its kind
comes:

    Kind       module                    its class          its records: api keys in `__consumer_offsets`
    CLASSIC    classic/protocol.py       ClassicProtocol    2
    CONSUMER   consumer/protocol.py      ConsumerProtocol   3-8, 16     KIP-848
    SHARE      share/protocol.py         ShareProtocol      10-15       KIP-932
    STREAMS    streams/protocol.py       StreamsProtocol    17, 19-23   KIP-1071

To add a kind, write its Group and its GroupProtocol, name the module in shard.py's PROTOCOLS (it has a function
`open_protocol(shard)`), and let its handlers call `groups.member_shard(group_id).protocol(ConsumerProtocol).heartbeat(...)`. An
operation makes a Result (result.py) of records and an answer and passes it to `shard.run`; a timer passes its own to
`shard.run_timer`. `replay` is the only code that changes what a restart has to find again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ottla.server.base.clock import Clock
from ottla.server.group.cluster import Cluster
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.records import GroupRecord
from ottla.server.group.requests import Commit, Committer, Join, JoinAnswer, Leaving, Sync, SyncAnswer, refused_join
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupResponse


class Group(ABC):
    """A group of any kind. Subclasses hold its members."""

    kind: ClassVar[Kind]
    group_id: str
    protocol_type: str | None
    """As ListGroups shows it: "consumer", "connect", "share", "streams", ...; None as long as nobody joined a classic group."""
    members: Mapping[str, Any]
    """By member id."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As ListGroups and the describing APIs show it: "Empty", "Stable", ..."""

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Has no members, so that it may be deleted."""
        return not self.members

    @property
    def is_simple(self) -> bool:
        """Whether nobody ever joined it, so that it holds nothing but committed offsets (a "simple" group in Kafka's words)."""
        return False

    @property
    def is_expendable(self) -> bool:
        """Whether it may be removed once its last offset has expired."""
        return self.is_empty

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Do its members read the topic? Its offsets are neither expired nor deleted under them then."""

    @property
    def may_expire_offsets(self) -> bool:
        """Those of topics that it is not subscribed to."""
        return True

    def expires_from_ms(self, commit_timestamp_ms: int) -> int:
        """When the retention of an offset begins: at its commit, or, for a classic group, when it became empty."""
        return commit_timestamp_ms

    @abstractmethod
    def tombstones(self) -> Sequence[GroupRecord]:
        """What removes the group, its offsets apart."""


G = TypeVar("G", bound=Group)


class GroupProtocol(ABC, Generic[G]):
    """What the groups of one kind do, on one shard."""

    kind: ClassVar[Kind]

    # State

    @abstractmethod
    def replay(self, record: GroupRecord) -> None:
        """Make a record of this kind true, running or loading. ValueError: no group is like that."""

    def loaded(self, group: G) -> Result[None] | None:
        """The shard was read to its end: sessions begin now."""
        return None

    @abstractmethod
    def discard(self, group: G, error: ErrorCode) -> None:
        """The group is gone, or its partition went to another broker: stop its timers, answer whoever waits with `error`."""

    def topic_changed(self, topic: str, *, is_new: bool = False) -> None:
        """A topic was created (`is_new`) or deleted, or got partitions or other replicas. Nothing may be written here but by a
        timer. Called for each of many topics, so what costs more with many groups is put off.
        """

    # Offsets

    @abstractmethod
    def admit_commit(self, group: G, committer: Committer) -> None:
        """May it commit now? It counts as a sign of life. GroupError: no, and why."""

    @abstractmethod
    def admit_commit_in_transaction(self, group: G, committer: Committer) -> None:
        """As `admit_commit`, for TxnOffsetCommit."""

    def admit_partitions(self, group: G, committer: Committer, commits: Iterable[Commit]) -> None:
        """May it commit for these partitions? Asked after the other two. GroupError: no, for none."""

    def admit_fetch(self, group: G, committer: Committer) -> None:
        """May it ask for offsets (OffsetFetch v9 on)? GroupError: STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID."""

    def admit_deletion(self, group: G) -> None:
        """May the group be deleted? GroupError NON_EMPTY_GROUP."""
        if not group.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def admit_offset_deletion(self, group: G) -> None:
        """May offsets be deleted, of topics that it is not subscribed to? GroupError NON_EMPTY_GROUP."""

    # What members of the classic protocol ask for. A group of another kind knows none of them unless it overrides these.

    def join(self, group_id: str, request: Join) -> JoinAnswer:
        return refused_join(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def sync(self, group: G, request: Sync) -> SyncAnswer:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)

    def heartbeat(self, group: G, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)

    def leave(self, group: G, leavers: Sequence[Leaving]) -> LeaveGroupResponse:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)


P = TypeVar("P", bound=GroupProtocol[Any])
T = TypeVar("T")


class GroupShard(Protocol):
    """What a group protocol sees of the shard that it serves (shard.py)."""

    clock: Clock
    settings: GroupCoordinatorConfig
    cluster: Cluster
    random: Random
    """The source of member ids."""
    groups: dict[str, Group]
    """All groups of the shard by id, of any kind. Only `replay` may change it."""
    loading: bool
    """Whether the partition is still being replayed from its beginning."""

    def protocol(self, wanted: type[P]) -> P:
        """Returns the shard's protocol of another kind, for groups that change their kind."""
        ...

    def run(self, result: Result[T]) -> T:
        """Writes and replays the records of an operation and returns its answer. GroupError: they could not be written."""
        ...

    def run_timer(self, result: Result[None]) -> None:
        """Writes and replays records that no request waits for. A failure is logged."""
        ...

    def join(self, group_id: str, request: Join) -> JoinAnswer:
        """Answers a JoinGroup by the protocol of the group as it is now."""
        ...
