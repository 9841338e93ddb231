"""Looks into what was read from the log before it is acquired: it finds the batches in it, and those of aborted transactions.

A read is a region of a segment (log/disk/files.py), which ends wherever the byte limit fell; an incomplete batch at its end is
ignored. Only batch headers, and the records of markers, are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.disk.files import FileSlice
from ottla.log.errors import CorruptRecord
from ottla.log.markers import read_marker
from ottla.log.transactions import aborted_in_read
from ottla.wire.batch import CONTROL_BIT, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, TRANSACTIONAL_BIT

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog

WINDOW_BYTES: Final = 64 * 1024

# Base offset, length, magic, attributes, last offset delta, producer id.
_HEADER: Final = Struct(">qi4xb4xhi16xq")


class LogBatch(NamedTuple):
    """A batch of the log. `position` is in the segment's file; both offsets are the batch's own, even if compaction removed some
    of its records.
    """

    base_offset: int
    last_offset: int
    position: int
    size: int
    attributes: int
    producer_id: int


def batches_in(read: FileSlice, end: int = -1, max_records: int = 1 << 62) -> list[LogBatch]:
    """Returns the whole batches of a read as far as a member may acquire them: up to the first that begins more than
    `max_records` after both offset `end` and the first batch. Raises CorruptRecord if there is no valid batch, and OSError.
    """
    file, position, stop = read.file, read.position, read.position + len(read)
    buffer, origin = b"", position
    found: list[LogBatch] = []
    while stop - position >= HEADER_SIZE:
        at = position - origin
        if at + HEADER_SIZE > len(buffer):
            buffer, origin, at = file.pread(min(WINDOW_BYTES, stop - position), position), position, 0
            if len(buffer) < HEADER_SIZE:
                raise CorruptRecord(f"{file!r}: the {stop - position} bytes at position {position} are not a whole batch")
        base_offset, length, magic, attributes, last_offset_delta, producer_id = _HEADER.unpack_from(buffer, at)
        size = length + LENGTH_OVERHEAD
        if size < HEADER_SIZE or magic != MAGIC:
            raise CorruptRecord(f"{file!r}: no batch at position {position}")
        if size > stop - position:
            break
        found.append(LogBatch(base_offset, base_offset + last_offset_delta, position, size, attributes, producer_id))
        if base_offset > max(end, found[0].base_offset) + max_records:
            break
        position += size
    return found


def cut(read: FileSlice, batches: Sequence[LogBatch], first_offset: int, last_offset: int) -> FileSlice:
    """Cuts a read down to its batches from `first_offset` to `last_offset`. A read of a single batch stays as it is."""
    if len(batches) == 1:
        return read
    start, end = batches[0].position, batches[-1].position + batches[-1].size
    for batch in batches:
        if batch.base_offset <= first_offset:
            start = batch.position
        elif batch.base_offset > last_offset:
            end = batch.position
            break
    return FileSlice(read.file, start, end - start)


def aborted_batches(log: PartitionLog, fetch_offset: int, read: FileSlice, batches: Sequence[LogBatch]) -> list[LogBatch]:
    """Returns those of the batches that belong to aborted transactions. Raises StorageError, CorruptRecord and OSError."""
    transactions = sorted(aborted_in_read(log, fetch_offset, read), key=lambda aborted: aborted.first_offset, reverse=True)
    if not transactions:
        return []
    aborting: set[int] = set()
    found = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while transactions and transactions[-1].first_offset <= batch.last_offset:
            aborting.add(transactions.pop().producer_id)
        if batch.attributes & CONTROL_BIT:
            if batch.producer_id in aborting and _ends_aborted(read, batch):
                aborting.remove(batch.producer_id)
        elif batch.attributes & TRANSACTIONAL_BIT and batch.producer_id in aborting:
            found.append(batch)
    return found


def _ends_aborted(read: FileSlice, batch: LogBatch) -> bool:
    try:
        marker = read_marker(read.file.pread(batch.size, batch.position))
    except ValueError as error:
        raise CorruptRecord(f"{read.file!r}: no marker at position {batch.position}: {error}") from error
    return marker is not None and marker.aborted
