"""log/opening/start.py: all partitions of all directories, in threads or without, stopped midway, and what it logs meanwhile."""

from __future__ import annotations

import errno
import logging
import re
import threading
from random import Random

import pytest

from ottla.log.disk.files import File, OsDisk, OsFile
from ottla.log.errors import NoRoom, OpeningStopped, StorageError
from ottla.log.management.manager import LogManager
from ottla.log.opening import start
from tests.log.support import NOW_MS, TOPIC_ID, batch, settings
from tests.memdisk import MemDisk

DIRECTORIES = ["/a", "/b"]


class Clock:
    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.step_ms = 0

    def __call__(self) -> int:
        self.now_ms += self.step_ms
        return self.now_ms


def manager(disk: MemDisk, threads: int, clock: Clock | None = None) -> LogManager:
    return LogManager(disk, DIRECTORIES, clock or Clock(), settings(), random=Random(1), recovery_threads=threads)


def killed(partitions: int = 12, batches: int = 5) -> MemDisk:
    """Two directories with partitions of topic "t", that a broker left without a clean stop."""
    disk = MemDisk(lambda: NOW_MS)
    logs = manager(disk, 1)
    logs.open_all()
    for partition in range(partitions):
        log = logs.create("t", partition, TOPIC_ID, settings())
        for _ in range(batches):
            log.append_as_leader(batch(), leader_epoch=0)
    logs.close(clean=False)
    return disk


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("clean", [True, False])
def test_threads_open_what_one_opens(threads: int, clean: bool) -> None:
    disk = killed()
    if clean:
        logs = manager(disk, 1)
        logs.open_all()
        logs.close()
    logs = manager(disk, threads)
    assert logs.needs_recovery != clean
    logs.open_all()
    assert list(logs.logs) == [("t", n) for n in sorted(range(0, 12, 2), key=str)] + [
        ("t", n) for n in sorted(range(1, 12, 2), key=str)
    ]
    assert {log.log_end_offset for log in logs.logs.values()} == {5}
    assert {log.directory.path for log in logs.logs.values()} == set(DIRECTORIES)
    assert threading.active_count() == 1 or not any(thread.name == "recovery" for thread in threading.enumerate())


@pytest.mark.parametrize(("threads", "clean"), [(1, False), (3, False), (3, True)])
def test_only_what_has_to_be_recovered_is_opened_in_threads(threads: int, clean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting is of one directory, so two directories have two threads at least."""
    disk = killed()
    if clean:
        logs = manager(disk, 1)
        logs.open_all()
        logs.close()
    threads_of: dict[str, set[threading.Thread]] = {"/a": set(), "/b": set()}

    def open_file(self: MemDisk, path: str, create: bool = False) -> File:
        if path.endswith(".log"):
            threads_of[path[:2]].add(threading.current_thread())
        return there(self, path, create)

    there = MemDisk.open
    monkeypatch.setattr(MemDisk, "open", open_file)
    manager(disk, threads).open_all()
    for in_directory in threads_of.values():
        assert 1 <= len(in_directory) <= threads
        assert {thread.name for thread in in_directory} == {threading.current_thread().name if clean else "recovery"}
    assert clean or not threads_of["/a"] & threads_of["/b"]


def test_a_partition_that_no_checkpoint_names_was_never_flushed() -> None:
    logs = manager(killed(), 1)
    logs.open_all()
    log = logs.logs["t", 0]
    assert (log.recovery_point, log.log_start_offset, log.saved_high_watermark) == (0, 0, 0)


def test_lines_of_checkpoints_with_offsets_that_no_log_has_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    disk = killed()
    lines = ["t 0 9223372036854775807", "t 2 9223372036854775808", "t 4 -1", "t 6 0"]
    disk.write_bytes("/a/cleaner-offset-checkpoint", "\n".join(["0", "4", *lines, ""]).encode())
    logs = manager(disk, 1)
    logs.open_all()
    assert logs.directories[0].cleaned == {("t", 0): 2**63 - 1, ("t", 6): 0}
    assert "/a/cleaner-offset-checkpoint: 2 lines have an impossible offset and are ignored" in caplog.text


def test_an_empty_directory_needs_no_recovery() -> None:
    disk = MemDisk()
    logs = manager(disk, 2)
    logs.lock()
    assert not logs.needs_recovery
    logs.open_all()
    assert not logs.logs


@pytest.mark.parametrize("threads", [1, 3])
def test_one_bad_partition_and_one_bad_directory_leave_the_others(threads: int) -> None:
    disk = killed()
    disk.write_bytes("/a/recovery-point-offset-checkpoint", b"0\n1\nt 4 5\n")
    path = "/a/t-4/00000000000000000000.log"
    disk.write_bytes(path, disk.read_bytes(path)[:-1])
    disk.fail("open", 5, path="/b/t-3/")
    logs = manager(disk, threads)
    logs.open_all()
    assert "below the recovery point 5" in logs.unavailable["t", 4]
    assert logs.directories[1].failed is not None
    assert ("t", 3) in logs.unavailable
    assert {("t", partition) for partition in (0, 2, 6, 8, 10)} <= logs.logs.keys()
    assert logs.previous_broker_epoch is None


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOSPC])
@pytest.mark.parametrize("threads", [1, 2])
def test_want_of_room_or_descriptors_is_no_failure_of_the_disk(threads: int, error: int) -> None:
    disk = killed()
    disk.fail("open", error, path="/a/t-4/")
    logs = manager(disk, threads)
    logs.open_all()
    assert [directory.failed for directory in logs.directories] == [None, None]
    assert logs.unavailable.keys() == logs.opening.without_room.keys() == {("t", 4)}
    logs.opening.open_again(("t", 4))
    job = logs.opening.without_room["t", 4]
    assert job.log is not None
    assert job.log.log_end_offset == 5
    assert not job.lacks_room


def test_what_a_power_cut_left_of_a_partition_that_waits_for_room_is_not_known_yet() -> None:
    disk = killed()
    for name in DIRECTORIES:
        disk.sync_dir(name)
    disk.crash()
    disk.fail("open", errno.EMFILE, path="/a/t-4/")
    logs = manager(disk, 1)
    logs.open_all()
    assert logs.opening.without_room
    logs.close(clean=False)
    assert [disk.lock(f"{name}/.lock").same_boot for name in DIRECTORIES] == [False, True]


@pytest.mark.parametrize(("operation", "path"), [("list", "/b"), ("read_bytes", "/b/recovery-point-offset-checkpoint")])
def test_a_directory_that_descriptors_do_not_suffice_to_look_into_is_not_taken_for_empty(operation: str, path: str) -> None:
    disk = killed()
    logs = manager(disk, 1)
    logs.open_all()
    logs.checkpoint_pass()
    logs.close(clean=False)
    disk.fail(operation, errno.EMFILE, path=path)
    with pytest.raises(NoRoom, match=f"/b cannot be opened: .*{path}"):
        manager(disk, 1).open_all()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bug_in_a_thread_is_raised(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("ours")

    monkeypatch.setattr(start, "open_log", broken)
    with pytest.raises(AssertionError, match="ours"):
        manager(killed(), threads).open_all()


def test_a_partition_in_two_directories_is_refused() -> None:
    disk = killed()
    disk.makedirs("/b/t-0")
    with pytest.raises(StorageError, match="t-0 is in two log directories, /a and /b"):
        manager(disk, 2).open_all()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_start_that_is_stopped_changes_nothing(threads: int) -> None:
    disk = killed()
    files = {name: disk.read_bytes(f"/a/t-0/{name}") for name in disk.list("/a/t-0")}
    logs = manager(disk, threads)
    logs.stop_opening()
    with pytest.raises(OpeningStopped):
        logs.open_all()
    logs.close(clean=False)
    assert {name: disk.read_bytes(f"/a/t-0/{name}") for name in disk.list("/a/t-0")} == files
    again = manager(disk, threads)
    assert again.needs_recovery
    again.open_all()
    assert {log.log_end_offset for log in again.logs.values()} == {5}


def test_a_stop_in_the_middle_leaves_the_rest_for_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = killed()
    logs = manager(disk, 1)
    read, stop = disk.open, logs.stop_opening

    def open_and_stop(path: str, create: bool = False) -> File:
        if path.startswith("/b/t-5/"):
            stop()
        return read(path, create)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "open", open_and_stop)
        with pytest.raises(OpeningStopped):
            logs.open_all()
        assert not logs.logs
        logs.close(clean=False)
    again = manager(disk, 1)
    again.open_all()
    assert {log.log_end_offset for log in again.logs.values()} == {5}


def test_long_work_logs_its_progress(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.log.start")
    disk, clock = killed(partitions=8, batches=50), Clock()
    clock.step_ms = 3_000
    logs = LogManager(disk, ["/a"], clock, settings(), random=Random(1))
    logs.open_all()
    lines = [record.message for record in caplog.records]
    assert re.fullmatch(r"opening: [34] of 4 partitions left, 0 of 0 MiB checked, \d+ s", lines[0])
    assert len(lines) > 2
    left = [int(line.split()[1]) for line in lines[:-1]]
    assert left == sorted(left, reverse=True)
    assert 0 < left[-1] < left[0]
    assert lines[-1].startswith("opened 4 partitions in /a after an unclean stop, ")


def test_two_brokers_do_not_share_a_directory(tmp_path: object) -> None:
    path = f"{tmp_path}/data"
    first = LogManager(OsDisk(), [path], lambda: NOW_MS, settings(), random=Random(1))
    first.open_all()
    second = LogManager(OsDisk(), [path], lambda: NOW_MS, settings(), random=Random(1))
    with pytest.raises(StorageError, match=r"in use by another broker \(it holds .*/\.lock\)"):
        second.open_all()
    first.close()
    second.open_all()
    second.close()
    assert issubclass(OsDisk.file_type, OsFile)
