"""The state that a partition keeps of its idempotent producers, so that a retried batch is written once and order is kept.

A producer numbers its records per partition (base sequence in the batch header, wrapping from 2^31-1 to 0). The partition keeps
the epoch and the last five batches of every producer id, which is as many as a client may have in flight:

- A batch with exactly the range of one of the five is a duplicate; `check` returns the offsets of the first time for the answer.
- A batch that begins with the number after the last one is the next.
- Any other number, also that of a duplicate older than five batches, is OutOfOrderSequence.
- A smaller epoch is InvalidProducerEpoch. A larger one must begin with the number 0.
- A producer id that is not known may begin with any number, because retention may have removed its earlier batches.

`check` reads and `update` writes: the log calls one before and the other after the bytes are in the file, so a failed write
leaves no trace here. Replay (recovery, replication) only calls `update`.

A partition remembers at most `limit` producers (`ottla.producer.ids.per.partition`), since any client can make up new ids: beyond
it, the ones that have been silent the longest are forgotten early, as those that expire are. A producer with an open transaction
is never forgotten. The partitions of a broker have a limit together, too (`ProducerTotal`). Kafka keeps all of them until they
expire.

The state is derived from the log. It is saved as `<offset>.snapshot`, which covers everything below that offset, in the format of
Kafka's ProducerSnapshot version 1: int16 version, uint32 CRC-32C of what follows, int32 count, then 46 bytes a producer
(`_ENTRY`). A snapshot holds one batch a producer, so after a restart fewer than five may be known; the same is true of Kafka.
Nothing is lost if a snapshot cannot be read: the caller replays the log.

Transactions (KIP-98) add the offset of a producer's first record in its open transaction, and the epoch of the coordinator that
closed the last one; `end_transaction` is called for the control batch that closes it. A transaction is unstable until all
replicas have its marker, that is, until it is below the high watermark: the last stable offset stops at `first_unstable_offset`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple

from ottla.log.errors import (
    CorruptSnapshot,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from ottla.log.txn_index import AbortedTransaction
from ottla.log.validate import Origin
from ottla.wire.batch import MAX_INT32, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader
from ottla.wire.crc import crc32c

BATCHES_KEPT: Final = 5
BUMPED_EPOCH_SINCE: Final = 2
NO_OFFSET: Final = -1
NO_COORDINATOR_EPOCH: Final = -1

SNAPSHOT_VERSION: Final = 1
_PREFIX: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the transaction
_ENTRY: Final = Struct(">qhiqiqiq")

UNLIMITED: Final = 1 << 62
RECOUNT: Final = 1000
PRODUCER_BYTES: Final = 512
"""About what a producer takes, measured in tests/log/test_producers.py."""
_LOOKS: Final = 64
"""The most producers that are looked at in addition to those to be forgotten."""
_MAX_EPOCH: Final = 2**15 - 1
_LATE_AFTER_MS: Final = 300_000
_MOST_REFUSED: Final = 1000
_FEWEST_SLOTS: Final = 16

_CLIENT: Final = Origin.CLIENT
_REPLICATION: Final = Origin.REPLICATION


class AppendedBatch(NamedTuple):
    """One of the last batches that a producer appended."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_INT32

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


_NO_BATCH: Final = AppendedBatch(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)


class Duplicate(NamedTuple):
    """Says where a repeated batch was written the first time; the time is its maximum timestamp, which is what Kafka answers."""

    first_offset: int
    last_offset: int
    timestamp_ms: int


class CompletedTransaction(NamedTuple):
    """A transaction that a marker at `last_offset` ended. The transaction index records the aborted ones.

    `last_stable_offset` is the first offset of the oldest transaction that was open then, or the one after the marker if none
    was.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int

    @property
    def index_entry(self) -> AbortedTransaction:
        return AbortedTransaction(self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


class ProducerState:
    """The state of one producer in one partition, which DescribeProducers shows."""

    __slots__ = (
        "batches", "coordinator_epoch", "last_marker_offset", "last_timestamp_ms", "producer_epoch", "producer_id",
        "txn_first_offset",
    )  # fmt: skip

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.batches: list[AppendedBatch] = []  # the last BATCHES_KEPT; a deque of five is six times as large
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp_ms = NO_TIMESTAMP
        self.txn_first_offset = NO_OFFSET
        self.last_marker_offset = NO_OFFSET
        """The offset at which its last transaction ended, as far as that was seen since the log was opened."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def copy(self) -> ProducerState:
        """Returns a state of its own with the same values."""
        same = ProducerState(self.producer_id)
        same.producer_epoch = self.producer_epoch
        same.batches = self.batches.copy()
        same.coordinator_epoch, same.last_timestamp_ms = self.coordinator_epoch, self.last_timestamp_ms
        same.txn_first_offset, same.last_marker_offset = self.txn_first_offset, self.last_marker_offset
        return same

    @property
    def has_open_transaction(self) -> bool:
        return self.txn_first_offset != NO_OFFSET

    def move_to_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()


class ProducerTotal:
    """Bounds how many producers all partitions of a broker remember together. It counts them whenever RECOUNT more may have
    become known, and then the partitions that remember the most forget some.

    `partitions` returns all states that there are. So nothing has to be kept in step when logs come, go and are moved. While a
    broker opens its logs, in several threads, there is nothing to count yet: then a partition for whose producers there is no
    room forgets one of its own for each that it learns of. What was in memory before a clean stop always has room.
    """

    __slots__ = ("_is_counting", "_partitions", "limit", "room")

    def __init__(self, limit: int, partitions: Callable[[], Iterable[ProducerStates]]) -> None:
        self.limit = limit
        self.room = limit
        """The number of producers that may become known until they are counted; before the first count, the number that there may
        be."""
        self._partitions = partitions
        self._is_counting = False

    def make_room(self, states: ProducerStates) -> None:
        """Makes room for a producer that has just become known in `states`."""
        if self._is_counting:
            self.count()
        else:
            states.forget(1)

    def include(self, states: ProducerStates) -> None:
        """Makes room for the producers of a log that was opened later than the others. It is opened without this bound, because
        that happens in a thread, and nothing there may touch the states of other partitions.
        """
        states.total = self
        self.room -= len(states)
        if self.room < 0:
            self.make_room(states)

    def count(self) -> None:
        """Counts the producers, and makes room for more. The first call ends the opening of logs."""
        self._is_counting = True
        by_size = sorted(self._partitions(), key=len, reverse=True)
        surplus = min(sum(map(len, by_size)) + RECOUNT - self.limit, 2 * RECOUNT)  # the rest next time, so that nobody waits
        for states in by_size:
            if surplus <= 0:
                break
            surplus -= states.forget(min(surplus, RECOUNT, len(states) - 1))
        self.room = RECOUNT


class ProducerStates:
    """The states of all producers of one partition, up to `end_offset` of its log."""

    __slots__ = (
        "_candidates", "_horizon", "_most", "_newest", "_open_transactions", "_refused", "_states", "_unreplicated", "end_offset",
        "forgotten", "limit", "total",
    )  # fmt: skip

    def __init__(self, end_offset: int = 0, limit: int = UNLIMITED, total: ProducerTotal | None = None) -> None:
        self._states: dict[int, ProducerState] = {}
        self.limit = limit
        self.total = total
        """The bound of all partitions; None if there is none."""
        self.forgotten = 0
        """The number of producers that were forgotten because there were too many."""
        self._newest = NO_PRODUCER_ID  # the producer that became known last
        self._candidates: list[int] = []  # producers to look at when one has to be forgotten, the next one last
        self._horizon = 0  # where the log ended when they were listed
        self._open_transactions: dict[int, int] = {}  # first offset -> producer id; offsets only grow, so the first is the least
        self._unreplicated: list[tuple[int, int]] = []  # (marker's offset, first offset) of ended transactions, ascending
        self._most = 0  # the most producers that there were at once, for in_kafkas_order
        self._refused: dict[int, tuple[int, int]] | None = None  # what `refuse` has noted
        self.end_offset = end_offset

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def refuse(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Notes that a transactional batch may not be appended yet: the producer sends it again, and until then its later batches
        must not overtake it."""
        if self._refused is None:
            self._refused = {}
        known_epoch, lowest = self._refused.pop(producer_id, (epoch, sequence))
        self._refused[producer_id] = (epoch, min(lowest, sequence) if known_epoch == epoch else sequence)
        if len(self._refused) > _MOST_REFUSED:  # some producers never come back
            del self._refused[next(iter(self._refused))]

    def overtakes(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Returns whether this batch would overtake one that was refused and has not come again. If it is that one, it is no
        longer waited for."""
        if self._refused is None or producer_id not in self._refused:
            return False
        known_epoch, lowest = self._refused[producer_id]
        if known_epoch == epoch and sequence > lowest:
            return True
        del self._refused[producer_id]
        return False

    def in_kafkas_order(self) -> list[ProducerState]:
        """Returns the producers in the order in which Kafka writes and lists them, which is that of its hash table. The table
        doubles when it is three quarters full and never shrinks; within a slot the older one comes first. (In Kafka slots with
        many entries have another order, but only ids chosen on purpose fill a slot like that.)
        """
        slots = _FEWEST_SLOTS
        while self._most > slots * 3 // 4:
            slots *= 2
        mask = slots - 1

        def slot(state: ProducerState) -> int:
            code = (state.producer_id ^ state.producer_id >> 32) & 0xFFFFFFFF
            return (code ^ code >> 16) & mask

        return sorted(self, key=slot)

    def reverse_newest(self, known: int) -> None:
        """Puts the producers that the replay of a segment added to the `known` ones into Kafka's order: Kafka replays a segment
        into a table of its own, from which it takes the later ones first.
        """
        newest = list(self._states.values())[known:]
        for state in newest:
            del self._states[state.producer_id]
        self._states.update((state.producer_id, state) for state in reversed(newest))

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Returns the first offset of the oldest transaction that is open, or whose marker is not below the high watermark
        yet."""
        first = next(iter(self._open_transactions), None)
        if self._unreplicated:
            self.forget_replicated(high_watermark)
            firsts = [first_offset for _, first_offset in self._unreplicated]
            return min(firsts if first is None else [*firsts, first], default=None)
        return first

    def forget_replicated(self, high_watermark: int) -> None:
        """Forgets ended transactions whose marker is below the high watermark, because they are stable."""
        unreplicated = self._unreplicated
        stable = 0
        while stable < len(unreplicated) and unreplicated[stable][0] < high_watermark:
            stable += 1
        if stable:
            del unreplicated[:stable]

    def oldest_open_timestamp_ms(self) -> int:
        """Returns when the producer of the oldest open transaction last wrote, in ms; -1 if there is none."""
        producer_id = next(iter(self._open_transactions.values()), None)
        state = None if producer_id is None else self._states.get(producer_id)
        return NO_TIMESTAMP if state is None else state.last_timestamp_ms

    def has_late_transaction(self, now_ms: int, max_timeout_ms: int) -> bool:
        """Returns whether the oldest open transaction is probably hanging, unknown to any coordinator: it has been silent for
        `max_timeout_ms` (transaction.max.timeout.ms), by which it had to end, and five minutes more.
        """
        timestamp_ms = self.oldest_open_timestamp_ms()
        return timestamp_ms > 0 and now_ms - timestamp_ms > max_timeout_ms + _LATE_AFTER_MS

    def check(self, header: BatchHeader, origin: Origin = _CLIENT) -> Duplicate | None:
        """Checks whether the batch may be appended. Returns None if so, a Duplicate if it is in the log already, and raises one
        of the errors named in the module's docstring otherwise.

        Only clients have sequences; of other origins only the epoch is checked, and of replicated batches nothing.
        """
        if header.producer_id < 0 or origin is _REPLICATION:
            return None
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        if origin is _CLIENT:
            duplicate = _find_duplicate(header, state)
            if duplicate is not None:
                return duplicate
        if header.producer_epoch < state.producer_epoch:
            raise InvalidProducerEpoch(
                f"epoch {header.producer_epoch} of producer {header.producer_id} was replaced by {state.producer_epoch}"
            )
        if origin is _CLIENT:
            _check_sequence(header, state)
        if state.has_open_transaction and not header.is_transactional and not header.is_control:
            raise InvalidTransactionState(f"a plain batch of producer {header.producer_id} inside its transaction")
        return None

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Notes a batch that was appended at `base_offset` or is replayed. Control batches go to `end_transaction` instead."""
        self.end_offset = base_offset + header.last_offset_delta + 1
        if header.producer_id < 0 or header.is_control:
            return
        state = self._state(header.producer_id)
        state.move_to_epoch(header.producer_epoch)
        batches = state.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        last_offset = base_offset + header.last_offset_delta
        # This takes a third of the time of AppendedBatch(…), which is Python code.
        batches.append(
            tuple.__new__(AppendedBatch, (header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp))
        )
        state.last_timestamp_ms = header.max_timestamp
        if header.is_transactional and not state.has_open_transaction:
            state.txn_first_offset = base_offset
            self._open_transactions[base_offset] = header.producer_id

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, transaction_version: int = 0) -> None:
        """Raises InvalidProducerEpoch or TransactionCoordinatorFenced if this control batch may not be appended. From
        `transaction_version` 2 on (KIP-890) a marker has a higher epoch than the transaction that it ends. A marker of the same
        epoch is a repetition, and harmless if no transaction is open; an epoch that cannot grow is treated as before that
        version.
        """
        state = self._states.get(header.producer_id)
        if state is None:
            return
        epoch = header.producer_epoch
        repeated = epoch == state.producer_epoch and transaction_version >= BUMPED_EPOCH_SINCE
        if epoch < state.producer_epoch or (repeated and state.has_open_transaction and epoch != _MAX_EPOCH):
            raise InvalidProducerEpoch(
                f"epoch {header.producer_epoch} of producer {header.producer_id} was replaced by {state.producer_epoch}"
            )
        if coordinator_epoch < state.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {header.producer_id}: coordinator epoch {coordinator_epoch} was replaced by {state.coordinator_epoch}"
            )

    def end_transaction(
        self, header: BatchHeader, base_offset: int, *, coordinator_epoch: int, aborted: bool, timestamp_ms: int
    ) -> CompletedTransaction | None:
        """Notes a commit or abort marker that was appended at `base_offset`. Returns the transaction that it ended, None if the
        producer had written nothing to this partition."""
        self.end_offset = base_offset + header.last_offset_delta + 1
        state = self._state(header.producer_id)
        completed = None
        if state.has_open_transaction:
            first_offset = state.txn_first_offset
            self._open_transactions.pop(first_offset, None)
            self._unreplicated.append((base_offset, first_offset))
            state.txn_first_offset = NO_OFFSET
            stable = next(iter(self._open_transactions), base_offset + 1)
            completed = CompletedTransaction(header.producer_id, first_offset, base_offset, aborted, stable)
        state.move_to_epoch(header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp_ms = timestamp_ms
        state.last_marker_offset = base_offset
        return completed

    def end_nothing(self, header: BatchHeader, base_offset: int) -> None:
        """Notes a replayed control batch without a record, which is what compaction left of a marker: the producer is known, and
        nothing else."""
        self.end_offset = base_offset + header.last_offset_delta + 1
        self._state(header.producer_id)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that were silent for `expiration_ms` and have no open transaction; returns how many."""
        expired = [state.producer_id for state in self if _is_expired(state, now_ms, expiration_ms)]
        for producer_id in expired:
            del self._states[producer_id]
        return len(expired)

    def truncate(self, end_offset: int) -> bool:
        """Notes that the log was cut to `end_offset`. If this returns True, everything is forgotten, and the caller has to load a
        snapshot and replay the log from there."""
        if end_offset >= self.end_offset:
            return False
        self.clear(0)
        return True

    def take_back(self, before: Mapping[int, ProducerState | None], end_offset: int) -> None:
        """Takes back appends from `end_offset` on that were not written after all: the producers are `before` again, None for one
        that was not known. One of them may have been forgotten meanwhile, because there were too many."""
        for producer_id, state in before.items():
            is_known = self._states.pop(producer_id, None) is not None
            if state is not None:
                self._states[producer_id] = state
            if self.total is not None:
                self.total.room += is_known - (state is not None)
        self._open_transactions = {first: each for first, each in self._open_transactions.items() if first < end_offset}
        self.end_offset = end_offset

    def clear(self, end_offset: int) -> None:
        """Forgets every producer, for a log that ends at `end_offset`."""
        if self.total is not None:
            self.total.room += len(self._states)
        self._states.clear()
        self._open_transactions.clear()
        self._unreplicated.clear()
        self._candidates = []
        self.end_offset = end_offset

    def snapshot_bytes(self) -> bytes:
        """Returns the content of `<end_offset>.snapshot`."""
        return encode_snapshot(self.in_kafkas_order())

    def load(self, data: bytes, end_offset: int, *, now_ms: int | None = None, expiration_ms: int = 0) -> None:
        """Replaces the state by that of `<end_offset>.snapshot`, without the producers that have expired by `now_ms`, if that is
        given.

        Raises CorruptSnapshot, and changes nothing, if the bytes are not a whole snapshot.
        """
        states = decode_snapshot(data)
        self.clear(end_offset)
        for state in states:
            if now_ms is None or not _is_expired(state, now_ms, expiration_ms):
                self._add(state)
        opened = (state for state in self if state.has_open_transaction)
        for state in sorted(opened, key=lambda state: state.txn_first_offset):
            self._open_transactions[state.txn_first_offset] = state.producer_id

    def _state(self, producer_id: int) -> ProducerState:
        state = self._states.get(producer_id)
        if state is None:
            state = ProducerState(producer_id)
            self._add(state)
        return state

    def _add(self, state: ProducerState) -> None:
        """Adds a producer that has become known, and forgets others if there are too many."""
        self._states[state.producer_id] = state
        self._most = max(self._most, len(self._states))
        self._newest = state.producer_id
        total = self.total
        if total is not None:
            total.room -= 1
        if len(self._states) > self.limit:
            self.forget(1)
        if total is not None and total.room < 0:
            total.make_room(self)

    def forget(self, count: int) -> int:
        """Forgets `count` producers, about the ones that were silent the longest: the first ones, in the order in which they
        became known, that have written nothing since all of them were listed. They are neither the newest nor have an open
        transaction. Returns how many there were; some may only be found the next time.
        """
        before = self.forgotten
        for _ in range(_LOOKS + count):
            if self.forgotten - before >= count:
                break
            if not self._candidates:
                self._candidates = list(self._states)
                self._candidates.reverse()
                self._horizon = self.end_offset
            producer_id = self._candidates.pop()
            state = self._states.get(producer_id)
            if (
                state is not None
                and producer_id != self._newest
                and not state.has_open_transaction
                and state.last_offset < self._horizon
            ):
                del self._states[producer_id]
                self.forgotten += 1
        count = self.forgotten - before
        if self.total is not None:
            self.total.room += count
        return count


def _is_expired(state: ProducerState, now_ms: int, expiration_ms: int) -> bool:
    return not state.has_open_transaction and now_ms - state.last_timestamp_ms >= expiration_ms


def _find_duplicate(header: BatchHeader, state: ProducerState) -> Duplicate | None:
    if header.producer_epoch == state.producer_epoch:
        last_sequence = header.last_sequence
        for batch in state.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return Duplicate(batch.first_offset, batch.last_offset, batch.timestamp_ms)
    return None


def _check_sequence(header: BatchHeader, state: ProducerState) -> None:
    if header.producer_epoch != state.producer_epoch:
        if header.base_sequence != 0 and state.producer_epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} begins epoch {header.producer_epoch} with sequence {header.base_sequence}, not 0"
            )
        return
    expected = (state.last_sequence + 1) & MAX_INT32
    if header.base_sequence != expected:
        raise OutOfOrderSequence(f"producer {header.producer_id} sent sequence {header.base_sequence} where {expected} is next")


def encode_snapshot(states: Iterable[ProducerState]) -> bytes:
    """Returns the bytes of a snapshot of `states`, in the order given."""
    entries = []
    for state in states:
        last_sequence, last_offset, offset_delta, _ = state.batches[-1] if state.batches else _NO_BATCH
        entries.append(
            _ENTRY.pack(
                state.producer_id,
                state.producer_epoch,
                last_sequence,
                last_offset,
                offset_delta,
                state.last_timestamp_ms,
                state.coordinator_epoch,
                state.txn_first_offset,
            )
        )
    body = b"".join((_COUNT.pack(len(entries)), *entries))
    return _PREFIX.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerState]:
    """Returns the producers of a snapshot. Raises CorruptSnapshot if the bytes are not a whole snapshot of version 1."""
    if len(data) < _PREFIX.size + _COUNT.size:
        raise CorruptSnapshot(f"a producer snapshot of {len(data)} bytes is cut short")
    version, crc = _PREFIX.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"producer snapshot version {version} is not known, only {SNAPSHOT_VERSION}")
    if crc != crc32c(memoryview(data)[_PREFIX.size :]):
        raise CorruptSnapshot("the CRC of the producer snapshot does not match")
    (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    entries = memoryview(data)[_PREFIX.size + _COUNT.size :]
    if count * _ENTRY.size != len(entries):
        raise CorruptSnapshot(f"a producer snapshot of {count} producers has {len(entries)} bytes of them")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(entries)]


def _decode_entry(fields: tuple[int, ...]) -> ProducerState:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, txn_first_offset = fields
    state = ProducerState(producer_id)
    state.producer_epoch = epoch
    state.last_timestamp_ms = timestamp_ms
    state.coordinator_epoch = coordinator_epoch
    state.txn_first_offset = max(txn_first_offset, NO_OFFSET)
    if last_offset >= 0:
        state.batches.append(AppendedBatch(last_sequence, last_offset, offset_delta, timestamp_ms))
    return state
