"""log/timestamps.py: the LO rows of docs/kafka-behaviour.md, and a random log against a plain search."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ottla.log.errors import CorruptRecord, RecordTooLarge
from ottla.log.timestamps import TimestampOffset, offset_for_timestamp
from ottla.wire.compression import PIECE_BYTES, decompressed_pieces
from ottla.wire.records import decode_records
from tests.log.support import NOW_MS, Rig, batch, settings

T0 = NOW_MS - 1_000_000


@pytest.fixture
def rig() -> Rig:
    """Batches of two records, a second apart, the latest in the middle: T0, +1, +4, +2, +3 s; then one without time."""
    rig = Rig()
    for second in (0, 1, 4, 2, 3):
        rig.append(batch(2, timestamp_ms=T0 + 1000 * second, step_ms=10), leader_epoch=second)
    rig.append(batch(timestamp_ms=-1), leader_epoch=5)
    return rig


def test_by_time(rig: Rig) -> None:
    find = rig.log.offset_for_timestamp
    assert find(T0 + 1000) == (T0 + 1000, 2, 1)  # LOa: exactly
    assert find(T0 + 1001) == (T0 + 1010, 3, 1)
    assert find(T0 + 1011) == (T0 + 4000, 4, 4)  # LOb: between two; the first by offset, though a later one is nearer
    assert find(0) == (T0, 0, 0)  # LOd
    assert find(T0 + 4010) == (T0 + 4010, 5, 4)
    assert find(T0 + 4011) is None


def test_greatest(rig: Rig) -> None:
    assert rig.log.max_timestamp_offset() == TimestampOffset(T0 + 4010, 5, 4)  # LO-3
    rig.append(batch(3, timestamp_ms=T0 + 4010), leader_epoch=6)
    assert rig.log.max_timestamp_offset() == TimestampOffset(T0 + 4010, 5, 4)  # the first of equals


def test_an_empty_log_and_one_without_times() -> None:
    rig = Rig()
    assert (rig.log.max_timestamp_offset(), rig.log.offset_for_timestamp(0)) == (None, None)  # LOl, LOm
    rig.append(batch(timestamp_ms=-1))
    assert (rig.log.max_timestamp_offset(), rig.log.offset_for_timestamp(0)) == (None, None)


def test_deleted_records_are_not_found(rig: Rig) -> None:
    rig.log.delete_records_before(3)
    assert rig.log.offset_for_timestamp(0) == (T0 + 1010, 3, 1)
    assert rig.log.offset_for_timestamp(T0 + 1000) == (T0 + 1010, 3, 1)


def test_log_append_time_counts_for_every_record() -> None:
    rig = Rig(settings(message_timestamp_type="LogAppendTime"))
    rig.append(batch(3, timestamp_ms=5))
    rig.now_ms += 10
    rig.append(batch(3, timestamp_ms=5))
    assert rig.log.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 10, 3, 0)
    assert rig.log.max_timestamp_offset() == (NOW_MS + 10, 3, 0)
    rig.log.delete_records_before(1)
    assert rig.log.offset_for_timestamp(0) == (NOW_MS, 1, 0)
    rig.log.delete_records_before(3)
    assert rig.log.offset_for_timestamp(0) == (NOW_MS + 10, 3, 0)


@pytest.mark.parametrize("codec", range(5))
def test_random_logs_against_a_plain_search(codec: int) -> None:
    rng = Random(codec)
    rig = Rig(settings(segment_bytes=4000, index_interval_bytes=300))
    for _ in range(150):
        start = T0 + rng.randint(0, 100_000)
        rig.append(batch(rng.randint(1, 5), timestamp_ms=start, step_ms=rng.randint(-50, 50), codec=codec))
    assert len(rig.log.segments) > 3
    rig.log.delete_records_before(rng.randint(1, 60))
    for how in ("fresh", "clean", "unclean"):
        records = [r for data in rig.log.iterate_batches(rig.log.log_start_offset) for r in decode_records(data)]
        records = [r for r in records if r.offset >= rig.log.log_start_offset]
        for _ in range(80):
            target = T0 + rng.randint(-100, 101_000)
            expected = next(((r.timestamp_ms, r.offset, 0) for r in records if r.timestamp_ms >= target), None)
            assert rig.log.offset_for_timestamp(target) == expected, how
        greatest = max(r.timestamp_ms for r in records)
        found = rig.log.max_timestamp_offset()
        if found is not None and found.offset >= rig.log.log_start_offset:
            assert found[:2] == (greatest, next(r.offset for r in records if r.timestamp_ms == greatest)), how
        if how == "fresh":
            rig.manager.checkpoint_pass()
        rig.restart(clean=how == "fresh")


def large(first_ms: int, count: int = 2000) -> bytes:
    """2 MB of records, a millisecond apart, in a few kB."""
    return batch(count, timestamp_ms=first_ms, step_ms=1, value=bytes(1000), codec=4)


def test_a_batch_is_opened_up_to_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.append(large(T0))
    taken = 0

    def counted(*arguments: Any) -> Any:
        nonlocal taken
        for piece in decompressed_pieces(*arguments):
            taken += len(piece)
            yield piece

    monkeypatch.setattr("ottla.wire.record_pieces.decompressed_pieces", counted)
    assert rig.log.offset_for_timestamp(T0 + 5) == (T0 + 5, 5, 0)
    assert taken <= 2 * PIECE_BYTES
    assert rig.log.offset_for_timestamp(T0 + 1999) == (T0 + 1999, 1999, 0)
    assert taken > 2_000_000


def test_deleted_records_of_a_large_batch_are_not_found() -> None:
    rig = Rig()
    rig.append(large(T0))
    rig.log.delete_records_before(1500)
    tracemalloc.start()
    try:
        assert rig.log.offset_for_timestamp(0) == (T0 + 1500, 1500, 0)
        assert rig.log.offset_for_timestamp(T0 + 1700) == (T0 + 1700, 1700, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000, f"{peak:,}"


def test_a_look_up_beyond_the_bound_ends_at_the_batch_s_first_offset(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(seed=5)
    rig.append(batch(2, timestamp_ms=T0 - 1000))
    rig.append(large(T0))
    rig.append(batch(2, timestamp_ms=T0 + 5000))
    rig.log.config = replace(rig.log.config, max_decompressed_batch_bytes=1_000_000)
    assert rig.log.offset_for_timestamp(T0 + 100) == (T0 + 100, 102, 0)
    assert not caplog.messages
    for _ in range(3):
        assert rig.log.offset_for_timestamp(T0 + 1500) == (T0 + 1999, 2, 0)
    (said,) = caplog.messages
    assert "the batch of offset 2" in said
    assert "ottla.max.decompressed.batch.bytes" in said
    assert rig.log.offset_for_timestamp(T0 + 2000) == (T0 + 5000, 2002, 0)  # its header says that it is not in the batch
    rig.log.delete_records_before(50)
    assert rig.log.offset_for_timestamp(T0 + 1500) == (T0 + 1999, 50, 0)
    log = rig.log
    with pytest.raises(RecordTooLarge, match="the batch of offset 2 is not opened"):
        offset_for_timestamp(log.segments, T0 + 1500, 0, log.config.decompression_bounds, exact=True)


def test_a_batch_that_does_not_decode() -> None:
    rig = Rig()
    rig.append(batch(3, codec=1))
    path = f"{rig.path}/{0:020d}.log"
    data = bytearray(rig.disk.read_bytes(path))
    data[61:70] = b"\xff" * 9
    rig.disk.write_bytes(path, bytes(data))
    rig.log.segments.active.release_file()
    with pytest.raises(CorruptRecord):
        rig.log.offset_for_timestamp(0)
