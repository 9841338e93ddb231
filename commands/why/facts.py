"""The facts that can be known of a group that may be stuck, as plain values.

Some facts only a broker's inside has: what members fetched while it watched, how long a client is throttled, for whom a
rebalance waits. Those are None, or empty, where a client has to do without (`GroupFacts.has_inside`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.commands.clients.partition import Partition
from ottla.commands.groups.rows import MemberState

WATCH_S: Final = 3.0
"""For how long a group is watched, unless somebody says otherwise."""


class OpenTransaction(NamedTuple):
    """The first transaction that is open in a partition. `transactional_id` is None if no coordinator knows the producer."""

    transactional_id: str | None
    producer_id: int
    start_offset: int
    started_ms: int | None
    timeout_ms: int | None = None


class NextBatch(NamedTuple):
    """The batch that is to be read next. `damage` says what is wrong with it; None if nothing is."""

    base_offset: int
    size_bytes: int
    timestamp_ms: int | None
    damage: str | None = None


class Fetched(NamedTuple):
    """The fetches of a partition by the client of its member, as a broker saw them while it watched."""

    times: int
    first_offset: int
    last_offset: int
    """The offset of the last fetch: how far the member has read."""
    is_out_of_range: bool
    """True if the last fetch was refused because the log has no such offset."""
    max_bytes: int
    """The most bytes of the partition that the client takes at once."""
    is_read_committed: bool


class Throttled(NamedTuple):
    """A client that was made to wait because of a quota."""

    client_id: str
    host: str
    quota: str
    throttle_ms: int
    for_ms: int | None
    """For how long nothing more is read from it; None if something is."""


class Awaited(NamedTuple):
    """A member for which a rebalance waits, and for how long at most; None if that is not known."""

    client_id: str
    host: str
    member_id: str
    doing: str
    within_s: float | None


class Left(NamedTuple):
    """The number of records that are to be read, without markers and gaps. If `is_all` is false, these are only the first."""

    records: int
    is_all: bool


@dataclass(frozen=True)
class PartitionFacts:
    """A partition that the group reads, or for which it has committed. Offsets are None where they are not known."""

    partition: Partition
    leader: int | None = 0
    replicas: tuple[int, ...] = ()
    log_start: int | None = None
    last_stable: int | None = None
    high_watermark: int | None = None
    committed: int | None = None
    committed_ms: int | None = None
    committed_before: int | None = None
    """The offset that was committed when the watch began."""
    end_before: int | None = None
    commits: int | None = None
    """The number of commits that a broker saw while it watched."""
    broker_lag: int | None = None
    """The lag that the broker of a share group counts."""
    member: MemberState | None = None
    fetched: Fetched | None = None
    idle_s: float | None = None
    """The time since the client of the member last fetched."""
    left: Left | None = None
    next_batch: NextBatch | None = None
    newest_ms: int | None = None
    """The timestamp of the newest record."""
    transaction: OpenTransaction | None = None
    transaction_before: OpenTransaction | None = None

    @property
    def begin(self) -> int | None:
        """Returns where the group goes on: at what is committed, or else at the log's start."""
        return self.log_start if self.committed is None else self.committed

    @property
    def lag(self) -> int:
        """Returns the offsets between what is committed, or the log's start, and the end; 0 if that is not known."""
        if self.broker_lag is not None:
            return self.broker_lag
        if self.high_watermark is None:
            return 0
        return 0 if self.begin is None else self.high_watermark - self.begin

    @property
    def to_read(self) -> int:
        """Returns how many records there are to be read: counted if they were, else as many as the lag."""
        if self.left is not None and (self.left.is_all or not self.left.records):
            return self.left.records
        return max(0, self.lag)

    @property
    def is_behind(self) -> bool:
        return self.to_read > 0 or self.lag < 0

    @property
    def position(self) -> int | None:
        """Returns how far the member has read, as far as that is known: to its last fetch, or what is committed."""
        return self.committed if self.fetched is None else self.fetched.last_offset

    @property
    def has_moved(self) -> bool:
        """Returns whether the group came any further while it was watched."""
        if self.commits or self.committed != self.committed_before:
            return True
        return self.fetched is not None and self.fetched.last_offset > self.fetched.first_offset

    @property
    def lag_ms(self) -> int | None:
        """Returns how much older the next record is than the newest one; None if that is not known."""
        if not self.to_read:
            return 0
        if self.newest_ms is None or self.next_batch is None or self.next_batch.timestamp_ms is None:
            return None
        return max(0, self.newest_ms - self.next_batch.timestamp_ms)


@dataclass(frozen=True)
class GroupFacts:
    """A group, and the time for which it was watched."""

    name: str
    exists: bool | None = True
    """None if nobody could say, because the coordinator does not answer."""
    kind: str = "classic"
    state: str = "Stable"
    missing_topics: tuple[tuple[str, str], ...] = ()
    """Topics that do not exist, each with the client id of a member that subscribes to it."""
    coordinator_error: str | None = None
    members: tuple[MemberState, ...] = ()
    state_before: str = "Stable"
    is_same_rebalance: bool = True
    """True if the epoch or generation was the same when the watch began."""
    awaited: tuple[Awaited, ...] = ()
    partitions: tuple[PartitionFacts, ...] = ()
    throttled: tuple[Throttled, ...] = ()
    max_poll_s: float | None = None
    """After how long without a poll a member is removed, as far as the members say."""
    watched_s: float = 0.0
    is_patient: bool = False
    """True if it was watched for longer than clients take, by default, to commit."""
    has_inside: bool = False
    now_ms: int = 0
    notes: tuple[str, ...] = ()

    @property
    def behind(self) -> list[PartitionFacts]:
        """Returns the partitions with something to read, those with the most first."""
        return sorted((one for one in self.partitions if one.is_behind), key=lambda one: -one.to_read)

    @property
    def to_read(self) -> int:
        return sum(one.to_read for one in self.partitions)

    @property
    def is_exact(self) -> bool:
        """Returns whether records were counted in every partition, not only offsets."""
        return all(one.left is not None and one.left.is_all for one in self.partitions if one.lag > 0)
