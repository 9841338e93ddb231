"""Records as objects, for code that looks inside batches: coordinators, tests, tools. Produce and Fetch never make such objects.

wire/kernel.py describes the layout of a record; kernel.spans finds its parts, and this module cuts them out. Offsets and
timestamps become absolute here: the header's base plus the record's delta, or, in a LogAppendTime batch, the header's maximum
timestamp for every record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.wire import kernel
from ottla.wire.batch import (
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    CorruptBatch,
    read_header,
    wrap,
)
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES, NONE, decompress
from ottla.wire.primitives import Buffer
from ottla.wire.record_pieces import record_pieces

_NULL: Final = b"\x01"  # the zigzag varint of -1

Header = tuple[str, bytes | None]


@dataclass(slots=True)
class Record:
    """One record. `offset` is absolute in a record that was read; when a record is written, only its place in the batch counts.

    Header keys are UTF-8; other bytes are kept as surrogate escapes, because no broker checks them.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] = field(default_factory=list)


def records_section(batch: Buffer, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Returns the records section of a whole batch, decompressed. Raises CompressionError."""
    section = memoryview(batch)[HEADER_SIZE : header.size]
    if header.codec == NONE:
        return bytes(section)
    return decompress(header.codec, section, max_bytes)


def decode_records(batch: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
    """Returns the records of one whole batch (the CRC is not checked). Raises CorruptBatch, CompressionError or another
    ValueError.

    As objects, small records take fifty times their bytes: for batches that clients wrote, there is `iter_records`.
    """
    header = _whole_header(batch)
    if header.codec != NONE:
        return list(iter_records(batch, max_bytes))
    section = bytes(memoryview(batch)[HEADER_SIZE : header.size])
    records = _records_in(section, len(section), header)
    _check_count(len(records), header)
    return records


def iter_records(
    batch: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES, max_record_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """Yields what `decode_records` returns, a few thousand at a time in memory, and raises the same. A batch whose records take
    more than `max_bytes`, or one of whose records takes more than `max_record_bytes`, yields those before and then raises
    TooLarge."""
    header = _whole_header(batch)
    count = 0
    for piece, end in record_pieces(header.codec, memoryview(batch)[HEADER_SIZE : header.size], max_bytes, max_record_bytes):
        records = _records_in(piece, end, header)
        count += len(records)
        yield from records
    _check_count(count, header)


def _whole_header(batch: Buffer) -> BatchHeader:
    header = read_header(batch)
    if header.size > len(batch) or header.size < HEADER_SIZE:
        raise CorruptBatch(f"a batch of {header.size} bytes in {len(batch)}")
    return header


def _check_count(count: int, header: BatchHeader) -> None:
    if count != header.records_count:
        raise CorruptBatch(f"{count} records where the header says {header.records_count}")


def _records_in(section: bytes, section_end: int, header: BatchHeader) -> list[Record]:
    """Returns the records in section[:section_end], which are of the batch with this header."""
    appended = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    records = []
    for _, end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size in kernel.spans(section, 0, section_end):
        headers_at = value_at + max(value_size, 0)
        records.append(
            Record(
                header.base_offset + offset_delta,
                header.base_timestamp + timestamp_delta if appended is None else appended,
                None if key_size < 0 else section[key_at : key_at + key_size],
                None if value_size < 0 else section[value_at : value_at + value_size],
                _headers(section, headers_at, end),
            )
        )
    return records


def _headers(section: bytes, at: int, end: int) -> list[Header]:
    if end - at == 1:
        return []
    return [
        (
            section[key_at : key_at + key_size].decode("utf-8", "surrogateescape"),
            None if value_size < 0 else section[value_at : value_at + value_size],
        )
        for key_at, key_size, value_at, value_size in kernel.header_spans(section, at, end)
    ]


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: int = 0,
    level: int | None = None,
    timestamp_type: int = CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Returns one whole batch of `records`, numbered from `base_offset` in their order (their own offsets do not count).

    The base timestamp is the first record's and the maximum the largest, as in batches that Kafka builds.
    """
    if not records:
        raise ValueError("a batch holds at least one record")
    base_timestamp = records[0].timestamp_ms
    return wrap(
        encode_records(records, base_timestamp),
        len(records),
        base_timestamp,
        max(record.timestamp_ms for record in records),
        base_offset=base_offset,
        codec=codec,
        level=level,
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        partition_leader_epoch=partition_leader_epoch,
    )


def encode_records(records: Sequence[Record], base_timestamp: int, offset_deltas: Sequence[int] | None = None) -> bytes:
    """Returns the records section of a batch, uncompressed. `offset_deltas` are 0, 1, 2 … unless given (compaction leaves
    gaps)."""
    parts: list[bytes] = []
    for index, record in enumerate(records):
        delta = index if offset_deltas is None else offset_deltas[index]
        body = [
            b"\x00",
            varint(record.timestamp_ms - base_timestamp),
            varint(delta),
            *_sized(record.key),
            *_sized(record.value),
            varint(len(record.headers)),
        ]
        for name, value in record.headers:
            encoded = name.encode("utf-8", "surrogateescape")
            body += (varint(len(encoded)), encoded, *_sized(value))
        joined = b"".join(body)
        parts += (varint(len(joined)), joined)
    return b"".join(parts)


def encode_values(values: Iterable[bytes]) -> bytes:
    """Returns the records section of a batch of plain values, uncompressed: all have the batch's base timestamp, and no keys."""
    parts: list[bytes] = []
    for delta, value in enumerate(values):
        before = b"\x00\x00" + varint(delta) + _NULL + varint(len(value))
        parts += (varint(len(before) + len(value) + 1), before, value, b"\x00")
    return b"".join(parts)


def _sized(value: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if value is None else (varint(len(value)), value)


def varint(value: int) -> bytes:
    """Returns the zigzag varint of a signed 64-bit integer (a 32-bit one has the same form)."""
    value = ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF
    if value < 128:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE: Final = [bytes((value,)) for value in range(128)]
