"""Tests of what a cleaning leaves of records and batches."""

from __future__ import annotations

import pytest

from ottla.log.compaction.cleaner_manager import CleanerSettings
from ottla.log.errors import InvalidRecord
from ottla.log.timestamps import offset_for_timestamp
from ottla.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.wire.records import Record, build_batch, decode_records
from tests.log.compaction.cleaning import CleanerRig
from tests.log.support import NOW_MS

LATER_MS = 5_000
"""Longer than the tests' delete.retention.ms."""


# Keys


def test_the_last_record_of_every_key_stays_where_it_is() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 2, 0, 1, 3])
    rig.clean()
    assert rig.offsets() == [2, 3, 4, 5]
    assert rig.keys() == [2, 0, 1, 3]
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (0, 6)


def test_what_is_dirty_supersedes_what_was_cleaned() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 2])
    rig.clean()
    rig.put_each([1, 3])
    rig.clean()
    assert rig.keys() == [0, 2, 1, 3]


def test_the_active_segment_is_left_alone() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    rig.roll()
    rig.put_each([1, 1])
    rig.cleaner.clean_pass()
    assert rig.keys() == [0, 1, 1]


def test_records_of_the_active_segment_do_not_count_yet() -> None:
    rig = CleanerRig()
    rig.put_each([0])
    rig.roll()
    rig.put_each([0])
    rig.cleaner.clean_pass()
    assert rig.offsets() == [0, 1]


def test_an_empty_key_is_a_key() -> None:
    rig = CleanerRig()
    rig.put((b"", b"1"), (b"", b"2"))
    rig.clean()
    assert rig.offsets() == [1]


def test_a_compacted_topic_takes_no_record_without_key() -> None:
    rig = CleanerRig()
    with pytest.raises(InvalidRecord) as refused:
        rig.append(build_batch([Record(0, NOW_MS, b"k", b"v", []), Record(0, NOW_MS, None, b"v", [])]))
    assert [index for index, _ in refused.value.record_errors] == [1]
    assert rig.log.log_end_offset == 0


def test_records_without_key_from_before_the_topic_was_compacted_go() -> None:
    rig = CleanerRig()
    rig.log.config = CleanerRig(cleanup_policy=frozenset({"delete"})).config
    rig.append(build_batch([Record(0, NOW_MS, None, b"lost", []), Record(0, NOW_MS, b"1", b"v", [])]))
    rig.append(build_batch([Record(0, NOW_MS, None, b"lost", [])]))
    rig.log.config = rig.config
    rig.put_each([2])
    rig.clean()
    assert rig.keys() == [1, 2]
    assert rig.cleaner.last.keyless_records == 2


def test_a_key_that_looks_like_a_markers_key() -> None:
    """A marker is recognized by its batch, not by its key."""
    rig = CleanerRig()
    commit_key = b"\0\0\0\1"
    rig.put((commit_key, b"a"), producer=(1, 0, 0), transactional=True)
    rig.end(1, commit=True)
    rig.put((commit_key, b"b"), producer=(1, 0, 1), transactional=True)
    rig.end(1, commit=True)
    rig.clean()
    assert rig.offsets() == [2]
    assert rig.markers() == [1, 3]


# Tombstones


def test_a_tombstone_takes_its_key_and_goes_itself_after_delete_retention() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1])
    rig.put((b"0", None))
    rig.clean()
    assert [(record.offset, record.value) for record in rig.seen()] == [(1, b"v"), (2, None)]
    rig.now_ms += 999
    rig.put_each([5])
    rig.clean()
    assert 2 in rig.offsets()
    rig.now_ms += 1
    rig.put_each([6])
    rig.clean()
    assert rig.keys() == [1, 5, 6]


def test_the_time_runs_from_the_first_cleaning_not_from_the_write() -> None:
    rig = CleanerRig()
    rig.put((b"0", None))
    rig.now_ms += 100 * LATER_MS
    rig.clean()
    assert rig.offsets() == [0]
    (header,) = rig.headers()
    assert header.has_delete_horizon
    assert header.base_timestamp == rig.now_ms + 1_000


def test_the_delete_horizon_changes_nothing_that_a_reader_sees() -> None:
    rig = CleanerRig()
    rig.put((b"0", None), (b"1", b"v"), timestamps=[NOW_MS - 70_000, NOW_MS - 50_000])
    before = [decode_records(data) for _, data in rig.batches()]
    rig.clean()
    assert [decode_records(data) for _, data in rig.batches()] == before
    (header,) = rig.headers()
    assert header.max_timestamp == NOW_MS - 50_000


def test_a_delete_horizon_is_set_once() -> None:
    rig = CleanerRig()
    rig.put((b"0", None), (b"1", b"v"))
    rig.clean()
    (first,) = rig.headers()
    rig.now_ms += 500
    rig.put_each([1])
    rig.clean()
    assert rig.headers()[0].base_timestamp == first.base_timestamp
    assert rig.offsets() == [0, 2]


def test_a_tombstone_after_its_horizon_goes_with_its_key_everywhere() -> None:
    rig = CleanerRig()
    rig.put_each(range(10))
    rig.clean()
    for key in range(0, 10, 2):
        rig.put((b"%d" % key, None))
    rig.clean()
    rig.now_ms += LATER_MS
    rig.put_each([99])
    rig.clean()
    assert rig.keys() == [1, 3, 5, 7, 9, 99]


def test_tombstones_may_stay_for_ever() -> None:
    """Kafka's horizon wraps around there, and they go at once."""
    rig = CleanerRig(delete_retention_ms=2**63 - 1)
    rig.put((b"0", None), (b"1", b"a"), timestamps=[rig.now_ms, rig.now_ms - 5])
    for _ in range(3):
        rig.now_ms += 10**12
        rig.put_each([2])
        rig.clean()
    assert rig.cleaner.uncleanable == {}
    assert [record.key for record in rig.seen()] == [b"0", b"1", b"2"]
    assert [record.timestamp_ms for record in decode_records(rig.batches()[0][1])] == [NOW_MS, NOW_MS - 5]


def test_a_newer_value_outlives_an_older_tombstone() -> None:
    rig = CleanerRig()
    rig.put((b"0", None))
    rig.put((b"0", b"again"))
    rig.clean()
    assert [record.value for record in rig.seen()] == [b"again"]


# Batches


def test_a_batch_that_loses_nothing_is_copied_as_it_is() -> None:
    rig = CleanerRig()
    rig.put((b"0", b"a"), (b"1", b"b"), producer=(7, 0, 0), codec=LZ4)
    before = rig.batches()
    rig.clean()
    assert rig.batches() == before


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_that_lost_records_keeps_codec_offsets_producer_and_sequence(codec: int) -> None:
    rig = CleanerRig()
    rig.put(*((b"%d" % key, b"v" * 50) for key in (0, 1, 2, 0)), producer=(7, 3, 40), codec=codec)
    (before,) = rig.headers()
    rig.put_each([2])
    rig.clean()
    header = rig.headers()[0]
    kept = ("base_offset", "last_offset_delta", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence")
    assert [getattr(header, name) for name in (*kept, "attributes")] == [getattr(before, name) for name in (*kept, "attributes")]
    assert header.codec == codec
    assert header.records_count == 2
    assert rig.offsets() == [1, 3, 4]


def test_timestamps_of_a_batch_are_those_of_what_is_left() -> None:
    rig = CleanerRig()
    rig.put((b"0", b""), (b"1", b""), (b"2", b""), (b"0", b""), timestamps=[NOW_MS - 9, NOW_MS - 5, NOW_MS - 1, NOW_MS - 7])
    rig.put_each([2])
    rig.clean()
    header, data = rig.batches()[0]
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS - 5, NOW_MS - 5)
    assert [record.timestamp_ms for record in decode_records(data)] == [NOW_MS - 5, NOW_MS - 7]


def test_records_of_a_batch_with_the_brokers_time_keep_that() -> None:
    rig = CleanerRig(message_timestamp_type="LogAppendTime")
    rig.put((b"0", b""), (b"1", b""), timestamps=[1, 2])
    rig.now_ms += 10
    rig.put((b"0", b""), (b"3", None), timestamps=[1, 2])
    rig.clean()
    assert [header.max_timestamp for header in rig.headers()] == [NOW_MS, NOW_MS + 10]
    times = [record.timestamp_ms for _, data in rig.batches() for record in decode_records(data)]
    assert times == [NOW_MS, NOW_MS + 10, NOW_MS + 10]


def test_record_headers_stay() -> None:
    rig = CleanerRig()
    headers = [("a", b"1"), ("b", None)]
    rig.append(build_batch([Record(0, NOW_MS, b"0", b"", []), Record(0, NOW_MS + 3, b"1", b"", headers)]))
    rig.put_each([0])
    rig.clean()
    assert decode_records(rig.batches()[0][1])[0].headers == headers


def test_a_batch_larger_than_the_buffers() -> None:
    rig = CleanerRig(cleaner=CleanerSettings(io_buffer_size=0))
    for _ in range(2):
        rig.put((b"0", b"x" * 300_000), (b"1", b"y" * 300_000))
    rig.put_each([1])
    rig.clean()
    assert rig.offsets() == [2, 4]


def test_a_batch_larger_than_the_topic_takes_now() -> None:
    rig = CleanerRig()
    rig.put((b"0", b"x" * 5_000), (b"1", b"y" * 5_000))
    rig.log.config = CleanerRig(max_message_bytes=100).config
    rig.put_each([0])
    rig.clean()
    assert rig.offsets() == [1, 2]


# Producers


def test_the_last_batch_of_a_producer_stays_without_its_records() -> None:
    rig = CleanerRig()
    rig.put((b"0", b"a"), producer=(1, 0, 0))
    rig.put((b"0", b"b"), (b"1", b"b"), producer=(1, 0, 1))
    rig.put_each([0, 1])
    rig.clean()
    assert rig.offsets() == [3, 4]
    assert rig.empty() == [2]
    (header,) = (header for header in rig.headers() if header.producer_id == 1)
    assert (header.base_offset, header.last_offset, header.last_sequence, header.size) == (1, 2, 2, 61)


def test_a_producer_goes_on_after_cleaning_and_restart() -> None:
    rig = CleanerRig()
    first = rig.put((b"0", b"a"), producer=(1, 0, 0))
    rig.put_each([0])
    rig.clean()
    for name in rig.names(".snapshot"):
        rig.disk.remove(f"{rig.path}/{name}")
    rig.restart(clean=False)
    again = rig.put((b"0", b"a"), producer=(1, 0, 0))
    assert again.duplicate
    assert again.base_offset == first.base_offset
    assert not rig.put((b"0", b"b"), producer=(1, 0, 1)).duplicate


def test_the_empty_batch_goes_when_its_producer_writes_again() -> None:
    rig = CleanerRig()
    rig.put((b"0", b"a"), producer=(1, 0, 0))
    rig.put_each([0])
    rig.clean()
    assert rig.empty() == [0]
    rig.put((b"9", b"b"), producer=(1, 0, 1))
    rig.put_each([8])
    rig.clean()
    assert rig.empty() == []


def test_the_empty_batch_goes_when_its_producer_is_forgotten() -> None:
    rig = CleanerRig()
    rig.put((b"0", b"a"), producer=(1, 0, 0))
    rig.put_each([0])
    rig.clean()
    rig.log.producers.expire(rig.now_ms + 10**9, 1)
    rig.put_each([1])
    rig.clean()
    assert rig.empty() == []


def test_the_last_offset_of_what_is_cleaned_is_kept() -> None:
    """By an empty batch where its records go, here those of a transaction whose marker is not cleaned yet."""
    rig = CleanerRig()
    rig.put_each([0])
    rig.put((b"0", b"a"), (b"1", b"b"), producer=(1, 0, 0), transactional=True)
    rig.roll()
    rig.end(1, commit=False)
    rig.log.producers.expire(rig.now_ms + 10**9, 1)
    rig.cleaner.clean_pass()
    assert rig.offsets() == [0]
    assert rig.empty() == [2]


# Finding by time


def test_offsets_by_time_are_those_of_records_that_are_left() -> None:
    """A batch that lost its first records, or all, is not found by what it lost."""
    for timestamp_type in ("CreateTime", "LogAppendTime"):
        rig = CleanerRig(message_timestamp_type=timestamp_type)
        rig.put((b"0", b"a"), (b"1", b"a"), producer=(1, 0, 0))
        rig.put((b"0", b"a"), (b"1", b"a"), (b"2", b"a"))
        rig.put((b"0", b"b"), (b"1", b"b"))
        rig.clean()
        assert rig.empty() == [1]
        found = offset_for_timestamp(rig.log, NOW_MS)
        assert found is not None
        assert found.offset == 4
