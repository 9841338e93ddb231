"""log/disk/directory.py: failing together, removing later, and checkpoints that cost nothing when nothing moved."""

from __future__ import annotations

import errno
from random import Random

import pytest

from ottla.log.disk import checkpoint
from ottla.log.disk.directory import CHECKPOINTS, LogDirectory, do_at_once
from ottla.log.disk.files import OpenFiles, StateUnknown
from ottla.log.errors import NoRoom, StorageError
from ottla.log.management.manager import LogManager
from ottla.log.management.passes import delete_steps, run_pass
from tests.log.support import NOW_MS, TOPIC_ID, Rig, batch, settings
from tests.memdisk import MemDisk


@pytest.fixture
def disk() -> MemDisk:
    disk = MemDisk()
    disk.makedirs("/d/p")
    return disk


@pytest.fixture
def directory(disk: MemDisk) -> LogDirectory:
    return LogDirectory(disk, "/d", OpenFiles(5))


def test_the_first_failure_is_the_reason(directory: LogDirectory) -> None:
    told: list[LogDirectory] = []
    directory.on_failure = told.append
    directory.check()
    for text in ("first", "second"):
        error = directory.fail("writing", OSError(errno.EIO, text))
        assert isinstance(error, StorageError)
    assert told == [directory]
    with pytest.raises(StorageError, match="first"):
        directory.check()


def test_guard(directory: LogDirectory) -> None:
    with directory.guard("nothing"):
        pass
    with pytest.raises(StorageError, match=r"reading: .*gone"), directory.guard("reading"):
        raise OSError(errno.EIO, "gone")
    with pytest.raises(StorageError), directory.guard("again"):
        pytest.fail("an offline directory is not touched")


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_is_not_the_disks_fault(directory: LogDirectory, code: int) -> None:
    with pytest.raises(StorageError), directory.guard("opening"):
        raise OSError(code, "too many")
    directory.check()


@pytest.mark.parametrize(
    ("error", "is_offline"),
    [
        (OSError(errno.ENOSPC, "full"), False),
        (OSError(errno.EDQUOT, "full"), False),
        (StateUnknown(errno.ENOSPC, "full"), True),
        (StateUnknown(errno.EMFILE, "too many"), True),
        (OSError(errno.EIO, "broken"), True),
        (ValueError("odd"), True),
    ],
    ids=repr,
)
def test_want_of_room_takes_no_directory_offline_unless_nobody_knows_what_the_disk_holds(
    directory: LogDirectory, error: Exception, is_offline: bool
) -> None:
    raised = directory.fail("writing", error)
    assert isinstance(raised, NoRoom) != is_offline
    assert (directory.failed is not None) == is_offline


def test_removing_later(disk: MemDisk, directory: LogDirectory) -> None:
    for name in ("a", "b", "p/c"):
        disk.write_bytes(f"/d/{name}", b"x")
    directory.remove_later("/d/a", 100)
    directory.remove_later("/d/p/c", 100)
    directory.remove_later("/d/p", 100)
    directory.remove_later("/d/b", 101)
    directory.remove_later("/d/gone", 100)
    assert run_pass(directory.removals(99)) == 0
    assert run_pass(directory.removals(100)) == 4
    assert disk.list("/d") == ["b"]
    assert run_pass(directory.removals(1000)) == 1
    assert disk.list("/d") == []


def test_a_removal_pauses_after_each_file_and_leaves_alone_what_comes_due_meanwhile(
    disk: MemDisk, directory: LogDirectory
) -> None:
    disk.makedirs("/d/q/inner")
    for name in ("q/a", "q/b", "q/inner/c", "late"):
        disk.write_bytes(f"/d/{name}", b"x")
    directory.remove_later("/d/q", 100)
    disk.trace.clear()
    counts = []
    for _ in directory.removals(100):
        counts.append(len(disk.trace))
        if len(counts) == 1:
            directory.remove_later("/d/late", 100)
    assert counts == [1, 2, 3, 4, 5]
    assert disk.exists("/d/late")
    assert run_pass(directory.removals(100)) == 1
    assert not disk.exists("/d/late")


def test_a_failing_removal(disk: MemDisk, directory: LogDirectory) -> None:
    disk.write_bytes("/d/a", b"x")
    directory.remove_later("/d/a", 0)
    disk.fail("remove")
    with pytest.raises(StorageError):
        run_pass(directory.removals(0))


class _Log:
    recovery_point, log_start_offset, first_base_offset, checkpointed_high_watermark = 7, 5, 3, 9


def test_checkpoints(disk: MemDisk, directory: LogDirectory) -> None:
    directory.partitions["t", 0] = _Log()
    directory.save_all()
    contents = {name: disk.read_bytes(f"/d/{name}") for name in disk.list("/d") if name != "p"}
    assert contents == {
        "log-start-offset-checkpoint": b"0\n1\nt 0 5\n",
        "log-start-offset-checkpoint.crc": b"304c034b\n",
        "recovery-point-offset-checkpoint": b"0\n1\nt 0 7\n",
        "replication-offset-checkpoint": b"0\n1\nt 0 9\n",
    }
    changes = disk.changes
    directory.save_all()
    assert disk.changes == changes


def test_a_checkpoint_that_failed_is_not_taken_for_written(disk: MemDisk, directory: LogDirectory) -> None:
    disk.fail("write_bytes")
    with pytest.raises(StorageError):
        directory.save_recovery_points()
    with pytest.raises(StorageError):
        directory.save_recovery_points()


def test_a_checkpoint_pass_looks_at_a_partition_a_step_and_leaves_the_writing_to_a_thread(
    disk: MemDisk, directory: LogDirectory
) -> None:
    directory.partitions.update({("t", index): _Log() for index in range(9)})
    changes = disk.changes
    steps = directory.save_in_steps([checkpoint.RECOVERY_POINTS])
    assert [next(steps) for _ in range(9)] == [None] * 9
    job = next(steps)
    assert job is not None
    assert disk.changes == changes
    job()
    assert disk.changes > changes
    assert list(steps) == []
    assert list(directory.save_in_steps([checkpoint.RECOVERY_POINTS])) == [None] * 9


@pytest.mark.parametrize("collected", [1, 3])
def test_what_is_saved_while_a_pass_collects_or_waits_for_its_thread_is_newer_and_stays(
    disk: MemDisk, directory: LogDirectory, *, collected: int
) -> None:
    logs = [_Log(), _Log()]
    directory.partitions.update({("t", index): log for index, log in enumerate(logs)})
    steps = directory.save_in_steps([checkpoint.RECOVERY_POINTS])
    *_, job = (next(steps) for _ in range(collected))
    logs[0].recovery_point = 2  # a cut, whose recovery point has to be on the disk before anything is written
    directory.save_recovery_points()
    if job is not None:
        job()
    assert list(steps) == []
    assert disk.read_bytes("/d/recovery-point-offset-checkpoint") == b"0\n2\nt 0 2\nt 1 7\n"


def test_what_a_thread_may_be_writing_is_written_again_although_it_was_so_before(disk: MemDisk, directory: LogDirectory) -> None:
    log = directory.partitions["t", 0] = _Log()
    directory.save_recovery_points()
    log.recovery_point = 8
    steps = directory.save_in_steps([checkpoint.RECOVERY_POINTS])
    *_, job = (next(steps) for _ in range(2))
    log.recovery_point = 7
    changes = disk.changes
    directory.save_recovery_points()
    assert disk.changes > changes, "the thread might have written 8 just now"
    assert job is not None
    job()
    assert disk.read_bytes("/d/recovery-point-offset-checkpoint") == b"0\n1\nt 0 7\n"


def test_a_partition_that_is_made_anew_during_a_pass_gets_nothing_of_the_old_one(disk: MemDisk, directory: LogDirectory) -> None:
    directory.partitions.update({("t", index): _Log() for index in range(2)})
    steps = directory.save_in_steps(CHECKPOINTS)
    next(steps)
    del directory.partitions["t", 0]
    directory.forget(("t", 0))
    directory.partitions["t", 0] = new = _Log()
    new.recovery_point = 0
    for job in steps:
        if job is not None:
            job()
    assert b"t 0 7\n" not in disk.read_bytes("/d/recovery-point-offset-checkpoint")


def test_a_partition_that_is_deleted_during_a_pass_has_no_line(disk: MemDisk, directory: LogDirectory) -> None:
    directory.partitions.update({("t", index): _Log() for index in range(3)})
    steps = directory.save_in_steps([checkpoint.RECOVERY_POINTS])
    next(steps)
    del directory.partitions["t", 1]
    do_at_once(steps)
    assert disk.read_bytes("/d/recovery-point-offset-checkpoint") == b"0\n2\nt 0 7\nt 2 7\n"


def test_a_thread_that_cannot_write_a_checkpoint_ends_the_pass(disk: MemDisk, directory: LogDirectory) -> None:
    directory.partitions["t", 0] = _Log()
    steps = directory.save_in_steps(CHECKPOINTS)
    *_, job = (next(steps) for _ in range(2))
    disk.fail("write_bytes")
    assert job is not None
    job()
    with pytest.raises(StorageError):
        next(steps)
    assert directory.failed is not None


# Names: each is made durable where it is made, changed or taken away. The power is cut right behind that, and everything is
# lost that was not synced. (What files hold and when: test_flush.py, test_files.py, tests/sim.)


def after_power_cut(rig: Rig) -> Rig:
    rig.memory.crash()
    rig.start()
    return rig


def test_a_new_log_directory_and_its_identity_are_durable() -> None:
    disk = MemDisk()
    manager = LogManager(disk, ["/srv/kafka/one", "/srv/kafka/two"], lambda: NOW_MS, settings(), random=Random(1))
    manager.lock()
    made = manager.format("cluster", 1)
    disk.crash()
    manager = LogManager(disk, ["/srv/kafka/one", "/srv/kafka/two"], lambda: NOW_MS, settings(), random=Random(1))
    assert manager.meta_properties() == made


def test_a_new_partition_is_durable_with_its_first_flush() -> None:
    rig = Rig()
    rig.fill(1)
    rig.log.flush()
    assert after_power_cut(rig).read() == [0]
    assert rig.log.topic_id == TOPIC_ID


def test_a_rolled_segment_is_durable_with_the_next_flush() -> None:
    rig = Rig(settings(segment_bytes=2 * len(batch())))
    rig.fill(5)
    rig.log.flush()
    assert after_power_cut(rig).bases == [0, 2, 4]
    assert rig.read() == [0, 1, 2, 3, 4]


def test_a_deleted_partition_does_not_come_back_under_its_name() -> None:
    rig = Rig()
    rig.fill(1)
    rig.log.flush()
    rig.manager.delete("t", 0)
    rig.memory.crash()
    assert [name for name in rig.disk.list("/data") if name == "t-0"] == []
    rig.start()
    assert rig.log.log_end_offset == 0


def test_a_partition_that_was_set_aside_stays_there() -> None:
    rig = Rig()
    rig.fill(1)
    rig.log.flush()
    rig.manager.set_aside("t", 0)
    rig.memory.crash()
    (name,) = (name for name in rig.disk.list("/data") if name.startswith("t-0"))
    assert name.endswith("-stray")


def test_removed_files_and_directories_stay_removed() -> None:
    rig = Rig(settings(segment_bytes=2 * len(batch()), retention_bytes=2 * len(batch()), file_delete_delay_ms=0))
    rig.fill(6)
    rig.log.flush()
    assert rig.log.apply_retention(NOW_MS) == 2
    run_pass(delete_steps(rig.manager, NOW_MS))
    rig.memory.crash()
    assert [name for name in rig.names() if ".log" in name] == [f"{4:020d}.log"]
    rig.start()
    rig.manager.delete("t", 0)
    run_pass(delete_steps(rig.manager, NOW_MS))
    rig.memory.crash()
    assert [name for name in rig.disk.list("/data") if name.startswith("t-0")] == []


def test_a_stop_is_clean_only_until_the_next_start() -> None:
    rig = Rig()
    rig.fill(1)
    rig.restart(clean=True)
    assert rig.manager.previous_broker_epoch is not None
    assert after_power_cut(rig).manager.previous_broker_epoch is None


def test_the_marker_of_a_clean_stop_is_durable_behind_all_that_it_promises() -> None:
    rig = Rig()
    rig.append(batch(producer=(7, 0, 0)))
    rig.manager.close()
    assert after_power_cut(rig).manager.previous_broker_epoch is not None
    assert rig.append(batch(producer=(7, 0, 0))).duplicate


def test_a_topic_id_that_a_partition_learns_is_durable() -> None:
    rig = Rig(topic_id=None)
    rig.fill(1)
    rig.log.flush()
    rig.topic_id = TOPIC_ID
    rig.restart(clean=False)
    rig.topic_id = None
    assert after_power_cut(rig).log.topic_id == TOPIC_ID


def test_checkpoints_are_durable_when_they_are_saved() -> None:
    rig = Rig()
    rig.fill(3)
    rig.log.flush()
    rig.log.delete_records_before(2)
    rig.manager.checkpoint_pass()
    assert after_power_cut(rig).log.log_start_offset == 2
    assert (rig.log.recovery_point, rig.log.saved_high_watermark) == (3, None)
