"""Appending as a follower: a leader's batches go into the log byte for byte, with the offsets and the epochs that they have.

The leader has validated the batches already, so they are not opened, except for transaction markers. What can go wrong on the way
is checked: that a batch is whole, of the one format, and intact by its CRC, and that offsets ascend from the log's end on. Gaps
are allowed, because the leader may have compacted its log. Base offset and leader epoch lie outside the CRC, so damage there
shows only in their order.

Segments end where the leader's end (log/rolling.py), except for segment.jitter.ms, which each replica draws by itself. What goes
into one segment is one write (`PartitionLog.append_run`). The high watermark does not move: the caller raises it to what the
leader says, and also does the flush that `flush.messages` may demand.

A leader's log may start in the middle of a batch (DeleteRecords). A follower that begins there gets that batch whole, and its own
log then goes back to the batch's first offset; its start stays where it is.

`diverging_offset` says where a log and that of its leader part, as far as their epochs tell.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.epochs import UNDEFINED_EPOCH
from ottla.log.errors import CorruptRecord, OffsetsOutOfOrder
from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.log.markers import read_marker
from ottla.log.rolling import has_room, is_too_old
from ottla.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchHeader, check_crc, read_header

if TYPE_CHECKING:
    from ottla.log.disk.files import Buffer
    from ottla.log.partition import PartitionLog
    from ottla.log.segment import Segment

_MAX_EPOCH: Final = 2**31 - 1
_SIZE_AT: Final = 8
_MAGIC_AT: Final = 16


class _Batch(NamedTuple):
    """One batch of a leader: its header, and where it lies in the bytes that were fetched."""

    header: BatchHeader
    start: int
    end: int


def append_as_follower(log: PartitionLog, records: Buffer, latest_epoch: int | None = None) -> int:
    """Appends the whole batches in `records`, which is only borrowed; returns the log's end offset.

    A torn batch at the end, which the answer to a Fetch may hold, is left out, and so is everything from the first batch on whose
    leader epoch is newer than `latest_epoch`: an answer that another leader gave to a request of ours may hold some, and nobody
    has compared the logs before them (KAFKA-18723). Raises CorruptRecord, or its subclass
    OffsetsOutOfOrder, at the first batch that is wrong: the batches before it are appended, it and the rest are not. Raises
    StorageError as `append_as_leader` does.
    """
    log.check_usable()
    view = memoryview(records)
    if log.log_end_offset == log.log_start_offset:
        _go_back_to_batch(log, view, latest_epoch)
    batches: list[_Batch] = []
    wrong: CorruptRecord | None = None
    try:
        _collect(view, log.log_end_offset, _MAX_EPOCH if latest_epoch is None else latest_epoch, batches)
    except CorruptRecord as error:
        wrong = error
    at = 0
    while at < len(batches):
        at += _append_run(log, view, batches, at)
    if wrong is not None:
        raise wrong
    return log.log_end_offset


def diverging_offset(log: PartitionLog, epoch: int, end_offset: int) -> int:
    """Returns the offset at which a follower's log has to be cut if `epoch`, the greatest that its leader knows up to the epoch
    of the follower's last batch, ends at `end_offset` in the leader's log (KIP-101, KIP-279).

    It is where that epoch ends in both logs. If the follower does not know the epoch, it is where an earlier one ends in its own;
    whether that is far enough, only the leader's next answer says.
    """
    known, own_end = log.end_offset_for_epoch(epoch)
    if known == UNDEFINED_EPOCH:  # this log knows only earlier epochs, or none
        return min(end_offset, log.log_end_offset)
    return min(own_end, end_offset) if known == epoch else own_end


def _go_back_to_batch(log: PartitionLog, view: memoryview, latest_epoch: int | None) -> None:
    """Has an empty log begin with the first batch of a leader if it begins in the middle of that one. Raises StorageError."""
    first: list[_Batch] = []
    with contextlib.suppress(CorruptRecord):  # whoever appends it says so
        _collect(view[: _size_at(view, 0)], 0, _MAX_EPOCH if latest_epoch is None else latest_epoch, first)
    if first and first[0].header.base_offset < log.log_end_offset < first[0].header.next_offset:
        log.truncate_fully_and_start_at(first[0].header.base_offset, log.log_start_offset)


def _size_at(view: memoryview, start: int) -> int:
    """Returns the size of the batch that begins there, as it says itself."""
    return int.from_bytes(view[start + _SIZE_AT : start + _SIZE_AT + 4], "big", signed=True) + LENGTH_OVERHEAD


def _collect(view: memoryview, end_offset: int, latest_epoch: int, batches: list[_Batch]) -> None:
    """Gathers the whole batches in `view` up to the first of a newer epoch, or the first wrong one, for which it raises
    CorruptRecord."""
    start = 0
    while len(view) - start >= HEADER_SIZE:
        size = _size_at(view, start)
        if view[start + _MAGIC_AT] != MAGIC or size < HEADER_SIZE:
            raise CorruptRecord(f"the leader's bytes at {start} are not a batch of magic 2")
        if size > len(view) - start:
            return
        batch = view[start : start + size]
        header = read_header(batch)
        _check(batch, header, end_offset)
        if header.partition_leader_epoch > latest_epoch:
            return
        batches.append(_Batch(header, start, start + size))
        end_offset = header.next_offset
        start += size


def _check(batch: memoryview, header: BatchHeader, end_offset: int) -> None:
    """Raises CorruptRecord if the batch cannot follow `end_offset` in a log."""
    if not check_crc(batch, header):
        raise CorruptRecord(f"the leader's batch at offset {header.base_offset} does not match its CRC")
    if header.base_offset < end_offset or header.last_offset_delta < 0:
        raise OffsetsOutOfOrder(
            f"the leader's batch has the offsets {header.base_offset} to {header.last_offset}, but the log ends at {end_offset}"
        )
    if header.partition_leader_epoch < 0:
        raise CorruptRecord(f"the leader's batch at offset {header.base_offset} has no leader epoch")
    if header.is_control and header.records_count:
        try:
            read_marker(batch)
        except ValueError as error:
            raise CorruptRecord(f"the leader's control batch at offset {header.base_offset} does not decode: {error}") from error


def _append_run(log: PartitionLog, view: memoryview, batches: list[_Batch], at: int) -> int:
    """Appends the batches from index `at` on that go into one segment, in one write; returns how many. Raises StorageError."""
    now_ms = log.now_ms()
    header = batches[at].header
    with log.directory.guard(f"appending to {log.path}"):  # how old its segment is, and its indexes, may have to be read first
        segment = _segment_for(log, header, now_ms)
        room = segment.index_room
    filled, first_timestamp = segment.size, segment.first_timestamp
    if filled == 0:
        first_timestamp = header.max_timestamp
    run = [batches[at]]
    for batch in batches[at + 1 : at + max(room, 1)]:
        filled += run[-1].header.size
        if _is_full(log, segment, filled, first_timestamp, batch.header, now_ms):
            break
        run.append(batch)
    log.append_run(view[run[0].start : run[-1].end], [each.header for each in run])
    return len(run)


def _segment_for(log: PartitionLog, header: BatchHeader, now_ms: int) -> Segment:
    """Returns the segment that the batch goes into, rolled if the active one is full. Raises OSError and StorageError."""
    segment = log.segments.active
    if segment.size:
        is_full = _is_full(log, segment, segment.size, segment.first_timestamp, header, now_ms)
    else:
        is_full = not segment.can_hold(header.last_offset)
    if not is_full:
        return segment
    if header.last_offset - log.log_end_offset > MAX_RELATIVE_OFFSET:  # the gap before the batch is larger than a segment
        return log.skip_to(header.base_offset)
    return log.roll()


def _is_full(log: PartitionLog, segment: Segment, filled: int, first_timestamp: int, header: BatchHeader, now_ms: int) -> bool:
    """Returns whether a leader would roll before this batch if the segment held `filled` bytes already; `first_timestamp` is what
    `is_too_old` wants.
    """
    if not has_room(segment, header.size, header.last_offset, log.config.segment_bytes, filled):
        return True
    return is_too_old(segment, header, log.roll_after_ms, first_timestamp, now_ms)
