"""The cleaner's two walks over the plain batches in a block of a segment's file. Compiled by mypyc.

Most batches of most logs are plain: neither compressed nor part of a transaction, nor a marker, and without a delete horizon. A
walk takes them one after the other, without a call of the interpreter or an object for each, and goes as far as nothing is
unusual. A batch that is not plain, not sound or not whole is left to the caller, which goes on behind it. So a walk is quicker
than the caller alone, and does nothing else.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64

from ottla.log.compaction.filtered_batch import Rules, what_stays
from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.compaction.record_loops import join_runs, put_keys, survivors
from ottla.wire.batch import CODEC_MASK, CONTROL_BIT, DELETE_HORIZON_BIT, MAGIC, TRANSACTIONAL_BIT, read_header
from ottla.wire.crc import crc32c
from ottla.wire.integers import int32_at, int64_at
from ottla.wire.kernel import BATCH_HEADER, COPY_BELOW, LARGE

_NOT_PLAIN: Final = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


def plain_size(block: bytes, at: i64) -> i64:
    """Returns the size of the batch at `at` if it is plain, its offsets are possible and all of it is in the block, else 0."""
    length: i64 = len(block)
    if at + BATCH_HEADER > length or block[at + 16] != MAGIC or block[at + 22] & _NOT_PLAIN != 0:
        return 0
    base_offset: i64 = int64_at(block, at)
    size: i64 = int32_at(block, at + 8) + 12
    if base_offset < 0 or base_offset > LARGE or int32_at(block, at + 23) < 0 or size < BATCH_HEADER or size > length - at:
        return 0
    return size


def note_batches(offsets: OffsetMap, block: bytes, at: i64, from_offset: i64) -> tuple[int, int]:
    """Puts the keys of the plain batches that begin at block[at] into the map, from offset `from_offset` on, and moves its
    `latest_offset` along. Returns (where the first batch begins that is left to the caller, records read). A batch is left also
    if it does not decode or does not fit the map; some of its keys may be in the map then."""
    count: i64 = 0
    while True:
        size = plain_size(block, at)
        if size == 0:
            break
        base_offset: i64 = int64_at(block, at)
        last_offset: i64 = base_offset + int32_at(block, at + 23)
        if last_offset >= from_offset:
            try:
                read, had_room = put_keys(offsets, block, base_offset, from_offset, at + size, at + BATCH_HEADER)
            except ValueError:
                break
            if not had_room:
                break
            count += read
            offsets.latest_offset = last_offset
        at += size
    return int(at), int(count)


class Passed:
    """Holds what `pass_batches` found: counts of records, and of what stays the bytes, in parts that do not keep the block, and
    for each batch (size in bytes, last offset, greatest timestamp). `next_offset` is the least at which the next batch may
    begin."""

    def __init__(self, next_offset: i64) -> None:
        self.next_offset: i64 = next_offset
        self.read: i64 = 0
        self.kept: i64 = 0
        self.keyless: i64 = 0
        self.parts: list[bytes] = []
        self.batches: list[tuple[int, int, int]] = []


def pass_batches(rules: Rules, block: bytes, at: i64, passed: Passed) -> int:
    """Goes over the plain batches that begin at block[at] and adds to `passed` what stays of them. Returns where the first batch
    begins that is left to the caller."""
    offsets: OffsetMap = rules.offsets
    view = memoryview(block)
    begun: i64 = -1  # where the batches begin that stay as they are, up to `at`
    while True:
        size = plain_size(block, at)
        base_offset: i64 = int64_at(block, at) if size > 0 else -1
        if base_offset < passed.next_offset:
            break
        stop: i64 = at + size
        crc = crc32c(block[at + 21 : stop]) if size < COPY_BELOW else crc32c(view[at + 21 : stop])
        if crc != int32_at(block, at + 17) & 0xFFFFFFFF:
            break
        try:
            found = survivors(offsets, block, base_offset, int64_at(block, at + 27), False, stop, at + BATCH_HEADER)
        except ValueError:
            break
        last_offset: i64 = base_offset + int32_at(block, at + 23)
        if found.kept > 0 and found.kept == found.read and found.tombstones == 0:
            if begun < 0:
                begun = at
            passed.batches.append((int(size), int(last_offset), int(int64_at(block, at + 35))))
        else:
            if begun >= 0:
                passed.parts.append(block[begun:at])
                begun = -1
            staying: deque[bytes] = deque()
            if found.kept > 0:
                staying.append(join_runs(block, found.runs))
            batch = view[at:stop]
            result = what_stays(batch, read_header(batch), found, staying, rules)
            if result.parts:
                passed.batches.append((sum([len(part) for part in result.parts]), int(last_offset), result.max_timestamp))
                passed.parts += [bytes(part) for part in result.parts]
        passed.next_offset = last_offset + 1
        passed.read += found.read
        passed.kept += found.kept
        passed.keyless += found.keyless
        at = stop
    if begun >= 0:
        passed.parts.append(block[begun:at])
    return int(at)
