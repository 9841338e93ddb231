"""log/compaction/filtered_batch.py: what a cleaning leaves of one batch. test_cleaner.py sees it through a whole log."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.compaction.cleaning_job import CleaningJob
from ottla.log.compaction.filtered_batch import FilteredBatch, Rules, filter_batch
from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.compaction.record_loops import put_keys
from ottla.wire.batch import BatchHeader, check_crc, read_header, stamp
from ottla.wire.compression import GZIP, NONE
from ottla.wire.kernel import MAX_INT64
from ottla.wire.records import Record, build_batch, decode_records, records_section
from tests.log.support import marker

NOW, RETENTION, BASE = 10_000, 500, 40


def batch(*records: tuple[bytes | None, bytes | None], codec: int = NONE, at: int = BASE, **fields: Any) -> bytes:
    """The records, a millisecond apart from 1000 ms on, as a leader has stamped them."""
    made = [Record(0, 1000 + index, key, value, []) for index, (key, value) in enumerate(records)]
    data = build_batch(made, codec=codec, **fields)
    return stamp(read_header(data), at, 2) + data[16:]


def rules(
    *batches: bytes,
    uncleanable: int = 1000,
    producers: list[tuple[int, int, int]] | None = None,
    now: int = NOW,
    retention: int = RETENTION,
    most: int = 1 << 20,
) -> Rules:
    """For a log of these batches, whose keys are in the map."""
    offsets = OffsetMap(100_000, 0.9, 1)
    for data in batches:
        header = read_header(data)
        put_keys(offsets, records_section(data, header), header.base_offset, 0)
        offsets.latest_offset = header.last_offset
    job = CleaningJob("t", 0, "/t-0", [], 0, uncleanable, now, retention, 1, 1, 1, producers or [], [], 1, 0.9, 1, 1.0, most, 1)
    return Rules(offsets, job)


def result(data: bytes, by: Rules, obsolete: bool = False) -> tuple[FilteredBatch, BatchHeader | None, list[Record]]:
    """(what is left, its header, its records)."""
    left = filter_batch(data, read_header(data), obsolete, by)
    joined = b"".join(left.parts)
    if not joined:
        return left, None, []
    header = read_header(joined)
    assert check_crc(joined, header)
    assert header.size == len(joined)
    return left, header, decode_records(joined) if header.records_count else []


def test_a_batch_that_loses_nothing_is_the_same_bytes() -> None:
    data = batch((b"a", b"1"), (b"b", b"2"))
    left, _, _ = result(data, rules(data))
    assert left.parts == [data]
    assert (left.read, left.kept, left.keyless, left.max_timestamp) == (2, 2, 0, 1001)


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_superseded_and_keyless_records_go_and_offsets_stay(codec: int) -> None:
    data = batch(
        (b"a", b"1"), (None, b"x"), (b"b", b"2"), (b"a", b"3"), codec=codec, producer_id=7, producer_epoch=1, base_sequence=5
    )
    left, header, records = result(data, rules(data))
    assert (left.read, left.kept, left.keyless) == (4, 2, 1)
    assert [(each.offset, each.timestamp_ms, each.key, each.value) for each in records] == [
        (42, 1002, b"b", b"2"),
        (43, 1003, b"a", b"3"),
    ]
    assert header is not None
    assert (header.base_offset, header.last_offset, header.codec, header.partition_leader_epoch) == (BASE, 43, codec, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 5)
    assert (header.base_timestamp, header.max_timestamp) == (1002, 1003)


def test_a_tombstone_gets_a_horizon_and_goes_when_that_is_over() -> None:
    data = batch((b"a", None), (b"b", b"2"))
    left, header, records = result(data, rules(data))
    assert header is not None
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW + RETENTION
    assert [(each.timestamp_ms, each.value) for each in records] == [(1000, None), (1001, b"2")]
    marked = b"".join(left.parts)
    before, _, _ = result(marked, rules(data, now=NOW + RETENTION - 1))
    assert before.parts == [marked]
    _, _, after = result(marked, rules(data, now=NOW + RETENTION))
    assert [each.key for each in after] == [b"b"]


def test_a_horizon_for_ever_does_not_wrap_around() -> None:
    assert rules(retention=MAX_INT64).horizon_ms == MAX_INT64


def test_records_of_an_aborted_transaction_go_all_of_them() -> None:
    data = batch((b"a", b"1"), (b"b", b"2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    left, header, _ = result(data, rules(data), obsolete=True)
    assert (left.parts, left.read, left.kept, header) == ([], 2, 0, None)


@pytest.mark.parametrize(
    ("by", "stays"),
    [
        ({"producers": [(7, BASE + 1, 0)]}, True),
        ({"producers": [(7, BASE + 2, 0)]}, False),
        ({"producers": [(8, BASE + 1, 0)]}, False),
        ({"uncleanable": BASE + 2}, True),
        ({}, False),
    ],
)
def test_an_empty_batch_stays_for_its_producer_and_for_the_last_offset(by: dict[str, Any], stays: bool) -> None:
    data = batch((b"a", b"1"), (b"b", b"2"), codec=GZIP, producer_id=7, producer_epoch=0, base_sequence=3)
    newer = batch((b"a", b"3"), (b"b", b"4"), at=BASE + 10)
    left, header, _ = result(data, rules(data, newer, **by))
    assert (header is not None) == stays
    assert left.kept == 0
    if header is not None:
        assert (header.records_count, header.codec, header.size) == (0, NONE, 61)
        assert (header.base_offset, header.last_offset, header.last_sequence) == (BASE, BASE + 1, 4)


def test_a_marker_stays_gets_its_horizon_and_goes_after_it() -> None:
    data = marker(7, 0, commit=True)
    data = stamp(read_header(data), BASE, 2) + data[16:]
    assert result(data, rules())[0].parts == [data]
    left, header, records = result(data, rules(), obsolete=True)
    assert header is not None
    assert (header.has_delete_horizon, header.is_control, header.base_timestamp) == (True, True, NOW + RETENTION)
    assert records == decode_records(data)
    marked = b"".join(left.parts)
    assert result(marked, rules(), obsolete=True)[0].parts == [marked]
    assert result(marked, rules(now=NOW + RETENTION), obsolete=True)[0].parts == []
    kept_for = rules(now=NOW + RETENTION, producers=[(7, -1, 0)])
    assert read_header(b"".join(result(marked, kept_for, obsolete=True)[0].parts)).records_count == 0


def test_what_does_not_decode_is_a_value_error() -> None:
    data = batch((b"a", b"1"))
    with pytest.raises(ValueError):
        result(data[:61] + b"\xff" * (len(data) - 61), rules())
