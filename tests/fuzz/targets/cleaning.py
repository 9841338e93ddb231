"""A cleaning of a compacted log (log/compaction): an input is two segments of batches, most of them sound.

- Whatever the segments hold, they are cleaned, or refused with CorruptRecord, and then no file of the cleaning is left.
- If they were sound, nothing but what compaction may take is gone: of every key the latest record is there, every record that is
  there was there before, at its offset and of its time, and no other is; the new segment is sound as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ottla.log.compaction.cleaner import Cleaner, Throttle
from ottla.log.compaction.cleaning_job import CleaningJob
from ottla.log.errors import CorruptRecord
from ottla.log.names import CLEANED_SUFFIX, LOG_SUFFIX, offset_name
from ottla.log.scan import check_batches, walk_batches
from ottla.wire import kernel
from ottla.wire.batch import LOG_APPEND_TIME, BatchHeader, read_header, stamp
from ottla.wire.kernel import NEED_MORE, BatchScan
from ottla.wire.records import Header, Record, build_batch, decode_records
from tests.fuzz.draw import Draw, block
from tests.fuzz.targets.scan import file_of
from tests.memdisk import MemDisk

_PATH: Final = "/t-0"
_NOW_MS: Final = 1_700_000_000_000
_SECOND: Final = 9
"""The base offset of the second segment."""
_END: Final = 1_000


class _Kept(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


def check(data: bytes) -> None:
    draw = Draw(data)
    contents = {0: file_of(Draw(draw.block())), _SECOND: file_of(draw)}
    disk = MemDisk(lambda: _NOW_MS)
    disk.makedirs(_PATH)
    for base, content in contents.items():
        disk.write_bytes(f"{_PATH}/{offset_name(base)}{LOG_SUFFIX}", content)
    before = _records(disk, LOG_SUFFIX, contents, end_of_first=_SECOND)
    cleaner = Cleaner(disk, _job(contents), Throttle(1e12, lambda: 0.0, lambda seconds: None))
    try:
        groups = list(cleaner.groups())
    except CorruptRecord:
        assert not [name for name in disk.list(_PATH) if name.endswith(CLEANED_SUFFIX)], "a part of the cleaning is left"
        return
    if before is None:
        return
    after = _records(disk, LOG_SUFFIX + CLEANED_SUFFIX, [group.base_offset for group in groups])
    assert after is not None, "what was cleaned is not sound"
    there = {record.offset: record for record in before}
    assert all(there.get(record.offset) == record for record in after), "a record is there that was not there before"
    latest = {record.key: record for record in before if record.key is not None}
    wanted = [record for record in before if record.key is not None and latest[record.key] is record]
    gone = [record for record in wanted if record not in after]
    assert not [record for record in gone if record.value is not None], f"{gone} are the latest of their keys"
    assert all(latest[record.key].offset == record.offset for record in after if record.key is not None), "a key is there twice"
    assert all(record.key is not None for record in after), "a record without a key is there"


def _job(contents: dict[int, bytes]) -> CleaningJob:
    return CleaningJob(
        topic="t",
        partition=0,
        path=_PATH,
        segments=[(base, len(content)) for base, content in contents.items()],
        dirty_offset=0,
        uncleanable_offset=_END,
        now_ms=_NOW_MS,
        delete_retention_ms=1_000,
        segment_bytes=1 << 20,
        segment_index_bytes=1 << 16,
        index_interval_bytes=100,
        producers=[(7, 5, 0)],
        aborted=[],
        map_bytes=1 << 20,
        load_factor=0.9,
        buffer_bytes=1 << 16,
        bytes_per_second=1e12,
        max_decompressed_batch_bytes=100_000,
        hash_seed=1,
    )


def _records(disk: MemDisk, suffix: str, bases: Any, end_of_first: int = _END) -> list[_Kept] | None:
    """Returns the records of all segments, without markers; None if one of the segments is not sound."""
    found: list[_Kept] = []
    for base, end in zip(bases, (end_of_first, _END), strict=False):
        file = disk.open(f"{_PATH}/{offset_name(base)}{suffix}")
        scan = BatchScan(base, 100, -1)
        if check_batches(file, file.size, scan, lambda size: None) != NEED_MORE or scan.expected > end:
            return None
        for _, view in walk_batches(file, 0, file.size):
            header = read_header(view)
            try:
                records = decode_records(view, 100_000)
            except ValueError:
                return None
            offsets = [record.offset for record in records]
            if offsets != sorted(set(offsets)) or (
                offsets and not header.base_offset <= offsets[0] <= offsets[-1] <= header.last_offset
            ):
                return None
            if not header.is_control:
                found += [_kept(header, record) for record in records]
    return found


def _kept(header: BatchHeader, record: Record) -> _Kept:
    timestamp = record.timestamp_ms
    if header.timestamp_type != LOG_APPEND_TIME:
        timestamp = kernel.wrapping_add(header.base_timestamp, record.timestamp_ms - header.base_timestamp)
    return _Kept(record.offset, timestamp, record.key, record.value, record.headers)


def seeds() -> Iterator[bytes]:
    keys = (b"a", b"b", b"c")
    records = [Record(0, _NOW_MS + at, keys[at % 2], None if at == 1 else b"v%d" % at, [("h", b"x")]) for at in range(3)]
    for codec in range(5):
        for fields in ({}, {"timestamp_type": LOG_APPEND_TIME}):
            first = [_at(0, records, codec=codec, **fields), _at(3, records[:2], codec=codec, **fields)]
            second = [_at(_SECOND, [Record(0, _NOW_MS, b"a", b"new", [])], codec=codec)]
            yield block(_packed(first)) + _packed(second)
    marker = build_batch(
        [Record(0, 1, b"\0\0\0\1", bytes(6), [])], producer_id=7, producer_epoch=0, transactional=True, control=True
    )
    begun = _at(0, records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    yield block(_packed([begun, _stamped(marker, 3)])) + _packed([_at(_SECOND, records)])


def _at(offset: int, records: list[Record], **fields: Any) -> bytes:
    return _stamped(build_batch(records, **fields), offset)


def _stamped(batch: bytes, offset: int) -> bytes:
    return stamp(read_header(batch), offset, 1) + batch[16:]


def _packed(batches: list[bytes]) -> bytes:
    return b"".join(b"\0" + block(batch) for batch in batches)
