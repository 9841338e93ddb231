"""log/validate.py: the rows P1 to P42 and I14, I15 of docs/kafka-behaviour.md, then Kafka itself beside us.

Every case below runs twice: against the outcome written here, and (marker oracle) against Kafka's own UnifiedLog, to which the
same bytes are given; where we differ on purpose the case says what Kafka does.
"""

from __future__ import annotations

import gzip
import random
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.log import errors
from ottla.log.validate import QUICK_BYTES, QUICK_DECOMPRESSED_BYTES, BatchRules, Origin, validate_for_append
from ottla.wire.batch import HEADER_SIZE, LOG_APPEND_TIME_BIT, check_crc, read_header
from ottla.wire.compression import GZIP, LZ4, NONE, PIECE_BYTES, SNAPPY, ZSTD, compress, decompress
from ottla.wire.records import Record, build_batch, decode_records, encode_records, varint
from tests.kafka_oracle import KafkaOracle
from tests.log.mini_log import MiniLog, TopicSettings
from tests.log.support import Rig, count_decompressed, settings
from tests.wire.changed_batches import changed, with_section
from tests.wire.samples import NOW_MS, foreign_batches, sample_records

THREE = [Record(index, NOW_MS + index, b"k%d" % index, b"v%d" % index) for index in range(3)]
ONE = build_batch(THREE[:1])
PLAIN = build_batch(THREE)
SECTION = PLAIN[HEADER_SIZE:]
NOW = NOW_MS + 5  # the broker's clock
HUGE = 1_000_000_000_000_000


def packed(codec: int, section: bytes = SECTION, **fields: int) -> bytes:
    """Three records compressed by `codec`, or any other section."""
    return with_section(PLAIN, compress(codec, section), attributes=codec, **fields)


def stamped(batch: bytes) -> bytes:
    """As a client must not send it: marked LogAppendTime."""
    return changed(batch, attributes=read_header(batch).attributes | LOG_APPEND_TIME_BIT)


def gapped(codec: int = NONE) -> bytes:
    """Three records with offset deltas 0, 4, 9."""
    section = encode_records(THREE, NOW_MS, [0, 4, 9])
    return packed(codec, section) if codec else with_section(PLAIN, section)


def at(*timestamps: int, key: bytes | None = b"k") -> bytes:
    return build_batch([Record(0, timestamp, key, b"v") for timestamp in timestamps])


@dataclass
class Case:
    name: str
    batch: bytes
    outcome: str = "ok 0 2 -1"
    kafka: str = ""  # where it differs from ours
    version: int = 12
    settings: dict[str, str] = field(default_factory=dict)


COMPACT = {"cleanup.policy": "compact"}
BOTH_POLICIES = {"cleanup.policy": "compact,delete"}
SECOND = {"message.timestamp.before.max.ms": "1000"}
LZ4_TOPIC = {"compression.type": "lz4"}
SMALL_PLAIN_TOPIC = {"compression.type": "uncompressed", "max.message.bytes": "1000"}
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
INVALID = "error INVALID_RECORD"
CORRUPT = "error CORRUPT_MESSAGE"
UNKNOWN = "error UNKNOWN_SERVER_ERROR"
ZEROS = build_batch([Record(0, NOW_MS, b"k", bytes(5000))], codec=ZSTD)
KEYLESS_TIMED = build_batch([Record(0, NOW_MS, None, b"v"), Record(1, NOW_MS + HUGE, b"k", b"v"), Record(2, NOW_MS, b"k", b"v")])

FRAMING = [
    Case("P1 three records", PLAIN),
    Case("P42 Produce v3", PLAIN, version=3),
    Case("P6 CRC", changed(PLAIN, crc=1), CORRUPT),
    Case("P7b magic 3", changed(PLAIN, magic=3), CORRUPT),
    Case("magic -1", changed(PLAIN, magic=-1), CORRUPT),
    Case("magic 1", changed(PLAIN, magic=1), INVALID),
    Case("magic 0", changed(PLAIN, magic=0), INVALID),
    Case("P8 two batches", PLAIN + PLAIN, INVALID),
    Case("a partial batch behind is dropped", PLAIN + PLAIN[:-1]),
    Case("a few bytes behind are dropped", PLAIN + b"abc"),
    Case("something else behind", PLAIN + b"\xff" * 40, CORRUPT),
    Case("P15 truncated", PLAIN[:-5], INVALID),
    Case("only a header", PLAIN[:61], INVALID),
    Case("half a header", PLAIN[:30], INVALID),
    Case("sixteen bytes", PLAIN[:16], INVALID),
    Case("length 13", changed(PLAIN, batch_length=13), CORRUPT),
    Case("length -1", changed(PLAIN, batch_length=-1), CORRUPT),
    Case("length less than a header", changed(PLAIN, batch_length=20)[:32], CORRUPT),
    Case("length beyond the request", changed(PLAIN, batch_length=len(PLAIN)), INVALID),
    Case("length that overflows", changed(PLAIN, batch_length=2**31 - 1), INVALID, kafka=UNKNOWN),
]

HEADERS = [
    Case("P14 base offset", changed(PLAIN, base_offset=1000), INVALID),
    Case("base offset before CRC", changed(PLAIN, base_offset=1000, crc=1), INVALID),
    Case("size before CRC", changed(PLAIN, crc=1), "error MESSAGE_TOO_LARGE", settings={"max.message.bytes": "90"}),
    Case("exactly max.message.bytes", PLAIN, settings={"max.message.bytes": str(len(PLAIN))}),
    Case("one byte more", PLAIN, "error MESSAGE_TOO_LARGE", settings={"max.message.bytes": str(len(PLAIN) - 1)}),
    Case("P11 no records", with_section(PLAIN, b"", records_count=0, last_offset_delta=-1), INVALID),
    Case("P11b no records, delta 0", with_section(PLAIN, b"", records_count=0, last_offset_delta=0), INVALID),
    Case("P12 three of one", changed(ONE, records_count=3, last_offset_delta=2), INVALID),
    Case("one of three", changed(PLAIN, records_count=1, last_offset_delta=0), INVALID),
    Case("count and last offset differ", changed(PLAIN, last_offset_delta=5), INVALID),
    Case("negative count", changed(PLAIN, records_count=-3), INVALID),
    Case("negative last offset", changed(PLAIN, last_offset_delta=-3), INVALID),
    Case("P29 leader epoch of a client", changed(PLAIN, partition_leader_epoch=77)),
    Case("control batch", changed(PLAIN, attributes=0x20), INVALID),
    Case("unknown attribute bits", changed(PLAIN, attributes=0x80)),
    Case("I15 sequence -1", changed(PLAIN, producer_id=5, producer_epoch=0), INVALID),
    Case("I14 epoch -1", changed(PLAIN, producer_id=5, base_sequence=0), "error INVALID_PRODUCER_EPOCH", kafka="ok 0 2 -1"),
    Case("negative producer id", changed(PLAIN, producer_id=-2)),
]

CODECS = [
    *(Case(f"codec {codec}", packed(codec)) for codec in (GZIP, SNAPPY, LZ4, ZSTD)),
    Case("P21 zstd before Produce v7", packed(ZSTD), "error UNSUPPORTED_COMPRESSION_TYPE", version=6),
    Case("zstd in Produce v7", packed(ZSTD), version=7),
    Case("lz4 in Produce v3", packed(LZ4), version=3),
    Case("P22 codec 5", changed(PLAIN, attributes=5), INVALID, kafka=UNKNOWN),
    Case("codec 7", changed(PLAIN, attributes=7), INVALID, kafka=UNKNOWN),
    *(Case(f"P23 codec {codec}, plain body", changed(PLAIN, attributes=codec), INVALID, kafka=UNKNOWN) for codec in (1, 2, 3, 4)),
    Case("half a gzip stream", with_section(PLAIN, gzip.compress(SECTION)[:-9], attributes=1), INVALID, kafka=UNKNOWN),
    Case("compressed, too few", packed(LZ4, records_count=4, last_offset_delta=3), INVALID),
    Case("compressed, too many", packed(LZ4, records_count=2, last_offset_delta=1), INVALID),
    Case("compressed, left over", packed(GZIP, SECTION + b"x"), INVALID),
    Case("compressed, cut inside", packed(ZSTD, SECTION[:-2]), INVALID),
    Case("max.decompressed.message.bytes", packed(GZIP), INVALID, settings={"max.decompressed.message.bytes": "9"}),
    Case("max.decompressed.message.bytes, just", packed(GZIP), settings={"max.decompressed.message.bytes": "10"}),
    Case("it does not count for plain batches", PLAIN, settings={"max.decompressed.message.bytes": "9"}),
]

RECORDS = [
    Case("P40 null value, header without value", build_batch(sample_records(3))),
    Case("record longer than the batch", with_section(PLAIN, b"\x7f" + SECTION[1:]), INVALID),
    Case("record length 0", with_section(PLAIN, b"\0" + SECTION), INVALID),
    Case("record length -1", with_section(PLAIN, varint(-1) + SECTION), INVALID),
    Case("left over", with_section(PLAIN, SECTION + b"\0"), INVALID),
    Case("wrong offset deltas", gapped(), INVALID, kafka="ok 0 2 -1"),
    *(Case(f"wrong offset deltas, codec {codec}", gapped(codec), INVALID, kafka=UNKNOWN) for codec in (GZIP, SNAPPY, LZ4, ZSTD)),
    Case("wrong offset deltas, codec changes", gapped(GZIP), INVALID, kafka="ok 0 2 -1", settings=LZ4_TOPIC),
    Case("P24b null key, compacted", at(NOW_MS, NOW_MS, NOW_MS, key=None), INVALID + " 0 1 2", settings=COMPACT),
    Case("compacted with keys", PLAIN, settings=COMPACT),
    Case("one null key, both policies", build_batch(sample_records(3)), INVALID + " 1", settings=BOTH_POLICIES),
    Case("null key and bad timestamp", KEYLESS_TIMED, "error INVALID_TIMESTAMP 0 1", settings=COMPACT),
]  # fmt: skip

TIMES = [
    Case("P26b two hours ahead", at(NOW_MS, NOW_MS + 7_200_000), "error INVALID_TIMESTAMP 1"),
    Case("exactly an hour ahead", at(NOW + 3_600_000), "ok 0 0 -1"),
    Case("one ms more", at(NOW + 3_600_001), "error INVALID_TIMESTAMP 0"),
    Case("P26c timestamp -1", at(-1), "ok 0 0 -1"),
    Case("timestamp -5", at(-5), "ok 0 0 -1"),
    Case("least timestamp", at(-(2**63)), "error INVALID_TIMESTAMP 0"),
    Case("largest timestamp", at(2**63 - 1), "error INVALID_TIMESTAMP 0"),
    Case("timestamps that wrap", changed(at(0, 5), base_timestamp=2**63 - 1), "error INVALID_TIMESTAMP 0 1"),
    Case("before.max", at(NOW - 1000, NOW - 1001), "error INVALID_TIMESTAMP 1", settings=SECOND),
    Case("any time", at(2**62), "ok 0 0 -1", settings={"message.timestamp.after.max.ms": str(2**63 - 1)}),
    Case("maximum timestamp is put right", changed(PLAIN, max_timestamp=5)),
    Case("maximum timestamp is put right, lz4", packed(LZ4, max_timestamp=NOW_MS + HUGE)),
    Case("P25 LogAppendTime", PLAIN, f"ok 0 2 {NOW}", settings=APPEND_TIME),
    Case("LogAppendTime takes any timestamp", at(-(2**63), HUGE * 9), f"ok 0 1 {NOW}", settings=APPEND_TIME),
    Case("LogAppendTime, gzip", packed(GZIP), f"ok 0 2 {NOW}", settings=APPEND_TIME),
    Case("LogAppendTime by a client", stamped(PLAIN), "error INVALID_TIMESTAMP 0 1 2", settings=APPEND_TIME),
    Case("LogAppendTime by a client, CreateTime topic", stamped(PLAIN)),
    Case("the same, out of range", changed(stamped(PLAIN), max_timestamp=HUGE * 9), "error INVALID_TIMESTAMP 0 1 2"),
    Case("the same, without timestamp", changed(stamped(PLAIN), max_timestamp=-1), "error INVALID_TIMESTAMP 0 1 2"),
    Case("the same, compressed", stamped(packed(ZSTD))),
]  # fmt: skip

BROKER_CODEC = [
    *(Case(f"{name} to {target}", batch, settings={"compression.type": target})
      for name, batch in (("plain", PLAIN), ("snappy", packed(SNAPPY)))
      for target in ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
    Case("to zstd, LogAppendTime", PLAIN, f"ok 0 2 {NOW}", settings={"compression.type": "zstd", **APPEND_TIME}),
    Case("idempotent to lz4", changed(PLAIN, producer_id=8, producer_epoch=3, base_sequence=40), settings=LZ4_TOPIC),
    Case("too large once uncompressed", ZEROS, "error MESSAGE_TOO_LARGE", settings=SMALL_PLAIN_TOPIC),
    Case("levels", PLAIN, settings={"compression.type": "gzip", "compression.gzip.level": "9"}),
]  # fmt: skip

CASES = [*FRAMING, *HEADERS, *CODECS, *RECORDS, *TIMES, *BROKER_CODEC]


def by_name(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def test_every_case_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@by_name(CASES)
def test_outcome(case: Case) -> None:
    log = MiniLog(TopicSettings.from_texts(case.settings))
    assert log.append(NOW, case.version, 4, case.batch) == case.outcome
    if case.outcome.startswith("error"):
        assert not log.written
        return
    header = read_header(log.written)
    assert check_crc(log.written, header)
    assert (header.size, header.partition_leader_epoch) == (len(log.written), 4)
    records = decode_records(log.written)
    assert [record.offset for record in records] == list(range(len(records)))
    assert header.max_timestamp == max(-1, *(record.timestamp_ms for record in records))


def large(codec: int, count: int = 3000, value: int = 1000, **fields: int) -> bytes:
    """`count` records, as highly compressible as they can be: many pieces once decompressed, a few kB before."""
    records = [Record(0, NOW_MS + index % 7, b"k", bytes(value)) for index in range(count)]
    return with_section(build_batch(records[:1]), compress(codec, encode_records(records, NOW_MS)), **{
        "attributes": codec, "records_count": count, "last_offset_delta": count - 1, "max_timestamp": NOW_MS + 6, **fields
    })  # fmt: skip


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_above_the_bound_once_decompressed_is_too_large(codec: int) -> None:
    batch = large(codec)
    size = len(decompress(codec, batch[HEADER_SIZE:], 1 << 30))
    assert MiniLog(TopicSettings(max_decompressed_batch_bytes=size)).append(NOW, 12, 4, batch) == "ok 0 2999 -1"
    for compression_type in ("producer", "uncompressed", "gzip"):
        topic = TopicSettings(max_decompressed_batch_bytes=size - 1, compression_type=compression_type)
        assert MiniLog(topic).append(NOW, 12, 4, batch) == "error MESSAGE_TOO_LARGE"
    with pytest.raises(errors.RecordTooLarge, match=r"ottla\.max\.decompressed\.batch\.bytes"):
        validate_for_append(batch, BatchRules(TopicSettings(max_decompressed_batch_bytes=size - 1)), NOW)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_bomb_ends_at_the_bound_and_takes_the_memory_of_a_piece(codec: int) -> None:
    """Of 80 MiB, in records of 1 MB, the default lets 64 through."""
    batch = large(codec, 80, 1 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(errors.RecordTooLarge):
            validate_for_append(batch, BatchRules(TopicSettings()), NOW)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20, f"{peak:,}"


def test_records_of_many_pieces_are_checked_as_one_batch() -> None:
    def outcome(batch: bytes, **topic: Any) -> str:
        return MiniLog(TopicSettings(**topic)).append(NOW, 12, 4, batch)

    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        assert outcome(large(codec, max_timestamp=5)) == "ok 0 2999 -1"
        assert outcome(large(codec, records_count=2999, last_offset_delta=2998)) == INVALID
        assert outcome(large(codec, records_count=3001, last_offset_delta=3000)) == INVALID
        log = MiniLog(TopicSettings())
        log.append(NOW, 12, 4, large(codec, max_timestamp=5))
        assert read_header(log.written).max_timestamp == NOW_MS + 6
    late = outcome(large(ZSTD), message_timestamp_before_max_ms=1)
    assert late.startswith("error INVALID_TIMESTAMP 0 1 2 3 7 8")
    assert len(late.split()) == 2 + 1000


def test_a_record_above_its_bound_is_not_put_together() -> None:
    batch = large(ZSTD, 2, 30_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(errors.InvalidRecord, match=r"max\.decompressed\.message\.bytes"):
            validate_for_append(batch, BatchRules(TopicSettings(max_decompressed_message_bytes=1_000_000)), NOW)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20, f"{peak:,}"


def test_what_lies_behind_the_first_error_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = large(ZSTD, records_count=2, last_offset_delta=1)
    taken = count_decompressed(monkeypatch)
    with pytest.raises(errors.InvalidRecord):
        validate_for_append(batch, BatchRules(TopicSettings()), NOW)
    assert taken() <= 2 * PIECE_BYTES


@by_name([*(Case(name, batch) for name, batch in foreign_batches().items())])
def test_batches_of_real_producers_are_taken_as_they_are(case: Case) -> None:
    log = MiniLog(TopicSettings(cleanup_policy=frozenset({"delete"})))
    assert log.append(NOW_MS, 12, 0, case.batch).startswith("ok 0")
    assert log.written[16:] == case.batch[16:]


@pytest.mark.oracle
def test_kafkas_own_log_says_and_writes_the_same() -> None:
    """Same bytes, same answer, and the same file; where the codec changes, the same records in it."""
    different = {}
    with KafkaOracle() as kafka:
        for case in CASES:
            kafka.ask("log", *(f"{name}={value}" for name, value in case.settings.items()))
            answer = kafka.ask("append", NOW, case.version, 4, case.batch.hex())
            if answer != (case.kafka or case.outcome):
                different[case.name] = answer
            if answer.startswith("error") or case.kafka or case.name in different:
                continue
            ours = MiniLog(TopicSettings.from_texts(case.settings))
            ours.append(NOW, case.version, 4, case.batch)
            theirs = kafka.files()[f"{0:020}.log"]
            if "compression.type" in case.settings:
                assert without_section(theirs) == without_section(bytes(ours.written)), case.name
                assert decode_records(theirs) == decode_records(ours.written), case.name
                assert kafka.read(bytes(ours.written)) == kafka.read(theirs), case.name
            else:
                assert theirs == ours.written, case.name
    assert not different


def without_section(batch: bytes) -> tuple[int, ...]:
    return read_header(batch).replace(crc=0, batch_length=0).fields()


@pytest.mark.oracle
def test_damaged_batches_meet_the_same_answer_in_kafka() -> None:
    """Header and record bytes changed at random, CRC made to fit: Kafka's answer is ours, but for the differences we list."""
    seeded = random.Random(44)
    differences: dict[tuple[str, str], int] = {}
    with KafkaOracle() as kafka:
        for _ in range(600):
            source = seeded.choice([PLAIN, ONE, build_batch(sample_records(3)), packed(GZIP), packed(SNAPPY)])
            damaged = bytearray(source)
            for _ in range(seeded.randrange(1, 3)):
                position = seeded.choice([seeded.randrange(21, 61), seeded.randrange(61, len(source))])
                damaged[position] = seeded.choice((0, 1, 2, 127, 128, 255, seeded.randrange(256)))
            batch = changed(bytes(damaged))
            kafka.ask("log", "message.timestamp.after.max.ms=" + str(2**62))
            theirs = kafka.ask("append", NOW, 12, 0, batch.hex())
            ours = MiniLog(TopicSettings(message_timestamp_after_max_ms=2**62))
            answer = ours.append(NOW, 12, 0, batch)
            if answer != theirs:
                differences[answer, theirs] = differences.get((answer, theirs), 0) + 1
            elif answer.startswith("ok"):
                assert kafka.files()[f"{0:020}.log"] == ours.written
    # what we list in the module: a leaking -1, an unknown producer's epoch -1, unfit offset deltas, skimmed compressed records
    fenced = "error INVALID_PRODUCER_EPOCH"
    allowed = {(INVALID, UNKNOWN), *((ours, theirs) for ours in (INVALID, fenced) for theirs in ("ok 0 2 -1", "ok 0 0 -1"))}
    assert set(differences) <= allowed, differences


def refused(batch: bytes | None, settings: TopicSettings | None = None) -> errors.LogError:
    with pytest.raises(errors.LogError) as caught:
        validate_for_append(batch, BatchRules(settings or TopicSettings()), NOW)
    return caught.value


def test_p9_null_records_are_refused() -> None:
    assert isinstance(refused(None), errors.InvalidRecord)
    assert isinstance(refused(b""), errors.InvalidRecord)


def test_record_errors_say_which_record_and_why() -> None:
    late = refused(at(NOW_MS, NOW_MS + 7_200_000))
    assert isinstance(late, errors.InvalidTimestamp)
    ((index, text),) = late.record_errors
    assert index == 1
    assert str(NOW_MS + 7_200_000) in text
    keyless = refused(at(NOW_MS, key=None), TopicSettings(cleanup_policy=frozenset({"compact"})))
    assert isinstance(keyless, errors.InvalidRecord)
    assert "key" in keyless.record_errors[0][1]


def test_a_batch_that_fits_into_no_segment_is_refused() -> None:
    assert isinstance(refused(PLAIN, TopicSettings(segment_bytes=len(PLAIN) - 1)), errors.RecordListTooLarge)
    assert validate_for_append(PLAIN, BatchRules(TopicSettings(segment_bytes=len(PLAIN))), NOW)


def test_a_bomb_is_refused() -> None:
    bomb = with_section(PLAIN, gzip.compress(varint(300 << 20) + bytes(64 << 20)) * 5, attributes=GZIP)  # one record
    assert "more than" in str(refused(bomb, TopicSettings(max_message_bytes=1 << 30)))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_where_there_is_little_time_nothing_large_is_decompressed(codec: int) -> None:
    config = TopicSettings()
    fits = build_batch([Record(0, NOW_MS, b"k", bytes(QUICK_DECOMPRESSED_BYTES - 100), [])], codec=codec)
    assert validate_for_append(fits, BatchRules(config), NOW_MS, quickly=True).header.records_count == 1
    unfolds = build_batch([Record(0, NOW_MS, b"k", bytes(QUICK_DECOMPRESSED_BYTES), [])], codec=codec)
    large = build_batch([Record(0, NOW_MS, b"k", random.Random(1).randbytes(QUICK_BYTES), [])], codec=codec)
    for batch in (unfolds, large):
        with pytest.raises(errors.NotValidated):
            validate_for_append(batch, BatchRules(config), NOW_MS, quickly=True)
        assert validate_for_append(batch, BatchRules(config), NOW_MS).header.records_count == 1
    with pytest.raises(errors.InvalidRecord):
        validate_for_append(with_section(fits, b"\xff" * 9), BatchRules(config), NOW_MS, quickly=True)


def test_where_there_is_little_time_nothing_large_is_compressed() -> None:
    def batch(size: int) -> bytes:
        return build_batch([Record(0, NOW_MS, b"k", bytes(size), [])])

    as_it_came, packed = TopicSettings(), TopicSettings(compression_type="gzip")
    assert validate_for_append(batch(10 * QUICK_BYTES), BatchRules(as_it_came), NOW_MS, quickly=True).header.codec == NONE
    assert validate_for_append(batch(QUICK_BYTES - 100), BatchRules(packed), NOW_MS, quickly=True).header.codec == GZIP
    with pytest.raises(errors.NotValidated):
        validate_for_append(batch(QUICK_BYTES), BatchRules(packed), NOW_MS, quickly=True)


def test_p25b_log_append_time_keeps_the_base_timestamp() -> None:
    log = MiniLog(TopicSettings(message_timestamp_type="LogAppendTime"))
    log.append(NOW, 12, 0, at(1000, 2000))
    header = read_header(log.written)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (LOG_APPEND_TIME_BIT, 1000, NOW)


def test_an_unchanged_batch_is_written_from_the_callers_buffer() -> None:
    """Zero copies on the way: the tail is a view, and only the first sixteen bytes are made anew."""
    buffer = bytearray(PLAIN)
    stamped_part, tail = validate_for_append(memoryview(buffer), BatchRules(TopicSettings()), NOW).parts(99, 3)
    assert isinstance(tail, memoryview)
    buffer[20] ^= 0xFF
    assert bytes(tail)[4] == buffer[20]
    assert read_header(bytes(stamped_part) + bytes(tail)).base_offset == 99


def test_coordinators_may_write_control_batches_and_compression_leaves_plain_ones_alone() -> None:
    marker = build_batch(THREE[:1], producer_id=5, producer_epoch=1, control=True, transactional=True)
    assert isinstance(refused(marker), errors.InvalidRecord)
    settings = TopicSettings(compression_type="gzip")
    valid = validate_for_append(marker, BatchRules(settings), NOW, Origin.COORDINATOR)
    assert (valid.header.codec, valid.header.is_control) == (NONE, True)


def test_raft_leaders_are_not_bounded_by_max_message_bytes() -> None:
    small = TopicSettings(max_message_bytes=50)
    assert isinstance(refused(PLAIN, small), errors.RecordTooLarge)
    assert validate_for_append(PLAIN, BatchRules(small), NOW, Origin.RAFT_LEADER)


@pytest.mark.parametrize(("name", "codec", "level"), [("gzip", GZIP, 9), ("lz4", LZ4, 12), ("zstd", ZSTD, 19)])
def test_each_codec_compresses_at_its_own_level(name: str, codec: int, level: int) -> None:
    levels = {"compression_gzip_level": 1, "compression_lz4_level": 1, "compression_zstd_level": 1}
    levels[f"compression_{name}_level"] = level
    rig = Rig(settings(compression_type=name, **levels))
    section = encode_records([Record(0, NOW_MS, None, b"%d" % (at * at), []) for at in range(1000)], NOW_MS)
    assert compress(codec, section, level) != compress(codec, section, 1)
    rig.append(with_section(PLAIN, section, records_count=1000, last_offset_delta=999))
    found = rig.log.read(0, 1 << 30, upto=1000)
    assert found is not None
    assert found.read()[HEADER_SIZE:] == compress(codec, section, level)
