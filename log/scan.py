"""Walks through a segment's file from batch to batch, header by header.

A segment is a sequence of v2 record batches (KIP-98; `wire.batch` has the fields). Each says its length, so that a walk reads
only headers: a window of the file at a time while batches are small, one short read a batch if they are larger than the window.
Nothing is allocated by a length that a header declares before that was compared with the bytes that are there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.log.disk.files import File
from ottla.log.errors import CorruptRecord
from ottla.wire.kernel import BAD_FRAME, NEED_MORE, BatchScan

HEADER_SIZE: Final = 61
OVERHEAD: Final = 12  # base offset and length, which the length does not include
MAGIC: Final = 2

# The fields by which a batch is found: base offset, length, magic, last offset delta, max timestamp.
_LOCATE: Final = struct.Struct(">qi4xb6xi8xq")
_locate = _LOCATE.unpack_from
_LENGTH: Final = struct.Struct(">i")

FIND_BYTES: Final = 8192  # an index interval and a bit more
WINDOW_BYTES: Final = 64 * 1024
READ_BYTES: Final = 1024 * 1024
CHECK_BYTES: Final = 128 * 1024  # a block of this size comes from memory in use; one of 1 MiB from the kernel, page by page
_MANY_PRODUCER_BATCHES: Final = 10_000


ProducerBatch = tuple[int, int, int, int]
"""Position, size, producer id and kind of a batch; wire.kernel.BatchScan describes them."""


class Located(NamedTuple):
    """A batch in a file: where it starts, its whole size, and the offsets and the greatest timestamp that its header declares."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def walk_headers(file: File, start: int, end: int, window_bytes: int = WINDOW_BYTES) -> Iterator[tuple[int, int, bytes, int]]:
    """Yields (position, size, buffer, at) of each batch in file[start:end]; buffer[at:at + HEADER_SIZE] is its header.

    `start` must be a batch's first byte. Raises CorruptRecord, naming the position, where no complete batch of magic 2 follows.
    """
    position = start
    buffer, origin = b"", start
    while position < end:
        at = position - origin
        if at + HEADER_SIZE > len(buffer):
            buffer, origin, at = file.pread(min(window_bytes, end - position), position), position, 0
            if len(buffer) < HEADER_SIZE:
                raise CorruptRecord(f"{file!r}: {end - position} bytes at position {position} are not a complete batch")
        size = _LENGTH.unpack_from(buffer, at + 8)[0] + OVERHEAD
        if size < HEADER_SIZE or size > end - position or buffer[at + 16] != MAGIC:
            raise CorruptRecord(f"{file!r}: no complete batch at position {position}")
        yield position, size, buffer, at
        position += size


def walk_producers(
    file: File, start: int, end: int, known: Sequence[ProducerBatch] | None
) -> Iterator[tuple[int, int, bytes, int]]:
    """Walks like `walk_headers`, for a caller that needs only producers: if their batches are `known`, it yields only those."""
    if known is None:
        yield from walk_headers(file, start, end)
        return
    for position, size, _, _ in known:
        if start <= position < end:
            yield position, size, file.pread(HEADER_SIZE, position), 0


def walk(file: File, start: int, end: int, window_bytes: int = WINDOW_BYTES) -> Iterator[Located]:
    """Yields the batches in file[start:end] with their places. Raises CorruptRecord as `walk_headers` does."""
    for position, size, buffer, at in walk_headers(file, start, end, window_bytes):
        base_offset, _, _, last_offset_delta, max_timestamp = _locate(buffer, at)
        yield Located(position, size, base_offset, base_offset + last_offset_delta, max_timestamp)


def walk_ascending(file: File, end: int, base_offset: int) -> Iterator[Located]:
    """Yields what `walk` yields from the file's first byte on. Raises CorruptRecord also where the offsets do not ascend from
    `base_offset`."""
    for batch in walk(file, 0, end):
        if not base_offset <= batch.base_offset <= batch.last_offset:
            wrong = f"the offsets {batch.base_offset} to {batch.last_offset} where {base_offset} is next"
            raise CorruptRecord(f"{file!r}: the batch at position {batch.position} has {wrong}")
        base_offset = batch.last_offset + 1
        yield batch


def find(file: File, start: int, end: int, offset: int) -> Located | None:
    """Returns the first batch in file[start:end] that ends at or after `offset`, or None. Raises CorruptRecord as `walk_headers`
    does.

    It does what `walk` does without a generator, because every read that does not begin where another ended comes through here.
    """
    position = start
    buffer, origin = b"", start
    while position < end:
        at = position - origin
        if at + HEADER_SIZE > len(buffer):
            buffer, origin, at = file.pread(min(FIND_BYTES, end - position), position), position, 0
            if len(buffer) < HEADER_SIZE:
                raise CorruptRecord(f"{file!r}: {end - position} bytes at position {position} are not a complete batch")
        base_offset, length, magic, last_offset_delta, max_timestamp = _locate(buffer, at)
        size = length + OVERHEAD
        if size < HEADER_SIZE or size > end - position or magic != MAGIC:
            raise CorruptRecord(f"{file!r}: no complete batch at position {position}")
        if base_offset + last_offset_delta >= offset:
            return Located(position, size, base_offset, base_offset + last_offset_delta, max_timestamp)
        position += size
    return None


def walk_batches(file: File, start: int, end: int, read_bytes: int = READ_BYTES) -> Iterator[tuple[int, memoryview]]:
    """Yields (position, the batch's bytes), reading about `read_bytes` at a time. Raises CorruptRecord as `walk_headers` does.

    A view stays valid for as long as the caller keeps it; it keeps the block in which it was read alive.
    """
    position = start
    while position < end:
        block, at = block_at(file, position, end, read_bytes), 0
        while (batch := batch_in(block, at)) is not None:
            yield position + at, batch
            at += len(batch)
        position += at


def block_at(file: File, position: int, end: int, read_bytes: int) -> bytes:
    """Returns the bytes from `position` on, which must be a batch's first and lies before `end`: about `read_bytes`, and at least
    that batch, whole. Raises CorruptRecord as `walk_headers` does."""
    block = file.pread(min(max(read_bytes, HEADER_SIZE), end - position), position)
    if len(block) < HEADER_SIZE:
        raise CorruptRecord(f"{file!r}: {end - position} bytes at position {position} are not a complete batch")
    size = _LENGTH.unpack_from(block, 8)[0] + OVERHEAD
    if HEADER_SIZE <= size <= end - position and block[16] == MAGIC:
        if size <= len(block):
            return block
        block = file.pread(size, position)
        if size <= len(block):
            return block
    raise CorruptRecord(f"{file!r}: no complete batch at position {position}")


def batch_in(block: bytes, at: int) -> memoryview | None:
    """Returns the batch at block[at], None if no batch is there or not all of it."""
    if at + HEADER_SIZE > len(block):
        return None
    size = _LENGTH.unpack_from(block, at + 8)[0] + OVERHEAD
    return memoryview(block)[at : at + size] if HEADER_SIZE <= size <= len(block) - at and block[at + 16] == MAGIC else None


def check_batches(file: File, end: int, scan: BatchScan, progress: Callable[[int], None]) -> int:
    """Takes `scan` through file[scan.sound:end], reading CHECK_BYTES or a batch at a time; `progress` is called with the size of
    each read in bytes.

    Returns NEED_MORE if everything was sound, else the code of what is wrong with the batch at `scan.sound` (wire.kernel).
    """
    most = _MANY_PRODUCER_BATCHES
    want = CHECK_BYTES
    while scan.sound < end:
        position = scan.sound
        data = file.pread(min(want, end - position), position)
        code = scan.feed(data, end)
        progress(scan.sound - position)
        if code != NEED_MORE:
            return code
        if scan.sound == position:
            if len(data) < min(want, end - position):
                return BAD_FRAME  # the file is shorter than it was
            want = _LENGTH.unpack_from(data, 8)[0] + OVERHEAD  # the batch is larger than a read, and fits the file
        if len(scan.producers) > most:
            scan.thin()
            most = max(_MANY_PRODUCER_BATCHES, 2 * len(scan.producers))
    scan.thin()
    return NEED_MORE


def only_zeros(file: File, start: int, end: int) -> bool:
    """Returns whether file[start:end] has only zeros, as preallocation leaves them, or a file system that lost the bytes and kept
    the size."""
    while start < end:
        data = file.pread(min(READ_BYTES, end - start), start)
        if not data or data.count(0) != len(data):
            return False
        start += len(data)
    return True
