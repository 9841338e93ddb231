"""The scenarios of Kafka's LogValidatorTest (54 cases, Kafka 4.4), restated: what is appended to a log, and what a reader gets.

Covered here, 29 (test_validate.py gives many more batches to Kafka's own log and to ours):

    testValidationOfBatchesWithNonSequentialInnerOffsets  test_offset_deltas_that_do_not_count_up
    testNonIncreasingOffsetRecordBatchHasMetricsLogged    the same; what is refused is counted by topic, not by reason
    checkOnlyOneBatch                                     test_two_batches_at_once
    testBatchWithoutRecordsNotAllowed                     test_a_batch_without_records
    checkRecompression, testDifferentCodecCausesRecompression      test_another_codec_is_the_topics
    checkCompressed, checkNonCompressed                   test_what_needs_no_change_is_stored_as_it_came
    testDifferentLevelDoesNotCauseRecompression           test_another_level_is_no_reason_to_compress_again
    testRecordBatchWithCountOverrides, testInconsistentCountAndOffset, testUnmatchedNumberOfRecords
                                                          test_counts_and_records_agree
    testInvalidCreateTimeNonCompressedV2, testInvalidCreateTimeCompressedV2, testRecordWithPastTimestampIsRejected,
    testRecordWithFutureTimestampIsRejected, testInvalidTimestampExceptionHasBatchIndex
                                                          test_timestamps_out_of_bounds_name_their_records
    checkInvalidSequence                                  test_a_producer_without_a_sequence
    checkNoKeyCompactedTopic, testInvalidRecordExceptionHasBatchIndex      test_compacted_topics_name_records_without_key
    testBatchWithInvalidRecordsAndInvalidTimestamp        test_no_key_and_a_wrong_time
    testRelativeOffsetAssignmentNonCompressedV2, testRelativeOffsetAssignmentCompressedV2
                                                          test_offsets_go_on_where_the_log_ends
    testControlRecordsNotAllowedFromClients, testControlRecordsNotCompressed      test_control_records
    testZStdCompressedWithUnavailableIBPVersion           test_zstd_has_to_be_known: what counted for a cluster of mixed versions
                                                          then counts for an old client now
    checkLogAppendTimeWithoutRecompression, checkLogAppendTimeWithRecompression, checkLogAppendTimeNonCompressed
                                                          test_log_append_time

Not applicable, 25: they are about message formats 0 and 1, which Kafka has not written since 4.0 and which no Produce request
that it serves can carry. checkMismatchMagic, checkAllowMultiBatch, checkInvalidChecksum (of records within a batch),
testInvalidCreateTime{NonCompressed,Compressed}V1, testAbsoluteOffsetAssignment{NonCompressed,Compressed},
testRelativeOffsetAssignment{NonCompressed,Compressed}V1, testCreateTimeUpConversionV1ToV2, checkCreateTimeUpConversionFromV0,
testOffsetAssignmentAfterUpConversion{V0ToV1,V0ToV2,V1ToV2}{NonCompressed,Compressed},
testOffsetAssignmentAfterDownConversion{V1ToV0,V2ToV1,V2ToV0}{NonCompressed,Compressed},
testDownConversionOf{Transactional,Idempotent}RecordsNotPermitted. test_validate.py has that batches of these formats are refused.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ottla.log.errors import InvalidRecord, InvalidTimestamp, LogError, UnsupportedCompression
from ottla.log.markers import build_marker
from ottla.log.validate import Origin
from ottla.wire.batch import CODEC_MASK, LOG_APPEND_TIME_BIT, BatchHeader, check_crc, read_header
from ottla.wire.compression import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, compress
from ottla.wire.records import Record, build_batch, decode_records, encode_records
from tests.log.support import NOW_MS, Rig, last_time_entry, settings
from tests.wire.changed_batches import changed, with_section

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
COMPRESSED = CODECS[1:]
TOPIC_CODECS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
PAIRS = list(itertools.product(CODECS, TOPIC_CODECS))
HOUR_MS = 3_600_000
RECORDS = [Record(0, NOW_MS + number, b"key %d" % number, b"value %d" % number) for number in (0, 2, 1)]


def made(codec: int = NONE, records: list[Record] = RECORDS, **fields: Any) -> bytes:
    return build_batch(records, codec=codec, **fields)


def topic(**changes: Any) -> Rig:
    return Rig(settings(**changes))


def stored(rig: Rig) -> tuple[BatchHeader, bytes]:
    """The last batch as readers get it, its CRC right."""
    batch = list(rig.log.iterate_batches(rig.log.log_start_offset))[-1]
    header = read_header(batch)
    assert check_crc(batch, header)
    return header, batch


def contents(batch: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.timestamp_ms, record.key, record.value) for record in decode_records(batch)]


def refused(rig: Rig, batch: bytes, error: type[LogError]) -> Any:
    """The error; the log is as it was."""
    with pytest.raises(error) as raised:
        rig.append(batch)
    assert (rig.log.log_end_offset, rig.log.size_bytes) == (0, 0)
    return raised.value


# What a batch is


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("deltas", [[0, 2, 3], [1, 2, 3], [0, 0, 0], [2, 1, 0]], ids=str)
def test_offset_deltas_that_do_not_count_up(codec: int, deltas: list[int]) -> None:
    section = encode_records(RECORDS, NOW_MS, deltas)
    refused(topic(), with_section(made(), compress(codec, section) if codec else section, attributes=codec), InvalidRecord)


@pytest.mark.parametrize(("codec", "target"), PAIRS)
def test_two_batches_at_once(codec: int, target: str) -> None:
    refused(topic(compression_type=target), made(codec) * 2, InvalidRecord)


@pytest.mark.parametrize(("codec", "target"), PAIRS)
def test_a_batch_without_records(codec: int, target: str) -> None:
    section = compress(codec, b"") if codec else b""
    empty = with_section(made(), section, attributes=codec, records_count=0, last_offset_delta=-1)
    refused(topic(compression_type=target), empty, InvalidRecord)
    refused(topic(compression_type=target), changed(empty, last_offset_delta=0), InvalidRecord)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("last_offset_delta", "count"), [(0, 3), (15, 3), (-3, 3), (5, 6), (1, 2), (3, 4), (2, 2)], ids=str)
def test_counts_and_records_agree(codec: int, last_offset_delta: int, count: int) -> None:
    rig = topic()
    refused(rig, changed(made(codec), last_offset_delta=last_offset_delta, records_count=count), InvalidRecord)
    assert rig.append(changed(made(codec), last_offset_delta=2, records_count=3)).last_offset == 2


def test_a_producer_without_a_sequence() -> None:
    for codec in CODECS:
        refused(topic(), changed(made(codec), producer_id=1234, producer_epoch=0, base_sequence=-1), InvalidRecord)


@pytest.mark.parametrize("codec", CODECS)
def test_offsets_go_on_where_the_log_ends(codec: int) -> None:
    rig = topic()
    for base_offset in (0, 3, 6):
        assert rig.append(made(codec)).base_offset == base_offset
        _, batch = stored(rig)
        assert [record.offset for record in decode_records(batch)] == [base_offset, base_offset + 1, base_offset + 2]


# Keys and times


@pytest.mark.parametrize("codec", CODECS)
def test_compacted_topics_name_records_without_key(codec: int) -> None:
    records = [Record(0, NOW_MS, key, b"v") for key in (b"k", None, b"k", None)]
    error = refused(topic(cleanup_policy=frozenset({"compact"})), made(codec, records), InvalidRecord)
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert all(text for _, text in error.record_errors)


@pytest.mark.parametrize("codec", CODECS)
def test_timestamps_out_of_bounds_name_their_records(codec: int) -> None:
    bounds = {"message_timestamp_before_max_ms": HOUR_MS, "message_timestamp_after_max_ms": 1000}
    for early, late in ((NOW_MS - HOUR_MS - 1, NOW_MS), (NOW_MS, NOW_MS + 1001)):
        records = [Record(0, time, b"k", b"v") for time in (NOW_MS, early, late, NOW_MS)]
        error = refused(topic(**bounds), made(codec, records), InvalidTimestamp)
        assert [index for index, _ in error.record_errors] == [2 if early == NOW_MS else 1]
    rig = topic(**bounds)
    within = [Record(0, time, b"k", b"v") for time in (NOW_MS - HOUR_MS, NOW_MS + 1000, -1)]
    assert rig.append(made(codec, within)).last_offset == 2


def test_no_key_and_a_wrong_time() -> None:
    """One of each: the answer is that of the time, and both are named."""
    records = [Record(0, NOW_MS, None, b"v"), Record(0, NOW_MS + 2 * HOUR_MS, b"k", b"v"), Record(0, NOW_MS, b"k", b"v")]
    error = refused(topic(cleanup_policy=frozenset({"compact"})), made(NONE, records), InvalidTimestamp)
    assert [index for index, _ in error.record_errors] == [0, 1]


# What is stored


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("own", [False, True], ids=["producer", "the topic's own codec"])
def test_what_needs_no_change_is_stored_as_it_came(codec: int, own: bool) -> None:
    rig = topic(compression_type=NAMES[codec] if own and codec else "uncompressed" if own else "producer")
    sent = changed(made(codec), producer_id=1324, producer_epoch=10, base_sequence=0, partition_leader_epoch=40)
    info = rig.append(sent, leader_epoch=7)
    header, batch = stored(rig)
    assert batch[12:] == b"\0\0\0\7" + sent[16:], "but for base offset and leader epoch"
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1324, 10, 0)
    assert (header.base_timestamp, header.max_timestamp, info.log_append_time_ms) == (NOW_MS, NOW_MS + 2, -1)
    assert last_time_entry(rig.log.segments.active) == (NOW_MS + 2, 2), "the last offset of the batch, as Kafka's index has it"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("target", [GZIP, SNAPPY, LZ4, ZSTD, NONE])
def test_another_codec_is_the_topics(codec: int, target: int) -> None:
    rig = topic(compression_type=NAMES[target] if target else "uncompressed")
    sent = changed(made(codec), producer_id=1324, producer_epoch=10, base_sequence=0)
    rig.append(sent)
    header, batch = stored(rig)
    assert header.attributes & CODEC_MASK == target
    assert contents(batch) == contents(sent)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1324, 10, 0)
    assert (header.base_timestamp, header.max_timestamp, header.records_count) == (NOW_MS, NOW_MS + 2, 3)


@pytest.mark.parametrize(("codec", "levels"), [(GZIP, (1, 9)), (LZ4, (1, 17)), (ZSTD, (1, 19))])
def test_another_level_is_no_reason_to_compress_again(codec: int, levels: tuple[int, int]) -> None:
    for level in levels:
        name = f"compression_{NAMES[codec]}_level"
        rig = topic(compression_type=NAMES[codec], **{name: level})
        sent = made(codec)
        rig.append(sent)
        assert stored(rig)[1][16:] == sent[16:]


@pytest.mark.parametrize(("codec", "target"), PAIRS)
def test_log_append_time(codec: int, target: str) -> None:
    rig = topic(compression_type=target, message_timestamp_type="LogAppendTime")
    rig.now_ms = NOW_MS + 1234
    info = rig.append(made(codec))
    header, batch = stored(rig)
    assert info.log_append_time_ms == NOW_MS + 1234
    assert header.attributes & LOG_APPEND_TIME_BIT
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 1234)
    assert {timestamp for timestamp, _, _ in contents(batch)} == {NOW_MS + 1234}
    assert [value for _, _, value in contents(batch)] == [record.value for record in RECORDS]


# Who may send what


@pytest.mark.parametrize("target", TOPIC_CODECS)
def test_control_records(target: str) -> None:
    """A client's are refused; a coordinator's are stored as they are, whatever the topic's codec."""
    rig = topic(compression_type=target)
    marker = build_marker(23423, 5, commit=False, coordinator_epoch=0, timestamp_ms=NOW_MS)
    refused(rig, marker, InvalidRecord)
    rig.log.append_as_leader(marker, leader_epoch=0, origin=Origin.COORDINATOR)
    header, batch = stored(rig)
    assert (header.attributes & CODEC_MASK, header.is_control) == (NONE, True)
    assert batch[16:] == marker[16:]


@pytest.mark.parametrize("target", TOPIC_CODECS)
def test_zstd_has_to_be_known(target: str) -> None:
    rig = topic(compression_type=target)
    with pytest.raises(UnsupportedCompression):
        rig.log.append_as_leader(made(ZSTD), leader_epoch=0, zstd_ok=False)
    assert rig.log.append_as_leader(made(ZSTD), leader_epoch=0).base_offset == 0
