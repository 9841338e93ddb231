"""Defines what all kinds of groups have in common, and what each kind's protocol does for its groups.

A shard (shard.py) holds the groups of one partition of `__consumer_offsets`. All kinds share one namespace: an id names one
group. What they share is here: groups are listed, described and deleted, they own committed offsets, and they change by replayed
records only. What differs is in a GroupProtocol, one object per kind and shard, which is opened with the first record or request
of its kind:

    Kind       module                    its class          its records: api keys in `__consumer_offsets`
    CLASSIC    classic/protocol.py       ClassicProtocol    2
    CONSUMER   consumer/protocol.py      ConsumerProtocol   3-8, 16     KIP-848
    SHARE      share/protocol.py         ShareProtocol      10-15       KIP-932
    STREAMS    streams/protocol.py       StreamsProtocol    17, 19-23   KIP-1071

To add a kind, write its Group and its GroupProtocol, name the module in shard.py's PROTOCOLS (it has a function
`open_protocol(shard)`), and let its handlers call `groups.member_shard(group_id).protocol(ConsumerProtocol).heartbeat(...)`. An
operation returns a Result (result.py) of records and an answer, which is passed to `shard.run`; that of a timer is passed to
`shard.run_timer`. `replay` is the only code that changes state which must survive a restart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from ottla.server.base.clock import Clock
from ottla.server.group.cluster import Cluster
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.errors import GroupError
from ottla.server.group.group import Group
from ottla.server.group.kind import Kind
from ottla.server.group.pending_ids import PendingIds
from ottla.server.group.records import GroupRecord
from ottla.server.group.requests import Commit, Committer, Join, JoinAnswer, Leaving, Sync, SyncAnswer, refused_join
from ottla.server.group.result import Result
from ottla.server.group.timers import Timer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupResponse

G = TypeVar("G", bound=Group)


class Deadline(NamedTuple):
    """A time by which something has to happen in a group: a heartbeat of a member ("session"), the end of a rebalance, ..."""

    name: str
    member_id: str | None
    """The member that is waited for; None if it is the group as a whole."""
    seconds_left: float


def deadline_of(timer: Timer | None, name: str, member_id: str | None = None) -> Iterator[Deadline]:
    """Yields the deadline of a timer, unless there is none or it has passed."""
    seconds = None if timer is None else timer.seconds_left
    if seconds is not None:
        yield Deadline(name, member_id, seconds)


class GroupProtocol(ABC, Generic[G]):
    """The protocol of one kind of groups, on one shard."""

    kind: ClassVar[Kind]

    # State

    @abstractmethod
    def replay(self, record: GroupRecord) -> None:
        """Applies a record of this kind, when it was written or is loaded. Raises ValueError if no group can be like that."""

    def loaded(self, group: G) -> Result[None] | None:
        """Begins the sessions of a group's members, after the shard was loaded. May return records to write."""
        return None

    @abstractmethod
    def discard(self, group: G, error: ErrorCode) -> None:
        """Stops a group's timers and answers all waiting requests with `error`, because the group was removed or its partition
        went to another broker.
        """

    @abstractmethod
    def postpone_session(self, group: G, member_id: str, seconds: float) -> None:
        """Gives a member so much more time until its session ends, because the clock is about to be moved by that much."""

    @abstractmethod
    def deadlines(self, group: G) -> Iterator[Deadline]:
        """Yields the deadlines of a group and of its members that have not passed yet."""

    def topic_changed(self, topic: str, *, is_new: bool = False) -> None:
        """Notes that a topic was created (`is_new`) or deleted, or got partitions or other replicas. It may write records only
        by a timer. It may be called for many topics at once, so work that grows with the number of groups should be deferred.
        """

    # Offsets

    @abstractmethod
    def admit_commit(self, group: G, committer: Committer) -> None:
        """Checks that this member may commit now, and counts that as a sign of life. Raises GroupError if it may not."""

    @abstractmethod
    def admit_commit_in_transaction(self, group: G, committer: Committer) -> None:
        """Does the same as `admit_commit` for TxnOffsetCommit."""

    def admit_partitions(self, group: G, committer: Committer, commits: Iterable[Commit]) -> None:
        """Checks, after one of the other two, that the member may commit for these partitions. Raises GroupError if it may not
        commit for all of them.
        """

    def admit_fetch(self, group: G, committer: Committer) -> None:
        """Checks that the member may fetch offsets (OffsetFetch from version 9 on). Raises GroupError STALE_MEMBER_EPOCH or
        UNKNOWN_MEMBER_ID.
        """

    def admit_deletion(self, group: G) -> None:
        """Checks that the group may be deleted. Raises GroupError NON_EMPTY_GROUP."""
        if not group.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP, f"Group {group.group_id} still has members.")

    def admit_offset_deletion(self, group: G) -> None:
        """Checks that offsets of topics that the group is not subscribed to may be deleted. Raises GroupError NON_EMPTY_GROUP."""

    # Requests of members of the classic protocol. Groups of another kind have no such members unless they override these.

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


class ShardContext(Protocol):
    """The parts of its shard (shard.py) that a protocol may use."""

    clock: Clock
    settings: GroupCoordinatorConfig
    cluster: Cluster
    random: Random
    """The source of member ids."""
    pending_ids: PendingIds
    """The ids that classic groups of all shards have handed out and that no client has joined with yet."""
    groups: dict[str, Group]
    """All groups of the shard by id, of any kind. Only `replay` may change it."""
    is_over: bool
    """True once this broker no longer coordinates the partition."""
    loading: bool
    """True while the partition is still being replayed from its beginning."""

    def protocol(self, wanted: type[P]) -> P:
        """Returns the shard's protocol of another kind, for groups that change their kind."""
        ...

    def run(self, result: Result[T]) -> T:
        """Writes and replays the records of an operation and returns its answer. Raises GroupError if they cannot be written."""
        ...

    def run_timer(self, result: Result[None]) -> None:
        """Writes and replays records that no request waits for. A failure is logged."""
        ...

    def when_answerable(self, then: Callable[[ErrorCode], object]) -> None:
        """Calls `then(NONE)` when everything written so far is replicated, or `then` with another code if it will not be, or not
        in time."""
        ...

    def join(self, group_id: str, request: Join) -> JoinAnswer:
        """Answers a JoinGroup by the protocol of the group's present kind."""
        ...
