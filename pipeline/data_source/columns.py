"""Reads slices of segments as Arrow batches: reads files in pieces, checks CRCs, decompresses batches, and lets C++ cut records
into columns.

The columns are those of Spark's kafka source: key, value (binary), topic, partition, offset, timestamp, timestampType (0
CreateTime, 1 LogAppendTime) and headers; only the requested ones are made. Without key, value and headers the inside of records
is skipped; without timestamps, too, batches without gaps are not even decompressed.

The loop over records is compiled (ottla.wire.columns) and leaves the borders of all fields in one buffer; together with the bytes
of the records that is an Arrow array, from which one `take` copies the values. So every byte is copied once, or twice if batches
are compressed. Control records are never rows, nor, for readers of committed records, are records of aborted transactions.

A slice was cut by the driver, perhaps long ago. If its file has been replaced by now (by a compaction), or is gone, the partition
is opened again and the slice's offsets are looked up in what is there; if they are gone from the log's start, that is DataLoss.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.log.names import DELETED_SUFFIX
from ottla.pipeline.data_source.columns_pile import Found, Job, Pile
from ottla.pipeline.data_source.disk import ReadOnlyFile, open_for_reading
from ottla.pipeline.data_source.segments import (
    MAX_BATCH_BYTES,
    MAX_OFFSET,
    MIN_TIMESTAMP,
    DataLoss,
    Slice,
    SourceError,
    Wanted,
    slices,
    with_log,
)
from ottla.wire.batch import HEADER_SIZE, LOG_APPEND_TIME, MAGIC, BatchHeader, check_crc, read_header
from ottla.wire.columns import HEADERS, KEY_NULL, KEYS, OFFSETS, TIMESTAMPS, VALUE_NULL, VALUES, Columns
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES, NONE, CompressionError, TooLarge
from ottla.wire.kernel import REASONS, whole_records

HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}
"""All columns, in the order of the kafka source."""

_KERNEL: Final = {"key": KEYS, "value": VALUES, "headers": HEADERS, "offset": OFFSETS, "timestamp": TIMESTAMPS}
_READ_BYTES: Final = 1024 * 1024
_BATCH_BYTES: Final = 1024 * 1024  # of an Arrow batch, about: what is copied again is still in the processor's cache then
_BATCH_ROWS: Final = 64 * 1024
_TRIES: Final = 3
_KEPT_BYTES: Final = 16 * 1024 * 1024


def read(
    part: Slice, columns: Sequence[str], *, fail_on_data_loss: bool = True, max_batch_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a slice. Raises SourceError for damage and for a batch that decompresses to more than `max_batch_bytes`,
    and DataLoss for offsets that are gone unless `fail_on_data_loss` is False."""
    _keep_memory()
    for _ in range(_TRIES):
        file = _open(part)
        if file is not None:
            yield from SliceReader(part, columns, max_batch_bytes).batches(file)
            return
        parts = _again(part, fail_on_data_loss)
        if len(parts) != 1:
            for one in parts:
                yield from read(one, columns, fail_on_data_loss=fail_on_data_loss, max_batch_bytes=max_batch_bytes)
            return
        part = parts[0]
    raise SourceError(f"{part.path} is replaced again and again while it is read")


def _keep_memory() -> None:
    """Makes the C library keep freed blocks of a MiB in the process, if it adapts to what was freed (glibc does).

    Otherwise they go back to the system each time, and getting them again, page by page, takes a third of the time of reading.
    """
    bytearray(_KEPT_BYTES)


def _open(part: Slice) -> ReadOnlyFile | None:
    """Opens the file from which the slice was cut, which may have been marked as deleted since; returns None if it is gone."""
    for path in (part.path, part.path + DELETED_SUFFIX):
        try:
            file = open_for_reading(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
        same = os.fstat(file.fileno()).st_ino == part.inode and file.pread(HEADER_SIZE, part.start) == part.header
        if same and file.size >= part.end:
            return file
    return None


def _again(part: Slice, fail_on_data_loss: bool) -> list[Slice]:
    """Returns the slices in which the slice's offsets are now."""
    name, wanted = f"{part.place.topic}-{part.place.partition}", part.wanted
    if not os.path.isdir(part.place.path):
        if fail_on_data_loss:
            raise DataLoss(f"{name} was removed while it was read, {_GO_ON}")
        return []

    def cut(log: Any) -> list[Slice]:
        if log.log_start_offset > wanted.low and fail_on_data_loss:
            raise DataLoss(
                f"{name}: offsets {wanted.low} to {log.log_start_offset - 1} were removed before they were read, {_GO_ON}"
            )
        found = slices(log, part.place, wanted, MAX_OFFSET)
        return [replace(one, aborted=part.aborted) for one in found]

    return with_log(part.place, cut)


_GO_ON: Final = "and failOnDataLoss is true"


class SliceReader:
    """Makes one pass over a slice of an open file."""

    def __init__(self, part: Slice, columns: Sequence[str], max_batch_bytes: int = MAX_DECOMPRESSED_BYTES) -> None:
        self._part = part
        self._max_batch_bytes = max_batch_bytes
        self._columns = list(columns)
        self._schema = pa.schema([(name, TYPES[name]) for name in columns])
        self._asked = sum(_KERNEL.get(name, 0) for name in columns)
        wanted = part.wanted
        self._wanted: Wanted = wanted
        self._times = not wanted.all_times
        self._needs = self._asked | OFFSETS | (TIMESTAMPS if self._times else 0)
        self._keeps_bytes = self._needs & (KEYS | VALUES | HEADERS) != 0
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first, last in sorted(part.aborted):
            self._aborted.setdefault(producer_id, []).append((first, last))
        self._constants: dict[str, pa.Array] = {}

    # Batches of the log

    def batches(self, file: ReadOnlyFile) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the slice. Raises SourceError at a damaged batch."""
        pile = Pile()
        position, end = self._part.start, self._part.end
        want = _READ_BYTES
        while position < end:
            chunk = file.pread(min(want, end - position), position)
            found, size = self._whole_batches(chunk, position)
            if not found:
                if len(chunk) >= HEADER_SIZE and read_header(chunk, 0).base_offset >= self._wanted.high:
                    break  # compacted since, except the first batch: what moved up belongs to the next slice
                if len(chunk) < min(want, end - position) or size > end - position:
                    raise self._damaged(
                        position, f"a batch of {size} bytes, of which {min(len(chunk), end - position)} are there"
                    )
                want = max(size, HEADER_SIZE)
                continue
            want = _READ_BYTES
            jobs = [job for job in found if self._is_wanted(job.header)]
            if self._keeps_bytes and all(job.header.codec == NONE for job in jobs) and not pile.jobs:
                if jobs:  # the piece of the file itself has them all
                    yield from self._columns_of(Found(jobs, chunk, Columns()))
            else:
                for job in jobs:
                    for _ in self._take(pile, job, chunk):
                        if pile.size >= _BATCH_BYTES or pile.rows >= _BATCH_ROWS:
                            yield from self._columns_of(pile.take())
            position = found[-1].position + found[-1].header.size
        if pile.jobs:
            yield from self._columns_of(pile.take())

    def _whole_batches(self, chunk: bytes, position: int) -> tuple[list[Job], int]:
        """Returns the batches in a piece of the file, checked, and the size of the one that is cut."""
        found: list[Job] = []
        at, size = 0, HEADER_SIZE
        while at + HEADER_SIZE <= len(chunk):
            header = read_header(chunk, at)
            size = header.size
            if size < HEADER_SIZE or header.magic != MAGIC:
                raise self._damaged(position + at, "no batch of version 2 begins there")
            if at + size > len(chunk):
                break
            if not check_crc(chunk, header, at):
                raise self._damaged(position + at, "the CRC does not match", header)
            found.append(Job(header, at + HEADER_SIZE, at + size, position + at, header.records_count))
            at += size
        return found, size

    def _is_wanted(self, header: BatchHeader) -> bool:
        """Returns whether the batch can have a wanted row."""
        wanted = self._wanted
        if header.is_control or header.records_count == 0:
            return False
        if header.last_offset < wanted.low or header.base_offset >= wanted.high or header.max_timestamp < wanted.earliest:
            return False
        if self._aborted and header.is_transactional:
            ranges = self._aborted.get(header.producer_id)
            if ranges:
                slot = bisect_right(ranges, (header.base_offset, MAX_OFFSET)) - 1
                return slot < 0 or ranges[slot][1] < header.base_offset
        return True

    def _take(self, pile: Pile, job: Job, chunk: bytes) -> Iterator[None]:
        """Puts a batch into the pile; pauses whenever something was added, because the pile may be full."""
        header = job.header
        if not self._keeps_bytes and self._header_tells(header):
            self._count_up(pile.columns, header)
            pile.count(job)
            yield
        elif header.codec == NONE:
            self._put(pile, job, chunk)
            yield
        else:
            section = memoryview(chunk)[job.start : job.end]
            data = pile.at_once(header.codec, section, self._max_batch_bytes)
            if data is not None:
                self._put(pile, Job(header, 0, len(data), job.position, job.count), data)
                yield
                return
            for piece, part in self._pieces(pile, job, section):
                self._put(pile, part, piece)
                yield

    def _put(self, pile: Pile, job: Job, data: bytes) -> None:
        """Puts a batch, or a piece of one, into the pile; its uncompressed records are where `job` says in `data`."""
        if self._keeps_bytes:
            pile.add(job, memoryview(data)[job.start : job.end])
        else:
            self._walk(pile.columns, data, job)
            pile.count(job)

    def _pieces(self, pile: Pile, job: Job, section: memoryview) -> Iterator[tuple[bytes, Job]]:
        """Yields the records of a compressed batch in pieces, each with its job. Raises SourceError."""
        header, left = job.header, job.count
        last: tuple[bytes, int] | None = None
        try:
            for piece, end in pile.pieces(header.codec, section, self._max_batch_bytes):
                if last is not None and end:
                    count = whole_records(last[0], 0, last[1])[0]
                    left -= count
                    yield last[0], Job(header, 0, last[1], job.position, count)
                if last is None or end:
                    last = piece, end
        except TooLarge as error:
            where = f"position {job.position}, offset {header.base_offset}"
            raise SourceError(f"{self._part.path} has a batch at {where} that is not read: {error} ({MAX_BATCH_BYTES})") from None
        except CompressionError as error:
            raise self._damaged(job.position, str(error), header) from None
        if last is not None:  # it must hold what is left
            yield last[0], Job(header, 0, last[1], job.position, left)

    def _header_tells(self, header: BatchHeader) -> bool:
        """Returns whether all offsets and timestamps are known from the header alone."""
        without_gaps = header.records_count == header.last_offset_delta + 1
        return without_gaps and (self._needs == OFFSETS or header.timestamp_type == LOG_APPEND_TIME)

    def _count_up(self, columns: Columns, header: BatchHeader) -> None:
        """Writes the offsets of a batch without gaps and, if they are needed, the timestamps of records appended at one time."""
        count = header.records_count
        first = int(header.base_offset)
        columns.offsets.write(np.arange(first, first + int(count), dtype="<i8").tobytes())
        if self._needs & TIMESTAMPS:
            columns.timestamps.write(np.full(count, header.max_timestamp, dtype="<i8").tobytes())

    def _walk(self, columns: Columns, buffer: bytes, job: Job) -> None:
        header = job.header
        appended = header.timestamp_type == LOG_APPEND_TIME
        base = header.max_timestamp if appended else header.base_timestamp
        count = columns.walk(buffer, job.start, job.end, header.base_offset, base, appended, self._needs)
        if count != job.count:
            holds = header.records_count + count - job.count
            reason = REASONS[-count] if count < 0 else f"it holds {holds} records and declares {header.records_count}"
            raise self._damaged(job.position, reason, header)

    def _damaged(self, position: int, reason: str, header: BatchHeader | None = None) -> SourceError:
        where = f"position {position}" if header is None else f"position {position}, offset {header.base_offset}"
        return SourceError(f"{self._part.path} is damaged at {where}: {reason}")

    # Columns

    def _columns_of(self, found: Found) -> Iterator[pa.RecordBatch]:
        kernel = found.columns
        if self._keeps_bytes:
            for job in found.jobs:
                self._walk(kernel, found.buffer, job)
        counts = [job.count for job in found.jobs]
        rows = self._rows(kernel, found.jobs)
        total = sum(counts)
        if rows is not None and len(rows) == 0:
            return
        arrays = [self._column(name, kernel, found, counts, total, rows) for name in self._columns]
        if arrays:
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _rows(self, kernel: Columns, jobs: list[Job]) -> Any:
        """Returns the indices of the wanted rows, None if all are wanted, which is nearly always so."""
        wanted = self._wanted
        inside = all(wanted.low <= job.header.base_offset and job.header.last_offset < wanted.high for job in jobs)
        if inside and not self._times:
            return None
        offsets = np.frombuffer(kernel.offsets.getvalue(), dtype="<i8")
        mask = (offsets >= wanted.low) & (offsets < wanted.high)
        if self._times:
            times = np.frombuffer(kernel.timestamps.getvalue(), dtype="<i8")
            if wanted.earliest != MIN_TIMESTAMP:
                mask &= times >= wanted.earliest
            if wanted.latest != MAX_OFFSET:
                mask &= times < wanted.latest
        return None if mask.all() else np.nonzero(mask)[0]

    def _column(self, name: str, kernel: Columns, found: Found, counts: list[int], total: int, rows: Any) -> pa.Array:
        length = total if rows is None else len(rows)
        if name == "topic":
            return self._constant(name, pa.scalar(self._part.place.topic, pa.string()), length)
        if name == "partition":
            return self._constant(name, pa.scalar(self._part.place.partition, pa.int32()), length)
        if name == "timestampType":
            kinds = np.repeat(np.array([job.header.timestamp_type for job in found.jobs], dtype=np.int32), counts)
            return _int32(kinds if rows is None else kinds[rows])
        if name == "offset":
            return _int64(kernel.offsets.getvalue(), rows)
        if name == "timestamp":
            millis = _int64(kernel.timestamps.getvalue(), rows).view(pa.timestamp("ms", tz="UTC"))
            try:
                return pc.cast(millis, TYPES[name])
            except pa.ArrowInvalid:
                raise SourceError(f"{self._part.path} has a timestamp that is out of Spark's range") from None
        if name == "headers":
            return _headers(kernel, found.buffer, rows)
        return self._binary(kernel, found.buffer, name == "key", total, rows)

    def _constant(self, name: str, value: pa.Scalar, length: int) -> pa.Array:
        array = self._constants.get(name)
        if array is None or len(array) < length:
            array = self._constants[name] = pa.repeat(value, length)
        return array.slice(0, length)

    def _binary(self, kernel: Columns, buffer: bytes, keys: bool, total: int, rows: Any) -> pa.Array:
        """Returns the keys or values: every second or fourth element of the array of all borders."""
        both = self._needs & KEYS and self._needs & VALUES
        step, first = (4, 0 if keys else 2) if both else (2, 0)
        flags = np.frombuffer(kernel.flags.getvalue(), dtype=np.uint8)
        nulls = (flags & (KEY_NULL if keys else VALUE_NULL)) != 0
        if rows is not None:
            nulls = nulls[rows]
        if nulls.all():
            return pa.nulls(len(nulls), pa.binary())
        bounds = kernel.bounds.getvalue()
        fields = pa.Array.from_buffers(pa.binary(), step * total - 1, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)])
        indices = np.arange(first, step * total, step, dtype=np.int32)
        if rows is not None:
            indices = indices[rows]
        return fields.take(_int32(indices, ~nulls if nulls.any() else None))


def _int64(data: bytes, rows: Any) -> pa.Array:
    if rows is None:
        return pa.Array.from_buffers(pa.int64(), len(data) // 8, [None, pa.py_buffer(data)])
    return pa.array(np.frombuffer(data, dtype="<i8")[rows])


def _int32(values: Any, valid: Any = None) -> pa.Array:
    """Does what pa.array(values, mask=~valid) does, without copying the values."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.int32(), len(values), [bits, pa.py_buffer(values)])


def _headers(kernel: Columns, buffer: bytes, rows: Any) -> pa.Array:
    """Returns a list of (key, value) for each record, null if it has no headers, as in the kafka source."""
    ends = np.frombuffer(kernel.header_ends.getvalue(), dtype="<i4")
    if rows is None and (len(ends) == 0 or ends[-1] == 0):
        return pa.nulls(len(ends), HEADERS_TYPE)
    count = int(ends[-1]) if len(ends) else 0
    offsets = np.concatenate([np.zeros(1, dtype=np.int32), ends])
    empty = offsets[1:] == offsets[:-1]
    if count == 0:
        return pa.nulls(len(rows), HEADERS_TYPE)
    bounds = kernel.header_bounds.getvalue()
    fields = pa.Array.from_buffers(pa.binary(), 4 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)])
    names = _text(fields.take(pa.array(np.arange(0, 4 * count, 4, dtype=np.int32))))
    nulls = (np.frombuffer(kernel.header_flags.getvalue(), dtype=np.uint8) & VALUE_NULL) != 0
    values = fields.take(pa.array(np.arange(2, 4 * count, 4, dtype=np.int32), mask=nulls))
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS_TYPE.value_type))
    lists = pa.ListArray.from_arrays(pa.array(offsets), pairs, type=HEADERS_TYPE, mask=pa.array(empty))
    return lists if rows is None else lists.take(pa.array(rows))


def _text(names: pa.Array) -> pa.Array:
    """Returns header keys as text. They should be UTF-8, which no broker checks; like Java, this replaces what is not."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
