"""The model of what a partition must look like after a crash, in the simplest words: a tuple of batches and four numbers.

The model shares no code with the log: it keeps every batch since the topic was made, deleted ones too, and works out by itself
what follows from them (producer states, epochs, the first open transaction, times). A crash inside an operation may leave the
partition as before it, as after it, or between; `check` says what may not be. A compacted log need not have every record any
more, but the last one of every key, and none that was not written just so.

`Loss.POWER`: what was not synced may be gone from any batch's end on. `Loss.KILL`: the process is gone and the page cache is
not, so everything written is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from ottla.log.partition import PartitionLog
from ottla.log.timestamps import offset_for_timestamp
from ottla.log.transactions import collect_aborted
from ottla.wire.batch import BatchHeader, check_crc, read_header
from ottla.wire.records import decode_records

COMMIT_KEY = b"\0\0\0\x01"


class Loss(Enum):
    POWER = "power"
    KILL = "kill"


@dataclass(frozen=True)
class Batch:
    """A batch as it was appended: its place, its leader epoch, and its bytes behind those two."""

    base: int
    epoch: int
    data: bytes

    @property
    def header(self) -> BatchHeader:
        return read_header(self.data)

    @property
    def end(self) -> int:
        return self.base + self.header.last_offset_delta + 1


@dataclass(frozen=True)
class State:
    """One partition. `flushed`: below it everything was acknowledged as synced. `start_floor`: a start of the log that a crash
    cannot undo. `bases`: where its segments begin. `generation`: how often the topic was made, which its id shows.
    """

    generation: int
    batches: tuple[Batch, ...] = ()
    log_start: int = 0
    start_floor: int = 0
    flushed: int = 0
    epoch: int = 0
    bases: tuple[int, ...] = (0,)
    compacted: bool = False

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else max(self.flushed, self.log_start)

    @property
    def topic_id(self) -> bytes:
        return bytes([self.generation]) * 16

    def appended(self, data: bytes) -> State:
        return replace(self, batches=(*self.batches, Batch(self.end, self.epoch, data)))

    def rolled(self) -> State:
        return self if self.bases[-1] == self.end else replace(self, bases=(*self.bases, self.end))

    def synced(self, upto: int | None = None) -> State:
        return replace(self, flushed=max(self.flushed, self.end if upto is None else upto))

    def checkpointed(self) -> State:
        return replace(self, start_floor=self.log_start)

    def truncated(self, offset: int) -> State:
        start = min(self.log_start, offset)
        return replace(
            self,
            batches=tuple(batch for batch in self.batches if batch.end <= offset),
            log_start=start,
            start_floor=min(self.start_floor, start),
            flushed=min(self.flushed, offset),
            bases=tuple(base for base in self.bases if base <= offset) or (offset,),
        )

    def retained(self, retention_bytes: int) -> State:
        """After retention: segments below the start go, then the oldest while enough is left."""
        bases = list(self.bases)
        while len(bases) > 1 and bases[1] <= self.log_start:
            del bases[0]
        excess = sum(len(batch.data) for batch in self.batches if batch.base >= bases[0]) - retention_bytes
        while len(bases) > 1:
            excess -= sum(len(batch.data) for batch in self.batches if bases[0] <= batch.base < bases[1])
            if excess < 0:
                break
            del bases[0]
        start = max(self.log_start, bases[0])
        return replace(self, bases=tuple(bases), log_start=start, start_floor=max(self.start_floor, bases[0]))


@dataclass
class Producer:
    """The state that follows from the batches of one producer; -1: nothing yet."""

    epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    open_since: int = -1
    written_to: list[tuple[int, int]] = field(default_factory=list)  # its open transaction's batches, from base to end
    last_at: int = -1  # base offset of the last batch that says something about it


@dataclass
class Aborted:
    """An aborted transaction: its batches from base to end, and its marker's offset."""

    producer_id: int
    batches: list[tuple[int, int]]
    marker: int

    def visible_from(self, start: int) -> int | None:
        """The first offset of it in a log that starts there; None if there is none."""
        return next((max(base, start) for base, end in self.batches if end > start), None)


def producers_of(batches: tuple[Batch, ...]) -> tuple[dict[int, Producer], list[Aborted]]:
    """(the producers by id, the aborted transactions)."""
    found: dict[int, Producer] = {}
    aborted = []
    for batch in batches:
        header = batch.header
        if header.producer_id < 0:
            continue
        producer = found.setdefault(header.producer_id, Producer())
        producer.last_at = batch.base
        if header.producer_epoch != producer.epoch:
            producer.epoch, producer.last_sequence, producer.last_offset = header.producer_epoch, -1, -1
        if header.is_control:
            if producer.open_since >= 0 and COMMIT_KEY not in batch.data[-20:]:
                aborted.append(Aborted(header.producer_id, producer.written_to, batch.base))
            producer.open_since, producer.written_to = -1, []
        else:
            producer.last_sequence, producer.last_offset = header.last_sequence, batch.end - 1
            if header.is_transactional:
                producer.open_since = batch.base if producer.open_since < 0 else producer.open_since
                producer.written_to.append((batch.base, batch.end))
    return found, aborted


def check(log: PartitionLog | None, before: State | None, after: State | None, loss: Loss) -> None:
    """AssertionError unless the log may look like this after a crash between the two."""
    reasons = [reason for state in dict.fromkeys((before, after)) if (reason := _reason(log, state, before, after, loss))]
    assert len(reasons) < len({before, after}), f"{log!r}: " + "; or ".join(reasons)


def _reason(log: PartitionLog | None, state: State | None, before: State | None, after: State | None, loss: Loss) -> str | None:
    try:
        _fits(log, state, before, after, loss)
    except AssertionError as error:
        return f"as {'before' if state is before else 'after'}: {error}"
    return None


def _fits(log: PartitionLog | None, state: State | None, before: State | None, after: State | None, loss: Loss) -> None:
    if state is None:
        assert log is None, "the topic was deleted"
        return
    sides = [side for side in (before, after) if side is not None and side.generation == state.generation]
    if log is None:
        assert loss is Loss.POWER, "a kill lost a partition"
        assert not all(side.flushed for side in sides), "a partition with flushed records is gone"
        return
    unborn = None in (before, after) or (loss is Loss.POWER and not all(side.flushed for side in sides))
    assert log.topic_id == state.topic_id or (unborn and log.topic_id is None), f"topic id {log.topic_id!r}"
    floor = min(side.flushed if loss is Loss.POWER else side.end for side in sides)
    starts = {side.log_start for side in sides} | {base for side in sides for base in side.bases}
    starts |= {batch.base for batch in state.batches} | {min(side.start_floor for side in sides)}
    start, end = log.log_start_offset, log.log_end_offset
    assert end >= floor, f"ends at {end}, {floor} were safe"
    least, most = min(side.start_floor for side in sides), max(side.log_start for side in sides)
    assert least <= start, f"starts at {start}"
    # A first segment whose very name was lost takes only what nobody was told is safe.
    assert start <= most or (loss is Loss.POWER and floor <= most), f"starts at {start}"
    assert start in starts, f"starts at {start}, where nothing ever began"
    assert log.high_watermark == end
    assert start <= log.last_stable_offset <= end
    kept = tuple(batch for batch in state.batches if batch.end <= end)
    assert (kept[-1].end if kept else state.end if not state.batches else 0) == end or end == start, f"ends at {end}"
    here = [batch for batch in kept if batch.end > start]
    if state.compacted:
        _check_compacted(log, here, {base for each in producers_of(kept)[1] for base, _ in each.batches})
    else:
        _check_batches(log, here)
        _check_times(log, here)
    _check_producers(log, kept)


def _check_batches(log: PartitionLog, expected: list[Batch]) -> None:
    start = log.log_start_offset
    found = list(log.iterate_batches(start))
    for data, batch in zip(found, expected, strict=False):
        header = read_header(data)
        assert check_crc(data, header), f"CRC at {header.base_offset}"
        assert header.base_offset == batch.base, f"a batch at {header.base_offset} where {batch.base} belongs"
        assert header.partition_leader_epoch == batch.epoch, f"leader epoch at {batch.base}"
        assert data[16:] == batch.data[16:], f"other bytes at {batch.base}"
        assert log.epochs.epoch_for(max(batch.base, start)) == batch.epoch, f"epochs at {batch.base}"
        for upto in {log.log_end_offset, batch.end}:
            located = log.read(max(batch.base, start), 1, upto=upto)
            assert located is not None, f"nothing to read at {batch.base}"
            assert located.read() == data, f"another batch is read at {batch.base}"
    assert len(found) == len(expected), f"{len(found)} batches, {len(expected)} belong there"
    assert all(entry.start_offset <= log.log_end_offset for entry in log.epochs.entries), "an epoch begins beyond the end"


def _records(data: bytes, base: int) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Offset -> (key, value); nothing of a marker."""
    if read_header(data).is_control:
        return {}
    return {base + at: (record.key, record.value) for at, record in enumerate(decode_records(data))}


def _check_compacted(log: PartitionLog, expected: list[Batch], aborted: set[int]) -> None:
    """`aborted`: the batches, by base offset, that nobody may read, which may go and hide no other."""
    written = {offset: record for batch in expected for offset, record in _records(batch.data, batch.base).items()}
    readable = [batch for batch in expected if batch.base not in aborted]
    newest = {key: offset for batch in readable for offset, (key, _) in _records(batch.data, batch.base).items()}
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    for data in log.iterate_batches(log.log_start_offset):
        header = read_header(data)
        assert check_crc(data, header), f"CRC at {header.base_offset}"
        if not header.is_control:
            records = {record.offset: (record.key, record.value) for record in decode_records(data)}
            assert min(records, default=1 << 62) > max(found, default=-1), "offsets go back"
            found |= records
    assert found.items() <= written.items(), "records that were never written so"
    assert set(newest.values()) <= set(found), "the last record of a key is gone"


def _check_producers(log: PartitionLog, kept: tuple[Batch, ...]) -> None:
    """Of producers whose batches were all deleted nothing need be known, but what is known must be true."""
    start = log.log_start_offset
    expected, aborted = producers_of(kept)
    for state in log.producers:
        assert state.producer_id in expected, f"producer {state.producer_id} never wrote"
    for producer_id, producer in expected.items():
        found = log.producers.get(producer_id)
        if found is None:
            assert producer.last_at < start, f"producer {producer_id} is forgotten"
            continue
        assert found.producer_epoch == producer.epoch, f"producer {producer_id}'s epoch"
        if producer.last_offset >= start or found.last_offset >= 0:
            assert (found.last_sequence, found.last_offset) == (producer.last_sequence, producer.last_offset), (
                f"producer {producer_id} is at {found.last_sequence}, {found.last_offset}, "
                f"not {producer.last_sequence}, {producer.last_offset}"
            )
        if producer.open_since < 0 or producer.open_since >= start:
            assert found.txn_first_offset == producer.open_since, f"producer {producer_id}'s transaction"
    opened = [producer.open_since for producer in expected.values() if producer.open_since >= 0]
    if not opened or min(opened) >= start:
        assert log.last_stable_offset == min(opened, default=log.high_watermark), "the first open transaction"
    _check_aborted(log, aborted)


def _check_aborted(log: PartitionLog, expected: list[Aborted]) -> None:
    """Checks that what can be read of an aborted transaction is known as such; of one that was deleted whole nothing need be."""
    start = log.log_start_offset
    found = {(producer_id, marker): first for producer_id, first, marker in _aborted(log)}
    known = {(each.producer_id, each.marker): each for each in expected}
    for key, first in found.items():
        assert key in known, f"{key} was never aborted"
        assert first >= start or first == known[key].batches[0][0], f"{key} is aborted from {first}"
    for key, each in known.items():
        visible = each.visible_from(start)
        if visible is not None and each.marker >= start:
            assert key in found, f"{key} is not known as aborted"
            assert found[key] <= visible, f"{key} is aborted from {found[key]}, not {visible}"


def _aborted(log: PartitionLog) -> list[tuple[int, int, int]]:
    """As (producer id, first offset, the marker's offset)."""
    found = collect_aborted(log, log.log_start_offset, log.log_end_offset)
    return sorted((entry.producer_id, entry.first_offset, entry.last_offset) for entry in found)


def _check_times(log: PartitionLog, expected: list[Batch]) -> None:
    """Every record of a batch has the same time in these traces."""
    times = {batch.header.max_timestamp for batch in expected}
    for target in (*sorted(times), max(times, default=0) + 1):
        first = next((batch for batch in expected if batch.header.max_timestamp >= target), None)
        found = offset_for_timestamp(log, target)
        assert (found.offset if found else None) == (max(first.base, log.log_start_offset) if first else None), f"time {target}"


def picture(log: PartitionLog) -> tuple[object, ...]:
    """All that a client can see of a log, to compare one opening with the next."""
    producers = {
        state.producer_id: (state.producer_epoch, state.last_sequence, state.last_offset, state.txn_first_offset)
        for state in log.producers
    }
    batches = tuple(log.iterate_batches(log.log_start_offset))
    return log.log_start_offset, log.log_end_offset, log.last_stable_offset, producers, log.epochs.entries, batches, _aborted(log)
