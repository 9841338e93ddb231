"""log/rolling.py, and the same rule in log/partition.py: when a segment ends and the next begins."""

from __future__ import annotations

import pytest

from ottla.log.rolling import has_room, is_too_old
from ottla.wire.batch import BatchHeader, read_header
from tests.log.support import NOW_MS, Rig, batch, settings

SIZE = len(batch())


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_rolls_by_size() -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(5)
    assert rig.bases == [0, 2, 4]
    assert rig.names(".log") == [f"{base:020d}.log" for base in (0, 2, 4)]
    assert rig.names(".snapshot") == [f"{base:020d}.snapshot" for base in (2, 4)]


def test_rolls_by_record_time() -> None:
    rig = Rig(settings(segment_ms=1000))
    for timestamp in (0, 1000, 1001, 1500, 2001, 2002):
        rig.append(batch(timestamp_ms=NOW_MS + timestamp))
    assert rig.bases == [0, 2, 5]


def test_rolls_by_the_clock_where_records_have_no_time() -> None:
    rig = Rig(settings(segment_ms=1000))
    for wait in (0, 1000, 1, 500):
        rig.now_ms += wait
        rig.append(batch(timestamp_ms=-1))
    assert rig.bases == [0, 2]


def test_jitter_rolls_earlier() -> None:
    config = settings(segment_ms=1000, segment_jitter_ms=600)
    jitters = {Rig(config, seed=seed).log.segments.active.jitter_ms for seed in range(30)}
    assert len(jitters) > 5
    assert 0 <= min(jitters) <= max(jitters) < 600
    rig = Rig(config)
    rig.log.segments.active.jitter_ms = 400
    for timestamp in (0, 600, 601):
        rig.append(batch(timestamp_ms=NOW_MS + timestamp))
    assert rig.bases == [0, 2]


def test_rolls_when_an_index_is_full() -> None:
    rig = Rig(settings(segment_index_bytes=36, index_interval_bytes=0))
    rig.fill(12, step_ms=0)
    assert len(rig.bases) > 1
    assert rig.read() == list(range(12))


def test_tiny_index_on_an_empty_segment_does_not_roll_onto_itself() -> None:
    rig = Rig(settings(segment_index_bytes=4, index_interval_bytes=0))
    rig.fill(4)
    assert rig.read() == [0, 1, 2, 3]


def test_rolls_before_a_relative_offset_overflows(rig: Rig) -> None:
    rig.append()
    rig.log.log_end_offset = rig.log.high_watermark = 2**31 - 1  # as compaction may leave it
    rig.append()
    assert rig.bases == [0]
    rig.append()
    assert rig.bases == [0, 2**31]


def test_rolling_by_hand(rig: Rig) -> None:
    assert rig.log.roll() is rig.log.segments.active  # empty: nothing to end
    assert rig.bases == [0]
    rig.append()
    rig.log.roll()
    rig.log.roll()
    assert rig.bases == [0, 1]


@pytest.mark.parametrize("durable", [True, False])
def test_a_roll_syncs_the_indexes_of_what_is_durable(rig: Rig, durable: bool) -> None:
    """Recovery begins behind them and trusts them; the others are synced with the flush that lets it begin there."""
    rig.fill(2)
    if durable:
        rig.log.flush()
    rig.memory.trace.clear()
    rig.log.roll()
    synced = {path.rpartition(".")[2] for what, path in rig.memory.trace if what == "sync"}
    assert synced == ({"index", "timeindex"} if durable else set())


# The rule as a function, which followers and copies go by


def header_at(offset: int, timestamp_ms: int = NOW_MS) -> BatchHeader:
    return read_header(batch(timestamp_ms=timestamp_ms)).replace(base_offset=offset)


def test_a_batch_has_room_up_to_the_size_of_a_segment(rig: Rig) -> None:
    segment = rig.log.segments.active
    assert [has_room(segment, SIZE, 2, 3 * SIZE, filled) for filled in (0, 2 * SIZE, 2 * SIZE + 1)] == [True, True, False]


def test_a_batch_has_no_room_where_an_index_is_full_or_cannot_hold_its_offset(rig: Rig) -> None:
    segment = rig.log.segments.active
    assert [has_room(segment, SIZE, offset, 3 * SIZE, 0) for offset in (2**31 - 1, 2**31)] == [True, False]
    segment.indexes.are_full = True
    assert not has_room(segment, SIZE, 0, 3 * SIZE, 0)


def test_a_segment_is_too_old_by_the_time_of_its_records(rig: Rig) -> None:
    segment = rig.log.segments.active
    segment.jitter_ms = 10
    late = [is_too_old(segment, header_at(0, NOW_MS + after), 100, NOW_MS, NOW_MS + 10**6) for after in (0, 90, 91)]
    assert late == [False, False, True]


def test_a_segment_without_times_is_too_old_by_the_clock(rig: Rig) -> None:
    rig.append(batch(timestamp_ms=-1))
    segment = rig.log.segments.active
    late = [is_too_old(segment, header_at(1, -1), 100, segment.first_timestamp, NOW_MS + after) for after in (0, 100, 101)]
    assert late == [False, False, True]
