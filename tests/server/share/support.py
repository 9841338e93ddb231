"""A share partition without a broker: a clock that moves only when the test says so, a persister in memory, and a log that is
only offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.server.share.acknowledgement import Acknowledgement
from ottla.server.share.acquiring import Acquired, Wanted, acquire
from ottla.server.share.log_reads import LogBatch
from ottla.server.share.share_group_config import ShareGroupConfig
from ottla.server.share.share_partition import SharePartition
from ottla.server.share.states import RecordState
from ottla.server.share_state.batches import StateBatch, combine
from ottla.server.share_state.coordinator import ReadState
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.state import SharePartition as SharePartitionKey
from ottla.wire.errors import ErrorCode
from tests.fakes import ManualClock

KEY = SharePartitionKey("g", b"t" * 16, 0)
LOCK_SECONDS = 30
SETTINGS = ShareGroupConfig(
    delivery_count_limit=5,
    max_record_locks=2000,
    record_lock_duration_ms=LOCK_SECONDS * 1000,
    renew_enabled=True,
    read_committed=False,
    offset_reset="earliest",
)


class MemoryPersister:
    """The state of one share partition, kept as the share coordinator keeps it."""

    def __init__(self, start_offset: int = 0, batches: Iterable[StateBatch] = ()) -> None:
        self.start_offset = start_offset
        self.batches = tuple(batches)
        self.state_epoch = 0
        self.delivery_complete_count = -1
        self.refusal: ErrorCode | None = None
        self.writes: list[list[StateBatch]] = []

    def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> ReadState:
        self._check()
        return ReadState(self.state_epoch, self.start_offset, self.delivery_complete_count, self.batches)

    def write(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        state_batches: Iterable[StateBatch],
    ) -> None:
        self._check()
        if state_epoch < self.state_epoch:
            raise ShareStateError(ErrorCode.FENCED_STATE_EPOCH)
        rows = list(state_batches)
        self.writes.append(rows)
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.batches = combine(self.batches, rows, start_offset)

    def _check(self) -> None:
        if self.refusal is not None:
            raise ShareStateError(self.refusal)


class Partition:
    """A share partition and what it depends on. `log` has the log's batches, with the first and last offset of each."""

    def __init__(
        self,
        log: Sequence[tuple[int, int]] = (),
        *,
        persister: MemoryPersister | None = None,
        settings: ShareGroupConfig = SETTINGS,
        clock: ManualClock | None = None,
    ) -> None:
        self.log = list(log)
        self.clock = clock or ManualClock()
        self.persister = persister or MemoryPersister()
        self.settings = settings
        self.share = self.loaded()

    def loaded(self) -> SharePartition:
        share = SharePartition(KEY, 0, self.persister, self.clock, lambda: self.settings)
        share.load(lambda: 0, self.log[-1][1] + 1 if self.log else 1_000_000)
        return share

    def restart(self) -> None:
        self.share.close()
        self.share = self.loaded()

    def acquire(
        self, member: str = "m", max_records: int = 1000, batch_size: int = 1000, *, strict: bool = False, batches: int = 1000
    ) -> list[Acquired]:
        """Fetches as a member would, with `batches` of the log at a time."""
        if not self.share.can_acquire():
            return []
        offset = self.share.next_fetch_offset()
        read = [LogBatch(first, last, first, last - first + 1, 0, -1) for first, last in self.log if last >= offset]
        return acquire(self.share, Wanted(member, max_records, batch_size, strict), offset, read[:batches])

    def acknowledge(self, first: int, last: int, *types: int, member: str = "m") -> None:
        self.share.acknowledge(member, [Acknowledgement(first, last, types)])

    def states(self) -> list[tuple[int, int, RecordState, int, str]]:
        """Returns what is in flight as rows of first offset, last offset, state, delivery count and member."""
        return [run[:5] for batch in self.share.batches for run in batch.runs]


def given(acquired: Sequence[Acquired]) -> list[tuple[int, int, int]]:
    """Returns first offset, last offset and delivery count."""
    return [(each.first, each.last, each.delivery_count) for each in acquired]
