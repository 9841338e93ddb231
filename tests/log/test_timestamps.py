"""log/timestamps.py: the LO rows of docs/kafka-behaviour.md, and a random log against a plain search."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from ottla.log.errors import CorruptRecord, RecordTooLarge, StorageError, TruncatedSlice
from ottla.log.management.passes import run_pass
from ottla.log.timestamps import (
    HEADERS_A_STEP,
    Search,
    TimestampOffset,
    max_timestamp_offset,
    offset_for_timestamp,
    search_max_timestamp,
    search_timestamp,
)
from ottla.log.validate import QUICK_BYTES, QUICK_DECOMPRESSED_BYTES
from ottla.wire.compression import PIECE_BYTES
from ottla.wire.records import decode_records
from tests.log.support import NOW_MS, Rig, batch, count_decompressed, settings

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
    find = partial(offset_for_timestamp, rig.log)
    assert find(T0 + 1000) == (T0 + 1000, 2, 1)  # LOa: exactly
    assert find(T0 + 1001) == (T0 + 1010, 3, 1)
    assert find(T0 + 1011) == (T0 + 4000, 4, 4)  # LOb: between two; the first by offset, though a later one is nearer
    assert find(0) == (T0, 0, 0)  # LOd
    assert find(T0 + 4010) == (T0 + 4010, 5, 4)
    assert find(T0 + 4011) is None


def test_greatest(rig: Rig) -> None:
    assert max_timestamp_offset(rig.log) == TimestampOffset(T0 + 4010, 5, 4)  # LO-3
    rig.append(batch(3, timestamp_ms=T0 + 4010), leader_epoch=6)
    assert max_timestamp_offset(rig.log) == TimestampOffset(T0 + 4010, 5, 4)  # the first of equals


def test_an_empty_log_and_one_without_times() -> None:
    rig = Rig()
    assert (max_timestamp_offset(rig.log), offset_for_timestamp(rig.log, 0)) == (None, None)  # LOl, LOm
    rig.append(batch(timestamp_ms=-1))
    assert (max_timestamp_offset(rig.log), offset_for_timestamp(rig.log, 0)) == (None, None)


def test_deleted_records_are_not_found(rig: Rig) -> None:
    rig.log.delete_records_before(3)
    assert offset_for_timestamp(rig.log, 0) == (T0 + 1010, 3, 1)
    assert offset_for_timestamp(rig.log, T0 + 1000) == (T0 + 1010, 3, 1)


def test_log_append_time_counts_for_every_record() -> None:
    rig = Rig(settings(message_timestamp_type="LogAppendTime"))
    rig.append(batch(3, timestamp_ms=5))
    rig.now_ms += 10
    rig.append(batch(3, timestamp_ms=5))
    assert offset_for_timestamp(rig.log, NOW_MS + 1) == (NOW_MS + 10, 3, 0)
    assert max_timestamp_offset(rig.log) == (NOW_MS + 10, 3, 0)
    rig.log.delete_records_before(1)
    assert offset_for_timestamp(rig.log, 0) == (NOW_MS, 1, 0)
    rig.log.delete_records_before(3)
    assert offset_for_timestamp(rig.log, 0) == (NOW_MS + 10, 3, 0)


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
            assert offset_for_timestamp(rig.log, target) == expected, how
        greatest = max(r.timestamp_ms for r in records)
        found = max_timestamp_offset(rig.log)
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
    taken = count_decompressed(monkeypatch)
    assert offset_for_timestamp(rig.log, T0 + 5) == (T0 + 5, 5, 0)
    assert taken() <= 2 * PIECE_BYTES
    assert offset_for_timestamp(rig.log, T0 + 1999) == (T0 + 1999, 1999, 0)
    assert taken() > 2_000_000


def test_deleted_records_of_a_large_batch_are_not_found() -> None:
    rig = Rig()
    rig.append(large(T0))
    rig.log.delete_records_before(1500)
    tracemalloc.start()
    try:
        assert offset_for_timestamp(rig.log, 0) == (T0 + 1500, 1500, 0)
        assert offset_for_timestamp(rig.log, T0 + 1700) == (T0 + 1700, 1700, 0)
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
    assert offset_for_timestamp(rig.log, T0 + 100) == (T0 + 100, 102, 0)
    assert not caplog.messages
    for _ in range(3):
        assert offset_for_timestamp(rig.log, T0 + 1500) == (T0 + 1999, 2, 0)
    (said,) = caplog.messages
    assert "the batch of offset 2" in said
    assert "ottla.max.decompressed.batch.bytes" in said
    assert offset_for_timestamp(rig.log, T0 + 2000) == (T0 + 5000, 2002, 0)  # its header says that it is not in the batch
    rig.log.delete_records_before(50)
    assert offset_for_timestamp(rig.log, T0 + 1500) == (T0 + 1999, 50, 0)
    with pytest.raises(RecordTooLarge, match="the batch of offset 2 is not opened"):
        offset_for_timestamp(rig.log, T0 + 1500, exact=True)


def test_a_batch_that_does_not_decode() -> None:
    rig = Rig()
    rig.append(batch(3, codec=1))
    path = f"{rig.path}/{0:020d}.log"
    data = bytearray(rig.disk.read_bytes(path))
    data[61:70] = b"\xff" * 9
    rig.disk.write_bytes(path, bytes(data))
    rig.log.segments.active.release_file()
    with pytest.raises(CorruptRecord):
        offset_for_timestamp(rig.log, 0)


# Steps


def steps(search: Search) -> list[bool]:
    """Takes all steps; says for each pause whether it handed out a batch."""
    found = []
    for batch_search in search:
        found.append(batch_search is not None)
        if batch_search is not None:
            batch_search()
    return found


def test_a_search_pauses_after_so_many_batches() -> None:
    """One batch at 9, many at 5, one at 20: the time index does not help to find 10."""
    rig = Rig()
    early, later, last = (batch(timestamp_ms=T0 + at) for at in (9, 5, 20))
    rig.append(early)
    for _ in range(3 * HEADERS_A_STEP):
        rig.append(later)
    rig.append(last)
    assert steps(search_timestamp(rig.log, T0 + 10)) == [False] * 3
    assert offset_for_timestamp(rig.log, T0 + 10) == (T0 + 20, 3 * HEADERS_A_STEP + 1, 0)
    assert steps(search_max_timestamp(rig.log)) == [False] * 4  # and one for the segment


def test_a_search_pauses_after_each_segment() -> None:
    rig = Rig(settings(segment_bytes=400))
    rig.fill(30, timestamp_ms=T0)
    segments = len(rig.log.segments)
    assert segments > 9
    assert steps(search_timestamp(rig.log, T0 + 1)) == [False] * segments
    assert steps(search_max_timestamp(rig.log)) == [False] * segments


def test_what_comes_out_of_a_batch_beyond_a_step_is_searched_by_who_is_handed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.append(large(T0, 5000))
    taken = count_decompressed(monkeypatch)
    search = search_timestamp(rig.log, T0 + 4000)
    batch_search = next(search)
    assert batch_search is not None
    assert 0 < taken() <= QUICK_DECOMPRESSED_BYTES
    batch_search()
    before = taken()
    assert before > 4_000_000
    with pytest.raises(StopIteration) as end:
        next(search)
    assert end.value.value == (T0 + 4000, 4000, 0)
    assert taken() == before, "no step decompresses anew"


def test_a_batch_of_many_bytes_is_handed_out_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.append(batch(100, timestamp_ms=T0, step_ms=1, value=Random(1).randbytes(1000), codec=0))
    rig.append(batch(2, timestamp_ms=T0 + 100, step_ms=1, value=Random(1).randbytes(QUICK_BYTES), codec=1))
    taken = count_decompressed(monkeypatch)
    search = search_timestamp(rig.log, T0 + 101)
    batch_search = next(search)
    assert batch_search is not None
    assert taken() == 0
    assert offset_for_timestamp(rig.log, T0 + 50) == (T0 + 50, 50, 0)


def test_a_failed_read_of_a_batch_that_is_handed_out_raises_in_the_next_step() -> None:
    rig = Rig()
    rig.append(batch(1, timestamp_ms=T0, value=Random(1).randbytes(QUICK_BYTES)))
    search = search_timestamp(rig.log, T0)
    batch_search = next(search)
    assert batch_search is not None
    rig.memory.fail("pread", path=".log")
    batch_search()
    assert rig.log.directory.failed is None, "that is not a thread's to say"
    with pytest.raises(StorageError):
        next(search)
    assert rig.log.directory.failed is not None


def paused(rig: Rig, target_ms: int = T0 + 10) -> Search:
    """A search that has paused in the first segment, or after it if the segment has nothing so late."""
    search = search_timestamp(rig.log, target_ms)
    assert next(search) is None
    return search


@pytest.fixture
def long_walk() -> Rig:
    """Two segments of many batches; the time 10 is reached in the last of the first, the time 20 in the very last."""
    in_one = 2 * HEADERS_A_STEP
    rig = Rig(settings(segment_bytes=in_one * len(batch()), file_delete_delay_ms=0))
    for at in range(in_one + 10):
        rig.append(batch(timestamp_ms=T0 + (10 if at == in_one - 1 else 5)))
    rig.append(batch(timestamp_ms=T0 + 20))
    assert len(rig.log.segments) == 2
    return rig


def rest(search: Search) -> TimestampOffset | None:
    try:
        while True:
            next(search)
    except StopIteration as end:
        found: TimestampOffset | None = end.value
        return found


def test_a_segment_may_be_dropped_while_a_search_pauses(long_walk: Rig) -> None:
    rig = long_walk
    last = TimestampOffset(T0 + 20, 2 * HEADERS_A_STEP + 10, 0)
    inside, behind, greatest = paused(rig), paused(rig, T0 + 20), search_max_timestamp(rig.log)
    assert next(greatest) is None
    rig.log.delete_records_before(rig.log.segments.active.base_offset)
    assert rig.log.apply_retention(NOW_MS) == 1
    run_pass(rig.log.directory.removals(NOW_MS))
    assert rest(inside) == last
    assert rest(behind) == last
    assert rest(greatest) == last
    assert rig.log.directory.failed is None


def test_segments_may_be_replaced_by_one_while_a_search_pauses() -> None:
    """As compaction does it: the new segment begins where the first did that was searched already."""
    rig = Rig(settings(segment_bytes=400))
    for at in range(12):
        rig.append(batch(timestamp_ms=T0 + at))
    log = rig.log
    old = list(log.segments)[:3]
    search = search_timestamp(log, T0 + 8)
    assert next(search) is None
    wider = Rig()
    for at in range(old[-1].base_offset + 3):
        wider.append(batch(timestamp_ms=T0 + at))
    log.segments.replace(old, wider.log.segments.first)
    assert rest(search) == (T0 + 8, 8, 0)


def test_a_search_ends_if_the_log_is_closed_or_cut_meanwhile(long_walk: Rig) -> None:
    cut, closed = paused(long_walk), paused(long_walk)
    long_walk.log.truncate_to(5)
    with pytest.raises(TruncatedSlice, match="while it was searched"):
        next(cut)
    long_walk.manager.close(True)
    with pytest.raises(StorageError, match="closed"):
        next(closed)
