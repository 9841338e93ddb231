"""log/local_log.py: the files of a partition, made, cut, dropped and renamed."""

from __future__ import annotations

import errno

import pytest

from ottla.log.errors import StorageError
from ottla.log.local_log import LocalLog
from ottla.log.management.passes import delete_steps, run_pass
from ottla.log.names import STRAY_DIR_SUFFIX
from ottla.log.segment import Segment
from ottla.log.stored_index import LOADED_ENTRIES
from ottla.log.txn_index import AbortedTransaction
from tests.log.support import NOW_MS, Rig, batch, settings

SIZE = len(batch())
ABORTED = AbortedTransaction(7, 0, 1, 2)


def rig_of(batches: int, **changes: int) -> Rig:
    """Two batches a segment."""
    rig = Rig(settings(segment_bytes=2 * SIZE, **changes))
    rig.fill(batches)
    return rig


def test_a_new_segment_has_its_files_and_is_not_in_the_log_yet() -> None:
    rig = rig_of(1)
    segment = rig.log.local.new_segment(9)
    assert [name for name in rig.names() if name.startswith(f"{9:020d}")] == [
        f"{9:020d}{end}" for end in (".index", ".log", ".timeindex")
    ]
    assert segment.size == 0
    assert rig.bases == [0]


def test_segments_draw_their_jitter_below_the_settings() -> None:
    rig = Rig(settings(segment_jitter_ms=50, segment_ms=1000))
    drawn = {rig.log.local.segment_of(0, 0).jitter_ms for _ in range(300)}
    assert drawn == set(range(50))
    assert {settings(segment_jitter_ms=0).random_segment_jitter_ms(rig.random) for _ in range(5)} == {0}
    assert max(settings(segment_jitter_ms=99, segment_ms=3).random_segment_jitter_ms(rig.random) for _ in range(99)) == 2


def test_dropped_segments_are_marked_and_go_after_the_delay() -> None:
    rig = rig_of(5, file_delete_delay_ms=500)
    rig.log.local.drop_oldest(2)
    assert rig.bases == [4]
    assert [name[:20] for name in rig.names(".log.deleted")] == [f"{0:020d}", f"{2:020d}"]
    assert [name[:20] for name in rig.names(".snapshot")] == [f"{4:020d}"]
    assert run_pass(delete_steps(rig.manager, NOW_MS + 499)) == 0
    assert run_pass(delete_steps(rig.manager, NOW_MS + 500)) == 6
    assert rig.names(".deleted") == []


def test_the_oldest_go_durably_one_after_the_other() -> None:
    rig = rig_of(5)
    rig.memory.trace.clear()
    rig.log.local.drop_oldest(2)
    done = [
        (what, path.rpartition("/")[2][:20]) for what, path in rig.memory.trace if path.endswith(".log") or what == "sync_dir"
    ]
    assert done == [("rename", f"{0:020d}"), ("sync_dir", "t-0"), ("rename", f"{2:020d}"), ("sync_dir", "t-0")]


def test_a_snapshot_may_be_kept() -> None:
    rig = rig_of(5)
    dropped = rig.log.segments.drop_first(2)
    rig.log.local.drop(dropped, keep_snapshot=2)
    assert [name[:20] for name in rig.names(".snapshot")] == [f"{2:020d}", f"{4:020d}"]


@pytest.mark.parametrize(("offset", "bases"), [(0, [0]), (1, [0]), (2, [0, 2]), (3, [0, 2]), (4, [0, 2, 4]), (5, [0, 2, 4])])
def test_a_cut_ends_the_segments_and_lowers_what_is_clean(offset: int, bases: list[int]) -> None:
    rig = rig_of(6)
    rig.log.directory.cleaned["t", 0] = 6
    rig.log.local.cut(offset)
    assert rig.bases == bases
    assert sum(segment.size for segment in rig.log.segments) == offset * SIZE
    assert rig.log.directory.cleaned["t", 0] == offset


def test_a_cut_below_all_segments_begins_anew_there() -> None:
    rig = rig_of(6)
    rig.log.local.drop_oldest(2)
    rig.log.local.cut(1)
    assert rig.bases == [1]
    assert rig.log.segments.active.size == 0


def test_an_index_that_is_not_there_is_rebuilt_with_its_marker() -> None:
    rig = rig_of(1)
    rig.log.local.add_aborted(ABORTED, 0)
    assert list(rig.log.txn_index_of(rig.log.segments.active)) == [ABORTED]
    assert len(rig.names(".txnindex")) == 1


def test_an_index_file_that_cannot_be_made_is_no_failure_of_the_append() -> None:
    rig = rig_of(1)
    rig.memory.fail("open", errno.EIO, path=".txnindex")
    rig.log.local.add_aborted(ABORTED, 0)
    assert list(rig.log.segments.active.txn_index) == [ABORTED]
    with pytest.raises(StorageError):
        rig.log.directory.check()


def test_a_retired_directory_is_gone_under_its_name() -> None:
    rig = rig_of(1)
    renamed = rig.log.local.retire_directory(STRAY_DIR_SUFFIX)
    assert renamed.startswith("/data/t-0.")
    assert renamed.endswith("-stray")
    assert rig.disk.exists(renamed)
    assert not rig.disk.exists(rig.path)


def test_a_log_goes_on_under_another_name() -> None:
    rig = rig_of(3)
    rig.log.local.rename_directory("/data/other")
    rig.fill(2)
    assert rig.log.path == "/data/other"
    assert rig.read() == [0, 1, 2, 3, 4]
    assert {name[:20] for name in rig.disk.list("/data/other") if name.endswith(".log")} == {f"{base:020d}" for base in (0, 2, 4)}


def test_large_indexes_are_found_under_another_name_too() -> None:
    rig = rig_of_large_indexes()
    rig.log.roll()
    old = rig.log.segments[0]
    position = old.position_of(7)
    rig.log.local.rename_directory("/data/other")
    assert (old.position_of(7), old.position_of(LOADED_ENTRIES)) == (position, LOADED_ENTRIES * SIZE)
    assert old.indexes.offsets is None  # nothing was loaded, nor rebuilt


def rig_of_large_indexes() -> Rig:
    """One segment, with an entry for each batch but the first."""
    rig = Rig(settings(index_interval_bytes=0))
    rig.fill(LOADED_ENTRIES + 2)
    return rig


def test_large_indexes_leave_memory_with_a_roll_that_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one that fails the segment goes on, and each further attempt would load them again."""

    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    rig = rig_of_large_indexes()
    old = rig.log.segments.active
    with monkeypatch.context() as patch:
        patch.setattr(LocalLog, "new_segment", is_full)
        with pytest.raises(StorageError):
            rig.log.roll()
    assert is_in_memory(old)
    rig.log.roll()
    assert not is_in_memory(old)


def is_in_memory(segment: Segment) -> bool:
    return segment.indexes.offsets is not None and segment.indexes.times is not None


@pytest.mark.parametrize("synced", [True, False])
def test_the_indexes_of_a_segment_that_ends_are_synced_now_or_with_the_next_flush(synced: bool) -> None:
    rig = rig_of(1)
    rig.log.flush()
    local, segment = rig.log.local, rig.log.segments.active
    paths = [segment.path(suffix) for suffix in (".index", ".timeindex")]
    rig.memory.trace.clear()
    local.end_segment(segment, synced=synced)
    synced_now = [path for what, path in rig.memory.trace if what in ("sync", "sync_dir")]
    assert synced_now == ([*paths, rig.path] if synced else [])
    assert local.unsynced.paths == ([] if synced else paths)


def test_indexes_are_written_once() -> None:
    rig = rig_of(1)
    local, segment = rig.log.local, rig.log.segments.active
    rig.log.flush()
    local.write_indexes()
    paths = [segment.path(suffix) for suffix in (".index", ".timeindex")]
    assert local.unsynced.paths == paths
    local.write_indexes()
    assert local.unsynced.paths == paths


@pytest.mark.parametrize("failing", [".index", ".timeindex"])
def test_what_was_cut_off_is_synced_even_if_the_indexes_are_written_at_the_second_attempt(failing: str) -> None:
    """Otherwise a power cut after a clean stop could bring the half of a batch back, at the end of a log that nobody checks."""
    rig = rig_of(1)
    rig.log.flush()
    rig.memory.fail("append", errno.ENOSPC, written=50)
    with pytest.raises(StorageError):
        rig.append()
    rig.memory.fail("write_bytes", errno.ENOSPC, path=failing)
    with pytest.raises(StorageError):
        rig.log.start_close()
    rig.memory.trace.clear()
    rig.log.close()
    assert ("sync", rig.log.segments.active.path(".log")) in rig.memory.trace
