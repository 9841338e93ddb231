"""wire/records.py: what producers wrote is read to the last byte, what we write Kafka reads."""

from __future__ import annotations

import random
from collections import deque

import pytest

from ottla.wire import compression, kernel
from ottla.wire.batch import CorruptBatch, read_header
from ottla.wire.compression import NAMES, NUMBERS, CompressionError, TooLarge
from ottla.wire.records import Record, build_batch, decode_records, encode_records, iter_records, records_section, varint
from tests.kafka_oracle import KafkaOracle, as_word
from tests.wire.samples import NOW_MS, foreign_batches, sample_records

FOREIGN = foreign_batches()


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_records_are_read(name: str) -> None:
    records = decode_records(memoryview(FOREIGN[name]))
    assert records == sample_records(len(records))
    assert len(records) >= 3


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_records_are_encoded_to_the_same_bytes(name: str) -> None:
    data = FOREIGN[name]
    header = read_header(data)
    section = records_section(data, header)
    records = decode_records(data)
    assert encode_records(records, header.base_timestamp) == section
    code, most, index, bad = kernel.check_records(
        section, 0, len(section), len(records), NOW_MS, kernel.MIN_INT64, kernel.MAX_INT64, False, kernel.MAX_INT64
    )
    assert (code, most, index, bad) == (kernel.OK, header.max_timestamp, header.last_offset_delta, None)


@pytest.mark.parametrize("codec", NAMES)
def test_round_trip_through_every_codec(codec: int) -> None:
    records = [Record(100 + i, r.timestamp_ms, r.key, r.value, r.headers) for i, r in enumerate(sample_records(50))]
    assert decode_records(build_batch(records, base_offset=100, codec=codec)) == records


def test_gaps_in_offsets_can_be_written() -> None:
    records = sample_records(3)
    section = encode_records(records, NOW_MS, [0, 5, 9])
    assert [span[3] for span in kernel.spans(section, 0, len(section))] == [0, 5, 9]


@pytest.mark.parametrize("value", [0, -1, 1, 63, -64, 64, 8191, 8192, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_varints_are_read_back(value: int) -> None:
    data = varint(value)
    assert kernel.varlong(data, 0, len(data)) == (value, len(data))
    if -(2**31) <= value < 2**31:
        assert kernel.varint(data, 0, len(data)) == (value, len(data))


def test_header_names_that_are_not_utf8_survive() -> None:
    records = [Record(0, NOW_MS, None, None, [(b"\xff\xfe".decode("utf-8", "surrogateescape"), b"x")])]
    data = build_batch(records)
    assert b"\xff\xfe" in data
    assert decode_records(data) == records


def test_batches_that_do_not_hold_together_are_refused() -> None:
    data = build_batch(sample_records(4))
    count_off = bytearray(data)
    count_off[60] += 1
    for wrong in (data[:-1], data[:8] + bytes(4) + data[12:], bytes(count_off)):
        with pytest.raises(CorruptBatch):
            decode_records(wrong)
    with pytest.raises(ValueError, match="beyond the batch"):
        decode_records(data[:11] + bytes([data[11] - 1]) + data[12:])
    gzip_without_stream = data[:22] + b"\1" + data[23:]
    with pytest.raises(CompressionError):
        decode_records(gzip_without_stream)


def test_decompression_is_bounded() -> None:
    data = build_batch([Record(0, NOW_MS, None, bytes(100_000))], codec=compression.ZSTD)
    with pytest.raises(CompressionError):
        decode_records(data, max_bytes=99_999)


def test_records_may_be_read_one_after_the_other() -> None:
    records = [Record(at, NOW_MS + at, b"%d" % at, bytes(900), []) for at in range(3000)]
    for codec in NAMES:
        data = build_batch(records, codec=codec)
        assert list(iter_records(data)) == records
    found: list[Record] = []
    with pytest.raises(TooLarge):
        deque(map(found.append, iter_records(data, 2_000_000)))
    assert 500 < len(found) < 3000
    assert found == records[: len(found)]
    wrong = bytearray(data)
    wrong[60] += 1
    with pytest.raises(CorruptBatch):
        list(iter_records(wrong))


@pytest.mark.oracle
def test_both_ways_with_kafkas_own_classes() -> None:
    """Kafka writes, we read, and the other way round: every codec and level, random records."""
    seeded = random.Random(11)
    settings: list[tuple[str, int | None]] = [("none", None), ("snappy", None)]
    settings += [("gzip", level) for level in (None, 1, 6, 9)]
    settings += [("lz4", level) for level in (None, 1, 9, 17)]
    settings += [("zstd", level) for level in (None, -5, 3, 12, 22)]
    with KafkaOracle() as kafka:
        for codec, level in settings:
            for count in (1, 2, 300):
                records = random_records(seeded, count)
                theirs = kafka.build(records, codec, "-" if level is None else level, producer=(count, 1, 5))
                assert decode_records(theirs) == records
                ours = build_batch(
                    records, codec=NUMBERS[codec], level=level, producer_id=count, producer_epoch=1, base_sequence=5
                )
                if codec == "none":
                    assert ours == theirs
                what, words = kafka.read(ours)
                most = max(record.timestamp_ms for record in records)
                assert what == f"{codec}/CreateTime/{most}"
                assert words == [f"{record.offset},{as_word(record)}" for record in records]


def random_records(seeded: random.Random, count: int) -> list[Record]:
    def maybe(size: int) -> bytes | None:
        return None if seeded.random() < 0.2 else seeded.randbytes(seeded.randrange(size))

    return [
        Record(
            offset,
            seeded.choice((-1, 0, NOW_MS, NOW_MS + seeded.randrange(-(10**9), 10**9), 2**62)),
            maybe(20),
            maybe(seeded.choice((10, 200, 3000))),
            [(seeded.choice(("", "h", "köpf", "x" * 70)), maybe(30)) for _ in range(seeded.choice((0, 0, 1, 3)))],
        )
        for offset in range(count)
    ]
