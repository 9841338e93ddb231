"""Produce: what is appended, what is refused and how (docs/kafka-behaviour.md)."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

from compat_tests.wire import CRC_AT, SILENT, TIME_MS, Wire, batch, patched
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.batch import read_header
from ottla.wire.compression import ZSTD, compress
from ottla.wire.messages import metadata, produce
from ottla.wire.records import Record, build_batch, decode_records, encode_records

LENGTH_AT, EPOCH_AT, MAGIC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, BASE_TIME_AT, MAX_TIME_AT, COUNT_AT = 8, 12, 16, 21, 23, 27, 35, 57
HEADER = 61
THREE = batch(b"a", b"bb", b"ccc")


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        named: str | bytes = wire.topic_ids[topic] if version >= 13 else topic
        return [wire.produce(named, THREE, version=version) for _ in range(2)], wire.fetch(topic)

    check(wires, "P1", scenario)


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("version", [3, 6, 7, 9])
def test_codecs_come_back_as_they_went(wires: dict[str, Wire], codec: int, version: int) -> None:
    """Byte for byte, but for base offset and leader epoch; zstd from version 7 on."""

    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        records = batch(b"a" * 500, b"b" * 500, b"c" * 500, codec=codec)
        return wire.produce(topic, records, version=version), wire.fetch(topic)

    check(wires, "P21", scenario)


@same_answer("P4")
def test_acks_0_is_not_answered(wire: Wire) -> Any:
    topic = wire.create("t")
    connection = wire.connect()
    connection.send(wire.produce_request(topic, THREE, acks=0), 9)
    answer = connection.call(metadata.MetadataRequest([]), 1)
    return answer, wire.produce(topic, THREE).responses[0].partition_responses[0].base_offset


@pytest.mark.parametrize("acks", [1, -1, 0, 2, -2])
def test_acks(wires: dict[str, Wire], acks: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        connection = wire.connect()
        connection.send(wire.produce_request(topic, THREE, acks=acks), 9)
        if acks == 0:
            return connection.call(metadata.MetadataRequest([]), 1)
        return connection.answer(produce, 9)

    check(wires, "P31", scenario)


@pytest.mark.parametrize("case", ["unknown topic", "bad crc", "invalid name"])
def test_acks_0_and_an_error_closes_the_connection(wires: dict[str, Wire], case: str) -> None:
    def scenario(wire: Wire) -> Any:
        topic = {"unknown topic": wire.name("nope"), "invalid name": "a b"}.get(case) or wire.create("t")
        records = patched(THREE, CRC_AT, "I", 12345, seal=False) if case == "bad crc" else THREE
        connection = wire.connect()
        connection.send(wire.produce_request(topic, records, acks=0), 9)
        answer = connection.call(metadata.MetadataRequest([]), 1)
        return answer if isinstance(answer, str) else "answered"

    check(wires, "P5", scenario)


BROKEN = {
    "P6 wrong crc": patched(THREE, CRC_AT, "I", 12345, seal=False),
    "a flipped bit in a value": THREE[:-3] + bytes([THREE[-3] ^ 1]) + THREE[-2:],
    "magic 0": patched(THREE, MAGIC_AT, "b", 0),
    "magic 1": patched(THREE, MAGIC_AT, "b", 1),
    "P7b magic 3": patched(THREE, MAGIC_AT, "b", 3),
    "magic -1": patched(THREE, MAGIC_AT, "b", -1),
    "P8 two batches": THREE + THREE,
    "P11 no records": patched(patched(THREE[:HEADER], COUNT_AT, "i", 0), LENGTH_AT, "i", HEADER - 12),
    "P11b no records, offset delta 0": patched(
        patched(patched(THREE[:HEADER], COUNT_AT, "i", 0), LENGTH_AT, "i", HEADER - 12), LAST_DELTA_AT, "i", 0
    ),
    "P12 counts 4, holds 3": patched(THREE, COUNT_AT, "i", 4),
    "counts 2, holds 3": patched(THREE, COUNT_AT, "i", 2),
    "counts -1": patched(THREE, COUNT_AT, "i", -1),
    "counts two thousand million": patched(THREE, COUNT_AT, "i", 2_000_000_000),
    "last offset delta 7": patched(THREE, LAST_DELTA_AT, "i", 7),
    "last offset delta 0": patched(THREE, LAST_DELTA_AT, "i", 0),
    "last offset delta -1": patched(THREE, LAST_DELTA_AT, "i", -1),
    "P14 base offset 1000": patched(THREE, 0, "q", 1000),
    "base offset -1": patched(THREE, 0, "q", -1),
    "P15 cut by 5 bytes": THREE[:-5],
    "header cut": THREE[:40],
    "five bytes": THREE[:5],
    "sixteen bytes": THREE[:16],
    "empty": b"",
    "trailing bytes": THREE + b"xyz",
    "trailing zeros": THREE + bytes(40),
    "batch length too long": patched(THREE, LENGTH_AT, "i", len(THREE)),
    "batch length too short": patched(THREE, LENGTH_AT, "i", 20),
    "batch length 0": patched(THREE, LENGTH_AT, "i", 0),
    "batch length negative": patched(THREE, LENGTH_AT, "i", -5),
    "batch length cuts a record": patched(THREE[:-5], LENGTH_AT, "i", len(THREE) - 5 - 12),
    "P22 codec 5": patched(THREE, ATTRIBUTES_AT, "h", 5),
    "P22 codec 6": patched(THREE, ATTRIBUTES_AT, "h", 6),
    "P22 codec 7": patched(THREE, ATTRIBUTES_AT, "h", 7),
    "P23 gzip attribute, plain body": patched(THREE, ATTRIBUTES_AT, "h", 1),
    "P23 snappy attribute, plain body": patched(THREE, ATTRIBUTES_AT, "h", 2),
    "P23 lz4 attribute, plain body": patched(THREE, ATTRIBUTES_AT, "h", 3),
    "P23 zstd attribute, plain body": patched(THREE, ATTRIBUTES_AT, "h", 4),
    "P30 transactional": patched(THREE, ATTRIBUTES_AT, "h", 0x10),
    "control": patched(THREE, ATTRIBUTES_AT, "h", 0x20),
    "log append time bit": patched(THREE, ATTRIBUTES_AT, "h", 0x08),
    "delete horizon bit": patched(THREE, ATTRIBUTES_AT, "h", 0x40),
    "unused attribute bits": patched(THREE, ATTRIBUTES_AT, "h", 0x80),
    "P29 leader epoch 77": patched(THREE, EPOCH_AT, "i", 77),
    "max timestamp too small": patched(THREE, MAX_TIME_AT, "q", TIME_MS - 1),
    "max timestamp too large": patched(THREE, MAX_TIME_AT, "q", TIME_MS + 5000),
    "base timestamp -1": patched(patched(THREE, BASE_TIME_AT, "q", -1), MAX_TIME_AT, "q", 1),
    "a record's length too long": patched(THREE[:HEADER] + bytes([100]) + THREE[HEADER + 1 :], COUNT_AT, "i", 3),
    "a record's length too short": patched(THREE[:HEADER] + bytes([2]) + THREE[HEADER + 1 :], COUNT_AT, "i", 3),
    "a record's length negative": patched(THREE[:HEADER] + bytes([1]) + THREE[HEADER + 1 :], COUNT_AT, "i", 3),
    "a key longer than its record": patched(THREE[: HEADER + 4] + bytes([60]) + THREE[HEADER + 5 :], COUNT_AT, "i", 3),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_batches(wires: dict[str, Wire], case: str) -> None:
    """The answer, what is in the log afterwards, and that the next good batch is taken."""

    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        answer = wire.produce(topic, BROKEN[case])
        return answer, wire.fetch(topic), wire.produce(topic, THREE)

    check(wires, case.split(" ", maxsplit=1)[0] if case.startswith("P") else case, scenario)


@pytest.mark.parametrize(("row", "codec"), [("P13", 0), ("P13c", 1)])
def test_offset_deltas_that_do_not_count_up(wires: dict[str, Wire], row: str, codec: int) -> None:
    records = [Record(0, TIME_MS, b"k", b"v")] * 3
    section = encode_records(records, TIME_MS, [0, 2, 2])
    header = batch(b"v", b"v", b"v", codec=codec)[:HEADER]
    broken = header + compress(codec, section)
    broken = patched(broken, LENGTH_AT, "i", len(broken) - 12)

    def scenario(wire: Wire) -> Any:
        return wire.produce(wire.create("t"), broken).responses[0].partition_responses[0].error_code

    check(wires, row, scenario)


@same_answer("P9")
def test_null_records(wire: Wire) -> Any:
    topic = wire.create("t")
    answer = wire.produce(topic, None, version=9, timeout_s=wire.patience_s("kafka"), timeout_ms=1000)
    return SILENT if answer == SILENT else answer.responses[0].partition_responses[0].error_code


@pytest.mark.parametrize("version", [3, 9, 12])
def test_unknown_topics_and_partitions(wires: dict[str, Wire], version: int) -> None:
    """Produce never creates a topic, Metadata does."""

    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        names = [wire.name("nope"), "a b", ".", "", "x" * 250]
        answers = [wire.produce(name, THREE, version=version) for name in names]
        partitions = [wire.produce(topic, THREE, version=version, partition=p) for p in (1, -1, 1 << 30)]
        return answers, partitions, wire.metadata(*names[:1])

    check(wires, "P16", scenario)


@same_answer("P18")
def test_by_topic_id(wire: Wire) -> Any:
    topic = wire.create("t")
    ids = [wire.topic_ids[topic], b"0123456789abcdef", bytes(16)]
    return [wire.produce(topic_id, THREE, version=13) for topic_id in ids]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_refused(wires: dict[str, Wire], name: str) -> None:
    def scenario(wire: Wire) -> Any:
        return wire.produce(name, THREE)

    check(wires, "P27", scenario)


@same_answer("P32b")
def test_empty_topic_data_and_a_partition_twice(wire: Wire) -> Any:
    topic = wire.create("t")
    twice = wire.produce_request(topic, THREE)
    twice.topic_data[0].partition_data.append(produce.PartitionProduceData(0, THREE))
    return wire.call(produce.ProduceRequest(None, -1, 1000, []), 9), len(wire.call(twice, 9).responses[0].partition_responses)


@same_answer("one bad partition among good ones")
def test_one_bad_partition_does_not_spoil_its_siblings(wire: Wire) -> Any:
    topic = wire.create("t", 4)
    request = wire.produce_request(topic, THREE)
    data = [patched(THREE, CRC_AT, "I", 1, seal=False), THREE, THREE[:-5], THREE]
    request.topic_data[0].partition_data = [produce.PartitionProduceData(n, records) for n, records in enumerate(data)]
    request.topic_data.append(
        produce.TopicProduceData(wire.name("nope"), partition_data=[produce.PartitionProduceData(0, THREE)])
    )
    return wire.call(request, 9), [wire.fetch(topic, partition=n) for n in range(4)]


@same_answer("P24b")
def test_a_compacted_topic_wants_keys(wire: Wire) -> Any:
    topic = wire.create("t", cleanup_policy="compact")
    mixed = build_batch([Record(0, TIME_MS, b"k", b"v"), Record(0, TIME_MS, None, b"v")])
    answers = [wire.produce(topic, records, version=v) for v in (7, 9) for records in (batch(b"x", key=None), mixed)]
    return answers, wire.produce(topic, batch(None, key=b"gone")), wire.fetch(topic)


@same_answer("P25")
def test_log_append_time_is_the_brokers(wire: Wire) -> Any:
    """The attribute bit and the maximum timestamp are rewritten, the base timestamp stays."""
    topic = wire.create("t", message_timestamp_type="LogAppendTime")
    answer = wire.produce(topic, THREE)
    stored = bytes(wire.fetch(topic).responses[0].partitions[0].records)
    max_ms = struct.unpack_from(">q", stored, MAX_TIME_AT)[0]
    appended_ms = answer.responses[0].partition_responses[0].log_append_time_ms
    now_ms = time.time() * 1000
    rest = stored[:CRC_AT] + stored[ATTRIBUTES_AT:MAX_TIME_AT] + stored[MAX_TIME_AT + 8 :]
    return answer, max_ms == appended_ms, now_ms - 60_000 < max_ms <= now_ms + 60_000, rest


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_timestamps_out_of_range(wires: dict[str, Wire], codec: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", message_timestamp_before_max_ms="86400000")
        now_ms = int(time.time() * 1000)
        good = [Record(0, now_ms, b"k", b"v")] * 2
        ahead = build_batch([*good, Record(0, now_ms + 7_200_000, b"k", b"late")], codec=codec)
        before = build_batch([Record(0, now_ms - 172_800_000, b"k", b"old"), *good], codec=codec)
        none = batch(b"no timestamp", first_ms=-1, codec=codec)
        return [wire.produce(topic, records, version=v) for v in (5, 8, 10) for records in (ahead, before, none)]

    check(wires, "P26b", scenario)


@same_answer("P34")
def test_more_in_sync_replicas_than_there_are(wire: Wire) -> Any:
    topic = wire.create("t", min_insync_replicas="2")
    return wire.produce(topic, THREE), wire.produce(topic, THREE, acks=1), wire.produce(topic, THREE, timeout_ms=0)


@same_answer("P40")
def test_null_and_empty_values_and_headers(wire: Wire) -> Any:
    topic = wire.create("t")
    headers: list[tuple[str, bytes | None]] = [("h", None), ("", b""), ("h", b"again")]
    records = build_batch([Record(0, TIME_MS, None, None, headers), Record(0, TIME_MS, b"", b"", [])])
    return wire.produce(topic, records), wire.fetch(topic)


@same_answer("P44")
def test_a_batch_of_more_than_64_mib_once_decompressed(wire: Wire) -> Any:
    topic = wire.create("t")
    records = build_batch([Record(0, TIME_MS, b"k", bytes(1 << 20))] * 80, codec=ZSTD)
    return wire.produce(topic, records).responses[0].partition_responses[0].error_code


@same_answer("batches that are too large")
def test_too_large_batches(wire: Wire) -> Any:
    """Beyond max.message.bytes, and beyond what a segment can hold."""
    topic = wire.create("t", max_message_bytes="2000")
    segment = wire.create("s", segment_bytes="1048576", max_message_bytes="3000000")
    sizes = [batch(b"x" * n) for n in (1900, 1930, 1931, 1932, 1935, 2000, 5000)]
    answers = [wire.produce(topic, records) for records in sizes]
    compressed = wire.produce(topic, batch(b"x" * 20_000, codec=1))
    return answers, compressed, wire.produce(segment, batch(b"x" * 1_100_000)), wire.produce(segment, batch(b"x" * 1_000_000))


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_compression_type_of_a_topic(wires: dict[str, Wire], target: str) -> None:
    """The codec of what is stored; the bytes of a codec may differ between libraries, the records may not."""

    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", compression_type=target)
        answers = [wire.produce(topic, batch(b"a" * 300, b"b", None, codec=codec)) for codec in (0, 1, 4)]
        stored = [bytes(wire.fetch(topic, n).responses[0].partitions[0].records) for n in (0, 3, 6)]
        return answers, [(read_header(records).codec, repr(decode_records(records))) for records in stored]

    check(wires, "codecs of a topic", scenario)
