"""log/time_checks.py: a time index that does not fit the log is found before anybody relies on it. test_retention.py has what is
deleted, tests/log/opening/test_flipped_bits.py every flipped bit."""

from __future__ import annotations

import pytest

from ottla.log.time_checks import check_times, position_before
from ottla.log.timestamps import max_timestamp_offset, offset_for_timestamp
from tests.log.support import NOW_MS, Rig, batch, settings

SIZE = len(batch())


def rig_of(batches: int) -> Rig:
    """One segment with an entry in each index for every second batch; a batch a second."""
    rig = Rig(settings(index_interval_bytes=SIZE))
    for at in range(batches):
        rig.fill(1, timestamp_ms=NOW_MS + at * 1000)
    rig.restart(clean=True)
    return rig


def with_entry(rig: Rig, number: int, timestamp_ms: int) -> None:
    """Starts with another timestamp in this entry of the time index."""
    path = f"{rig.path}/{0:020d}.timeindex"
    rig.manager.close()
    data = rig.disk.read_bytes(path)
    rig.disk.write_bytes(path, data[: 12 * number] + timestamp_ms.to_bytes(8, "big") + data[12 * number + 8 :])
    rig.start()


def test_an_entry_that_leads_past_a_record_is_found(caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(10)
    (_, before), (right_ms, offset) = rig.log.segments.first.time_index.entries()[:2]
    with_entry(rig, 1, NOW_MS + before * 1000 + 1)  # as if all up to its offset were that early
    found = offset_for_timestamp(rig.log, right_ms)
    assert found is not None
    assert found.offset == offset
    assert f"not all records up to {offset} are before {right_ms}" in caplog.text
    assert rig.log.segments.first.time_index.entries()[1] == (right_ms, offset)


def test_a_last_entry_that_is_too_late_or_early_is_found(caplog: pytest.LogCaptureFixture) -> None:
    for wrong_ms in (NOW_MS + 8_999, NOW_MS + (1 << 45)):
        rig = rig_of(10)
        with_entry(rig, len(rig.log.segments.first.time_index) - 1, wrong_ms)
        found = max_timestamp_offset(rig.log)
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (9, NOW_MS + 9000)
        assert f"the greatest timestamp is {NOW_MS + 9000}, not {wrong_ms}" in caplog.text


def test_a_right_index_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(10)
    segment = rig.log.segments.first
    assert list(check_times(segment)) == []
    assert not segment.are_times_doubtful
    assert position_before(segment, NOW_MS + 5_000, 0) <= 5 * SIZE
    assert not segment.indexes.are_dirty
    assert "rebuilt" not in caplog.text
