"""Record batches as clients send them and logs hold them: an input is any bytes, and whether their length and CRC are set right.

- Walking over batches ends, or raises CorruptBatch, and what it yields lies side by side.
- Records are decoded, or the error is one of MALFORMED; one by one or all at once makes no difference. What was decoded is
  encoded, and decodes as the same.
- The loops of wire/kernel.py and wire/columns.py agree on which records there are.
- A batch that `validate_for_append` takes is whole and sound: its CRC fits, its records decode, are as many as it says, have the
  offsets 0, 1, 2 ... and the greatest timestamp that its header says, and it would be taken again and left as it is. A batch
  that is refused is so by a LogError.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ottla.log.errors import LogError
from ottla.log.validate import BatchRules, Origin, ValidatedBatch, validate_for_append
from ottla.wire import columns, kernel
from ottla.wire.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    CorruptBatch,
    check_crc,
    iter_batches,
    read_header,
)
from ottla.wire.frame import MALFORMED
from ottla.wire.records import Record, build_batch, decode_records, encode_records, iter_records, records_section
from tests.fuzz.draw import Draw
from tests.fuzz.sound import with_right_crc, with_right_length

_NOW_MS: Final = 1_700_000_000_000
_MAX_BYTES: Final = 200_000
_MAX_RECORD_BYTES: Final = 100_000
_MAX_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of a topic that validation reads."""

    max_message_bytes: int = 100_000
    segment_bytes: int = 50_000
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _MAX_INT64
    message_timestamp_after_max_ms: int = _MAX_INT64
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    max_decompressed_message_bytes: int = _MAX_RECORD_BYTES
    max_decompressed_batch_bytes: int = _MAX_BYTES


_SETTINGS: Final = (
    _Settings(),
    _Settings(cleanup_policy=frozenset({"compact"})),
    _Settings(message_timestamp_type="LogAppendTime"),
    _Settings(message_timestamp_before_max_ms=3_600_000, message_timestamp_after_max_ms=3_600_000),
    _Settings(compression_type="uncompressed"),
    _Settings(compression_type="gzip"),
    _Settings(compression_type="snappy"),
    _Settings(compression_type="lz4"),
    _Settings(compression_type="zstd"),
    _Settings(max_decompressed_batch_bytes=300, max_decompressed_message_bytes=200),
)
_ORIGINS: Final = (Origin.CLIENT, Origin.CLIENT, Origin.COORDINATOR, Origin.RAFT_LEADER)


def check(data: bytes) -> None:
    draw = Draw(data)
    settings = draw.one_of(_SETTINGS)
    origin = draw.one_of(_ORIGINS)
    repairs = draw.byte()
    batch = draw.rest()
    if not repairs & 1:
        batch = with_right_length(batch)
    if not repairs & 2:
        batch = with_right_crc(batch)
    _check_walk(batch)
    _check_records(batch)
    _check_validation(batch, settings, origin)


def _check_walk(data: bytes) -> None:
    at = 0
    try:
        for header, view in iter_batches(data):
            assert bytes(view) == data[at : at + header.size]
            assert (header.magic, len(view)) == (MAGIC, header.size)
            at += header.size
    except CorruptBatch:
        return
    left = data[at:]
    assert len(left) < HEADER_SIZE or read_header(left).size > len(left), "the walk ended before the end"


def _decoded(batch: bytes) -> list[Record] | None:
    try:
        return decode_records(batch, _MAX_BYTES)
    except MALFORMED:
        return None


def _check_records(batch: bytes) -> None:
    records = _decoded(batch)
    found: list[Record] = []
    try:
        found.extend(iter_records(batch, _MAX_BYTES))
    except MALFORMED:
        assert records is None, "records are decoded all at once, and not one by one"
        return
    assert found == records, "records are decoded one by one, and otherwise or not at all at once"
    header = read_header(batch)
    base = 0 if header.timestamp_type == LOG_APPEND_TIME else header.base_timestamp
    section = records_section(batch, header, _MAX_BYTES)
    deltas = [record.offset - header.base_offset for record in records]
    written = encode_records(records, base, deltas)
    _check_loops(section, len(records))
    _check_loops(written, len(records))
    assert _plain(written) == [
        (delta, record.timestamp_ms - base, record.key, record.value) for delta, record in zip(deltas, records, strict=True)
    ]


def _plain(section: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Returns (offset delta, timestamp delta, key, value) of the records in a section."""
    return [
        (
            delta,
            timestamp,
            None if key_size < 0 else section[key_at : key_at + key_size],
            None if value_size < 0 else section[value_at : value_at + value_size],
        )
        for _, _, timestamp, delta, key_at, key_size, value_at, value_size in kernel.spans(section, 0, len(section))
    ]


def _check_loops(section: bytes, count: int) -> None:
    """Checks that all loops find the same number of records."""
    spans = kernel.spans(section, 0, len(section))
    whole, end, _ = kernel.whole_records(section, 0, len(section))
    assert (len(spans), whole, end) == (count, count, len(section))
    wanted = columns.KEYS | columns.VALUES | columns.HEADERS | columns.OFFSETS | columns.TIMESTAMPS
    assert columns.Columns().walk(section, 0, len(section), 0, 0, False, wanted) == count
    code, _, _, _ = kernel.check_records(
        section, 0, len(section), count, 0, kernel.MIN_INT64, kernel.MAX_INT64, False, kernel.MAX_INT64
    )
    in_order = all(span[3] == index for index, span in enumerate(spans))
    assert code == (kernel.OK if in_order else kernel.BAD_OFFSET_DELTA), kernel.REASONS[code]


def _validated(batch: bytes, settings: Any, origin: Origin) -> ValidatedBatch | None:
    try:
        return validate_for_append(memoryview(batch), BatchRules(settings), _NOW_MS, origin)
    except LogError:
        return None


def _check_validation(batch: bytes, settings: _Settings, origin: Origin) -> None:
    valid = _validated(batch, settings, origin)
    if valid is None:
        return
    base_offset, epoch = 1000, 5
    stored = b"".join(valid.parts(base_offset, epoch))
    header = read_header(stored)
    assert (header.base_offset, header.partition_leader_epoch, header.size) == (base_offset, epoch, len(stored))
    assert header.max_timestamp == valid.header.max_timestamp
    assert check_crc(stored, header), "the CRC of a batch that was taken is wrong"
    assert len(stored) <= settings.segment_bytes
    records = list(iter_records(stored, settings.max_decompressed_batch_bytes))
    assert [record.offset for record in records] == list(range(base_offset, base_offset + len(records)))
    assert len(records) == header.records_count
    stamped_by_client = read_header(batch).timestamp_type == LOG_APPEND_TIME  # as in Kafka, its one timestamp counts
    if header.timestamp_type == LOG_APPEND_TIME:
        assert all(record.timestamp_ms == header.max_timestamp for record in records)
    elif not stamped_by_client:
        base = header.base_timestamp
        latest = max((kernel.wrapping_add(base, record.timestamp_ms - base) for record in records), default=kernel.NO_TIMESTAMP)
        assert header.max_timestamp == max(latest, kernel.NO_TIMESTAMP), "the maximum timestamp is not the records'"
    # What the broker stamped, or what a client stamped as if it were one, it may not send again.
    if origin is Origin.CLIENT and not stamped_by_client and header.timestamp_type != LOG_APPEND_TIME:
        assert header.next_offset == base_offset + len(records)
        kept = b"".join(valid.parts(0, -1))
        again = _validated(kept, settings, origin)
        assert again is not None, "a batch that was taken is refused"
        assert b"".join(again.parts(0, -1)) == kept, "a batch that was taken is changed once more"


def seeds() -> Iterator[bytes]:
    records = [
        Record(0, _NOW_MS, b"k", b"value", [("h", b"x"), ("n", None)]),
        Record(1, _NOW_MS - 7, None, b"", []),
        Record(2, _NOW_MS + 9, b"", None, []),
    ]
    for codec in range(5):
        batch = build_batch(records, codec=codec)
        for number in range(len(_SETTINGS)):
            yield bytes((number, 0, 0)) + batch
        yield bytes((0, 0, 3)) + batch
    yield bytes((0, 0, 0)) + build_batch(records[:1], producer_id=7, producer_epoch=0, base_sequence=3, transactional=True)
    yield bytes((0, 2, 0)) + build_batch(records[:1], producer_id=7, producer_epoch=0, control=True)
    yield bytes((2, 0, 0)) + build_batch(records, timestamp_type=LOG_APPEND_TIME)
    two = build_batch(records[:1])
    yield bytes((0, 0, 3)) + two + two[: LENGTH_OVERHEAD + 40]
