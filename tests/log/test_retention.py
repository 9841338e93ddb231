"""log/retention.py: which segments go, in which order, and when their files do."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from ottla.log.errors import StorageError
from ottla.log.management.passes import delete_steps, run_pass
from tests.log.support import NOW_MS, Rig, batch, settings

SIZE = len(batch())
DAY = 86_400_000
FOREVER = {"retention_ms": -1, "retention_bytes": -1}


def rig_of(segments: int, **changes: object) -> Rig:
    """Segments of two one-record batches; segment n's records are of NOW_MS + n days. The last one is active."""
    rig = Rig(settings(segment_bytes=2 * SIZE, segment_ms=1 << 60, message_timestamp_after_max_ms=1 << 60, **(FOREVER | changes)))
    for at in range(segments):
        rig.fill(2, timestamp_ms=NOW_MS + at * DAY)
    return rig


def test_nothing_to_do() -> None:
    rig = rig_of(3)
    assert rig.log.apply_retention(NOW_MS + 1000 * DAY) == 0
    assert Rig().log.apply_retention(NOW_MS + 1000 * DAY) == 0  # empty


@pytest.mark.parametrize(("days", "left"), [(0, 4), (7, 4), (7.5, 3), (9.5, 1)])
def test_by_time(days: float, left: int) -> None:
    rig = rig_of(4, retention_ms=7 * DAY)
    assert rig.log.apply_retention(int(NOW_MS + days * DAY)) == 4 - left
    assert rig.bases == list(range(0, 8, 2))[4 - left :]
    assert rig.log.log_start_offset == rig.bases[0]


def test_by_time_the_last_segment_too_but_the_end_stays() -> None:
    rig = rig_of(2, retention_ms=DAY)
    assert rig.log.apply_retention(NOW_MS + 30 * DAY) == 2
    assert (rig.bases, rig.log.log_start_offset, rig.log.log_end_offset) == ([4], 4, 4)
    assert rig.log.apply_retention(NOW_MS + 90 * DAY) == 0  # empty stays
    rig.restart(clean=True)
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (4, 4)
    assert rig.append().base_offset == 4


def test_an_old_segment_behind_a_young_one_waits() -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE, retention_ms=DAY, retention_bytes=-1))
    for days in (10, 20, 10, 20):
        rig.fill(1, timestamp_ms=NOW_MS - days * DAY if days == 20 else NOW_MS)
    assert rig.log.apply_retention(NOW_MS) == 0


def test_without_record_times_the_file_counts() -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE, retention_ms=DAY))
    rig.fill(2, timestamp_ms=-1)
    rig.now_ms += 2 * DAY
    rig.fill(2, timestamp_ms=-1)
    assert rig.log.apply_retention(rig.now_ms) == 1
    assert rig.bases == [2]


@pytest.mark.parametrize(
    ("limit", "left"), [(100 * SIZE, 4), (8 * SIZE, 4), (7 * SIZE, 4), (6 * SIZE, 3), (2 * SIZE, 1), (SIZE, 1), (0, 1)]
)
def test_by_size_the_log_never_gets_smaller_than_the_limit(limit: int, left: int) -> None:
    rig = rig_of(4, retention_bytes=limit)
    deleted = rig.log.apply_retention(NOW_MS)
    if limit == 0:
        assert (deleted, rig.bases) == (4, [8])
    else:
        assert (deleted, rig.bases) == (4 - left, list(range(0, 8, 2))[4 - left :])


def test_by_the_logs_start_also_where_the_policy_is_compact() -> None:
    rig = rig_of(4, cleanup_policy=frozenset({"delete"}))
    rig.log.delete_records_before(5)
    rig.log.config = settings(cleanup_policy=frozenset({"compact"}), retention_bytes=0, retention_ms=0)
    assert rig.log.apply_retention(NOW_MS + 1000 * DAY) == 2
    assert (rig.bases, rig.log.log_start_offset) == ([4, 6], 5)


def test_nothing_that_a_replica_may_miss() -> None:
    rig = rig_of(4, retention_bytes=0)
    rig.log.replicate_by(lambda end_offset: True)  # other replicas count
    rig.log.high_watermark = 5
    assert rig.log.apply_retention(NOW_MS) == 2
    assert rig.bases == [4, 6]


def test_files_are_marked_then_removed() -> None:
    rig = rig_of(3, retention_bytes=2 * SIZE, file_delete_delay_ms=1000)
    rig.log.flush()
    assert rig.log.apply_retention(NOW_MS) == 2
    marked = [f"{base:020d}{suffix}.deleted" for base in (0, 2) for suffix in (".index", ".log", ".timeindex")]
    assert rig.names(".deleted") == marked
    assert rig.names(".snapshot") == [f"{4:020d}.snapshot"]
    assert run_pass(delete_steps(rig.manager, NOW_MS + 999)) == 0
    assert run_pass(delete_steps(rig.manager, NOW_MS + 1000)) == len(marked)
    assert rig.names(".deleted") == []
    assert rig.read(4) == [4, 5]


def test_a_restart_removes_what_is_marked() -> None:
    rig = rig_of(3, retention_bytes=2 * SIZE)
    rig.log.apply_retention(NOW_MS)
    rig.restart(clean=False)
    assert rig.names(".deleted") == []
    assert (rig.log.log_start_offset, rig.read(4)) == (4, [4, 5])


def test_a_failing_rename_takes_the_directory_offline() -> None:
    rig = rig_of(3, retention_bytes=0)
    rig.memory.fail("rename", errno.EIO, path=".log")
    with pytest.raises(StorageError):
        rig.log.apply_retention(NOW_MS)
    rig.restart(clean=False)
    assert rig.log.log_end_offset == 6


def test_deleting_a_partition() -> None:
    rig = rig_of(2, file_delete_delay_ms=1000)
    rig.manager.delete("t", 0)
    (name,) = (name for name in rig.disk.list("/data") if name.startswith("t-"))
    assert len(name) == len("t-0.") + 32 + len("-delete")
    assert rig.manager.get("t", 0) is None
    fresh = rig.manager.create("t", 0, bytes(15) + b"\x07", rig.config)
    assert (fresh.log_end_offset, fresh.topic_id) == (0, bytes(15) + b"\x07")
    assert run_pass(delete_steps(rig.manager, NOW_MS + 999)) == 0
    assert run_pass(delete_steps(rig.manager, NOW_MS + 1000)) == 1
    assert name not in rig.disk.list("/data")


def test_a_long_topic_name_still_fits_a_directory_name() -> None:
    rig = Rig()
    rig.manager.create("x" * 249, 12345, None, rig.config)
    rig.manager.delete("x" * 249, 12345)
    (name,) = (name for name in rig.disk.list("/data") if name.startswith("xx"))
    assert len(name) == 255


# The time index has no checksum


def damaged_index(rig: Rig, segment: int, change: Callable[[bytes], bytes]) -> None:
    """Stops cleanly, changes a segment's time index, and starts."""
    path = f"{rig.path}/{rig.bases[segment]:020d}.timeindex"
    rig.manager.close()
    rig.disk.write_bytes(path, change(rig.disk.read_bytes(path)))
    rig.start()


def with_time(timestamp_ms: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:-12] + timestamp_ms.to_bytes(8, "big") + data[-4:]


@pytest.mark.parametrize("segment", [0, 3], ids=["ended", "active"])
def test_a_time_index_that_seems_old_deletes_nothing(segment: int, caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(4, retention_ms=7 * DAY)
    damaged_index(rig, segment, with_time(NOW_MS - 500 * DAY))
    old_ms = NOW_MS + segment * DAY
    assert rig.log.apply_retention(old_ms + 7 * DAY) == segment
    assert f"the greatest timestamp is {old_ms}, not {NOW_MS - 500 * DAY}" in caplog.text
    rig.restart(clean=True)  # with the index that was rebuilt
    assert rig.log.segments.first.max_timestamp == old_ms
    assert rig.log.apply_retention(old_ms + 7 * DAY + 1) == 1


def test_a_time_index_in_the_future_keeps_nothing_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(4, retention_ms=7 * DAY)
    damaged_index(rig, 0, with_time(NOW_MS + (1 << 50)))
    assert rig.log.apply_retention(NOW_MS + 8 * DAY) == 1
    assert f"the greatest timestamp is {NOW_MS}, not {NOW_MS + (1 << 50)}" in caplog.text


def test_a_time_index_that_lost_its_end_deletes_nothing() -> None:
    rig = Rig(
        settings(segment_bytes=8 * SIZE, index_interval_bytes=SIZE, retention_ms=DAY, message_timestamp_after_max_ms=1 << 60)
    )
    for at in range(9):
        rig.fill(1, timestamp_ms=NOW_MS + at * DAY)
    damaged_index(rig, 0, lambda data: data[:24])
    assert rig.log.apply_retention(NOW_MS + 7 * DAY) == 0
    assert rig.log.apply_retention(NOW_MS + 8 * DAY + 1) == 1


@pytest.mark.parametrize("ends", ["closed", "cut", "dropped"])
def test_times_are_compared_in_steps_between_which_the_log_may_change(ends: str) -> None:
    rig = Rig(settings(segment_bytes=700 * SIZE, retention_ms=DAY))
    rig.fill(1)
    rig.fill(600, timestamp_ms=NOW_MS - DAY)
    rig.fill(200)
    rig.restart(clean=True)
    log, late_ms = rig.log, NOW_MS + DAY + 1
    assert sum(1 for _ in log.check_times(late_ms)) == 699 // 64 + 100 // 64
    assert sum(1 for _ in log.check_times(late_ms)) == 0
    rig.restart(clean=True)
    log = rig.log
    steps = log.check_times(late_ms)
    next(steps)
    if ends == "closed":
        rig.manager.delete("t", 0)
    elif ends == "cut":
        log.truncate_to(100)
    else:
        log.delete_records_before(700)
        log.apply_retention(NOW_MS)
    assert list(steps) == []
    assert log.directory.failed is None
