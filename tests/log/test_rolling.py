"""log/partition.py: when a segment ends and the next begins."""

from __future__ import annotations

import pytest

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
