"""log/flush.py: what a job syncs, in a thread beside appends too, and what it forgives."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.log.disk.files import OsDisk
from ottla.log.errors import StorageError
from ottla.log.flush import Unsynced
from ottla.log.management.passes import delete_steps, run_pass
from tests.log.support import Rig, batch, settings

SIZE = len(batch())


def test_unsynced_is_handed_over_once() -> None:
    unsynced = Unsynced()
    unsynced.names_in("/p")
    unsynced.names_in("/p")
    unsynced.paths.append("/p/a")
    unsynced.epochs = True
    assert unsynced.take() == (["/p/a"], ["/p"])
    assert (unsynced.take(), unsynced.epochs) == (([], []), False)


def test_a_job_syncs_segments_side_files_epochs_and_names() -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(3)
    rig.memory.trace.clear()
    rig.log.flush()
    synced = [path.removeprefix(f"{rig.path}/") for what, path in rig.memory.trace if what in ("sync", "sync_dir")]
    assert synced == [
        f"{0:020d}.log",
        f"{2:020d}.log",
        "partition.metadata",
        f"{0:020d}.index",
        f"{0:020d}.timeindex",
        f"{2:020d}.snapshot",
        "leader-epoch-checkpoint.tmp",
        rig.path,
        rig.path,
        "/data",
    ]
    rig.fill(1)
    rig.memory.trace.clear()
    rig.log.flush()
    assert rig.memory.trace == [("sync", f"{rig.path}/{2:020d}.log")]


def test_files_that_went_meanwhile_are_no_failure() -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE, retention_bytes=2 * SIZE))
    rig.fill(6)
    job = rig.log.start_flush()
    assert job is not None
    rig.log.apply_retention(rig.now_ms)
    run_pass(delete_steps(rig.manager, rig.now_ms + 60_000))
    job.run()
    rig.log.begin_epoch(5)
    rig.fill(1)
    job = rig.log.start_flush()
    assert job is not None
    rig.manager.delete("t", 0)
    run_pass(delete_steps(rig.manager, rig.now_ms + 120_000))
    job.run()
    rig.log.directory.check()


def test_a_job_of_a_deleted_partition_leaves_the_next_of_its_name_alone() -> None:
    rig = Rig()
    rig.fill(1)
    rig.log.begin_epoch(5)
    rig.fill(1)
    job = rig.log.start_flush()
    assert job is not None
    rig.manager.delete("t", 0)
    made = rig.manager.create("t", 0, bytes(reversed(range(16))), rig.config)
    before = rig.disk.read_bytes(f"{made.path}/leader-epoch-checkpoint")
    job.run()
    assert rig.disk.read_bytes(f"{made.path}/leader-epoch-checkpoint") == before


@pytest.mark.parametrize("operation", ["open", "sync_dir"])
def test_what_a_job_without_descriptors_did_not_sync_the_next_one_does(operation: str) -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(3)
    rig.memory.fail(operation, errno.EMFILE)
    with pytest.raises(StorageError):
        rig.log.flush()
    rig.log.directory.check()
    rig.memory.trace.clear()
    rig.log.flush()
    assert {("sync_dir", rig.path), ("sync", f"{rig.path}/{0:020d}.index")} <= set(rig.memory.trace)


def test_in_a_thread_beside_appends(tmp_path: Path) -> None:
    rig = Rig(settings(segment_bytes=20 * SIZE), OsDisk(), directory=str(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        for _ in range(20):
            rig.fill(5)
            job = rig.log.start_flush()
            assert job is not None
            running = pool.submit(job.run)
            rig.fill(5)
            running.result()
            job.finish()
            assert rig.log.unflushed == 5
    rig.restart(clean=False)
    assert rig.read() == list(range(200))


def test_jobs_of_one_log_run_one_after_the_other_and_the_later_covers_the_earlier() -> None:
    """The first fails for want of descriptors when the second is made: the recovery point may not pass the names of the first."""
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(3)
    first = rig.log.start_flush()
    rig.fill(1)
    second = rig.log.start_flush()
    assert first is not None
    assert second is not None
    rig.memory.fail("open", errno.EMFILE)
    with pytest.raises(StorageError):
        first.run()
    rig.memory.trace.clear()
    second.run_and_finish()
    first.give_up()
    assert ("sync_dir", rig.path) in rig.memory.trace
    assert rig.log.recovery_point == 4
    assert rig.log.unsynced, "what the first gave back is synced again with the next"
    rig.log.flush()
    assert not rig.log.unsynced


@pytest.mark.parametrize("of_names", [True, False])
def test_a_job_takes_over_names_and_epochs_of_the_one_under_way(*, of_names: bool) -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(1)
    rig.log.flush()
    for _ in range(2 if of_names else 1):
        rig.append(leader_epoch=0 if of_names else 5)
    first = rig.log.start_flush()
    rig.append(leader_epoch=rig.log.leader_epoch)
    second = rig.log.start_flush()
    assert first is not None
    assert second is not None
    rig.memory.fail("open" if of_names else "write_bytes", errno.EMFILE)
    with pytest.raises(StorageError):
        first.run()
    rig.memory.trace.clear()
    second.run_and_finish()
    if of_names:
        assert ("sync_dir", rig.path) in rig.memory.trace
        assert ("sync", f"{rig.path}/{0:020d}.index") in rig.memory.trace
    else:
        assert rig.disk.read_bytes(f"{rig.path}/leader-epoch-checkpoint").split(b"\n")[-2].startswith(b"5 ")
    assert rig.log.unflushed == 0


def test_nothing_to_flush_means_that_nothing_is_in_flight_either() -> None:
    rig = Rig()
    rig.fill(1)
    job = rig.log.start_flush()
    assert job is not None
    rig.memory.trace.clear()
    rig.log.flush()
    assert ("sync_dir", rig.path) in rig.memory.trace
    job.run_and_finish()
    assert rig.log.start_flush() is None


def test_an_append_that_makes_a_flush_due_waits_where_the_caller_flushes() -> None:
    rig = Rig(settings(flush_messages=3))
    assert [rig.append().waits for _ in range(4)] == [False, False, True, True]
    assert (rig.log.high_watermark, rig.log.recovery_point) == (2, 0)
    rig.log.flush(3)
    assert (rig.log.high_watermark, rig.log.recovery_point) == (4, 3), "the fourth is one of two that may be lost"
    assert rig.append().waits is False


def test_held_back_appends_that_are_cut_off_hold_nothing_back() -> None:
    rig = Rig(settings(flush_messages=1))
    rig.fill(3)
    rig.log.truncate_to(1)
    rig.fill(1)
    rig.log.flush()
    assert rig.log.high_watermark == 2


def test_what_counts_replicas_learns_of_an_append_when_it_need_not_be_flushed_any_more() -> None:
    rig = Rig(settings(flush_messages=2))
    ends: list[int] = []

    def on_append(end_offset: int) -> bool:
        ends.append(end_offset)
        return True

    rig.log.replicate_by(on_append)
    assert [rig.append().waits for _ in range(3)] == [True, True, True]
    assert ends == [1]
    rig.log.flush()
    assert ends == [1, 2, 3]
    assert rig.log.high_watermark == 0, "it is moved by who counts"


def test_without_a_wait_for_replicas_an_append_says_so() -> None:
    rig = Rig(settings())
    rig.log.replicate_by(lambda end_offset: False)
    assert rig.append().waits is False
