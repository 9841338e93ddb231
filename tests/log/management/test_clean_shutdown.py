"""log/management/clean_shutdown.py: a stop that syncs many partitions at once leaves what one that syncs them one after the
other leaves.

On a real disk: the simulated one is for one thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.log.disk import files as files_module
from ottla.log.disk.files import OsDisk, OsFile, StateUnknown
from ottla.log.management.clean_shutdown import sync_all
from ottla.log.management.manager import LogManager
from tests.log.support import NOW_MS, TOPIC_ID, batch, settings


class FailingFile(OsFile):
    """Partition 3 cannot be synced."""

    __slots__ = ()

    def sync(self) -> None:
        if "/t-3/" in self.path:
            raise StateUnknown(errno.EIO, "fsync failed", self.path)


class FailingDisk(OsDisk):
    file_type = FailingFile


def manager(path: Path, threads: int, disk: OsDisk | None = None) -> LogManager:
    directories = [f"{path}/a", f"{path}/b"]
    logs = LogManager(
        disk or OsDisk(), directories, lambda: NOW_MS, settings(), random=Random(1), recovery_threads=threads, max_open_files=5
    )
    logs.open_all()
    return logs


def write(logs: LogManager, partitions: int = 40) -> None:
    for partition in range(partitions):
        log = logs.create("t", partition, TOPIC_ID, settings(segment_bytes=400))
        for sequence in range(partition % 4):  # some are never written to
            log.append_as_leader(batch(producer=(1, 0, sequence)), leader_epoch=0)


def files(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def test_threads_leave_what_one_leaves(tmp_path: Path) -> None:
    for threads in (1, 4):
        logs = manager(tmp_path / str(threads), threads)
        write(logs)
        logs.close()
    assert files(tmp_path / "4") == files(tmp_path / "1")
    again = manager(tmp_path / "4", 4)
    assert again.previous_broker_epoch is not None
    assert [again.logs["t", partition].log_end_offset for partition in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
    again.close()


def test_a_directory_that_fails_meanwhile_gets_no_marker(tmp_path: Path) -> None:
    logs = manager(tmp_path, 4, FailingDisk())
    write(logs)
    logs.close()
    assert logs.directories[1].failed is not None
    assert (tmp_path / "a/.kafka_cleanshutdown").exists()
    assert not (tmp_path / "b/.kafka_cleanshutdown").exists()
    again = manager(tmp_path, 4)
    assert {again.logs["t", partition].log_end_offset for partition in range(3, 40, 4)} == {3}
    again.close(clean=False)


class ShortOfDescriptors(OsDisk):
    """The first sync of partition 3's directory finds none."""

    def __init__(self) -> None:
        self.asked = 0

    def sync_dir(self, path: str) -> None:
        if path.endswith("/t-3"):
            self.asked += 1
            if self.asked == 1:
                raise OSError(errno.EMFILE, "Too many open files", path)
        super().sync_dir(path)


def test_what_could_not_be_synced_together_is_synced_alone(tmp_path: Path) -> None:
    disk = ShortOfDescriptors()
    logs = manager(tmp_path, 4, disk)
    write(logs)
    disk.asked = 0
    logs.close()
    assert disk.asked > 1
    assert (tmp_path / "b/.kafka_cleanshutdown").exists()


def test_what_was_flushed_before_and_could_not_be_synced_together_is_synced_alone(tmp_path: Path) -> None:
    """Then the log's end is durable, and only its indexes and its snapshot are not."""
    disk = ShortOfDescriptors()
    logs = manager(tmp_path, 4, disk)
    write(logs)
    disk.asked = 1
    for log in logs.logs.values():
        log.flush()
    disk.asked = 0
    logs.close()
    assert disk.asked > 1
    assert (tmp_path / "b/.kafka_cleanshutdown").exists()


class LosesTheMarker(OsDisk):
    """Cannot say whether the name of a clean stop's marker is durable."""

    def sync_dir(self, path: str) -> None:
        super().sync_dir(path)
        if os.path.exists(f"{path}/.kafka_cleanshutdown"):
            raise StateUnknown(errno.EIO, "fsync failed", path)


def test_a_directory_that_fails_with_its_marker_has_none(tmp_path: Path) -> None:
    logs = manager(tmp_path, 4, LosesTheMarker())
    write(logs, 4)
    logs.close()
    assert [directory.failed is None for directory in logs.directories] == [False, False]
    assert not list(tmp_path.glob("*/.kafka_cleanshutdown*"))


class BrokenDisk(OsDisk):
    """Syncing partition 3's directory comes to a bug of ours."""

    def sync_dir(self, path: str) -> None:
        if path.endswith("/t-3"):
            raise ZeroDivisionError("a bug")
        super().sync_dir(path)


def test_what_ended_in_a_bug_does_not_count_as_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = manager(tmp_path, 4, BrokenDisk())
    write(logs)
    seen: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.exc_type))
    sync_all(logs.logs.values(), 4, {})
    assert seen == [ZeroDivisionError]
    assert {logs.logs["t", partition].unflushed for partition in range(3, 40, 4)} == {0, 3}
    assert logs.logs["t", 3].unflushed == 3
    assert logs.logs["t", 3].unsynced
    logs.close(clean=False)


class CountingFile(OsFile):
    __slots__ = ()
    syncs = 0

    def sync(self) -> None:
        CountingFile.syncs += 1
        super().sync()


class CountingDisk(OsDisk):
    """Counts fsyncs of files in `CountingFile.syncs`, and those of directories."""

    file_type = CountingFile

    def __init__(self) -> None:
        CountingFile.syncs = 0
        self.synced_dirs: list[str] = []

    def sync_dir(self, path: str) -> None:
        self.synced_dirs.append(path)
        super().sync_dir(path)


class Syncs:
    """Stands for the syncs of file systems: each answers what `outcomes` says next, True if that says nothing. At each it notes
    the names of partition 5's leader epochs."""

    def __init__(self, path: Path, *outcomes: bool) -> None:
        self.path = path
        self.outcomes = list(outcomes)
        self.names: list[list[str]] = []

    def sync(self, fd: int) -> int:
        partition = next(self.path.glob("*/t-5"))
        self.names.append(sorted(each.name for each in partition.glob("leader-epoch-checkpoint*")))
        return 0 if not self.outcomes or self.outcomes.pop(0) else -1


@pytest.fixture
def many(tmp_path: Path) -> Iterator[tuple[LogManager, CountingDisk]]:
    disk = CountingDisk()
    logs = LogManager(disk, [f"{tmp_path}/a"], lambda: NOW_MS, settings(), random=Random(1), recovery_threads=4, max_open_files=5)
    logs.lock()
    logs.open_all()
    write(logs, 120)
    CountingFile.syncs, disk.synced_dirs = 0, []
    yield logs, disk
    logs.close(clean=False)


def synced_one_by_one(disk: CountingDisk) -> int:
    """Returns how many partitions' directories were synced."""
    return len({path for path in disk.synced_dirs if "/t-" in path})


def test_many_are_synced_with_their_file_system(
    tmp_path: Path, many: tuple[LogManager, CountingDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, disk = many
    syncs = Syncs(tmp_path)
    monkeypatch.setattr(files_module, "_find_syncfs", lambda fd: syncs.sync)
    logs.close()
    name = "leader-epoch-checkpoint"
    assert syncs.names == [[name, f"{name}.tmp"], [name]]
    assert (CountingFile.syncs, synced_one_by_one(disk)) == (0, 0)
    assert (tmp_path / "a/.kafka_cleanshutdown").exists()
    assert {log.unflushed for log in logs.logs.values()} <= {0}
    again = manager(tmp_path, 4)
    assert [again.logs["t", partition].log_end_offset for partition in range(120)] == [0, 1, 2, 3] * 30
    again.close()


@pytest.mark.parametrize("outcomes", [(False,), (True, False)])
def test_where_that_fails_each_is_synced_by_itself(
    tmp_path: Path, many: tuple[LogManager, CountingDisk], monkeypatch: pytest.MonkeyPatch, outcomes: tuple[bool, ...]
) -> None:
    logs, disk = many
    syncs = Syncs(tmp_path, *outcomes)
    monkeypatch.setattr(files_module, "_find_syncfs", lambda fd: syncs.sync)
    logs.close()
    assert len(syncs.names) == len(outcomes)
    assert synced_one_by_one(disk) == 90  # all that were written to
    assert CountingFile.syncs >= 90
    assert (tmp_path / "a/.kafka_cleanshutdown").exists()
    assert not list(tmp_path.glob("*/*/*.tmp"))


def test_few_are_synced_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = CountingDisk()
    logs = manager(tmp_path, 4, disk)
    logs.lock()
    write(logs)
    syncs = Syncs(tmp_path)
    monkeypatch.setattr(files_module, "_find_syncfs", lambda fd: syncs.sync)
    logs.close()
    assert syncs.names == []
    assert synced_one_by_one(disk) == 30


def test_a_file_system_on_which_a_write_has_failed_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reports a failed write once."""
    outcomes = [0, -1, 0]
    monkeypatch.setattr(files_module, "_find_syncfs", lambda fd: lambda _: outcomes.pop(0))
    lock = OsDisk().lock(f"{tmp_path}/.lock")
    assert [lock.sync_file_system() for _ in range(3)] == [True, False, False]
    assert outcomes == [0]
    lock.release()


@pytest.mark.parametrize(
    ("system", "release", "kind", "found"),
    [
        ("Linux", "6.1.0-9-amd64", 0xEF53, True),
        ("Linux", "5.17", 0x58465342, True),
        ("Linux", "5.16.20", 0xEF53, False),
        ("Linux", "6.1.0-9-amd64", 0x794C7630, False),  # overlayfs
        ("Linux", "6.1.0-9-amd64", None, False),
        ("Darwin", "23.1.0", 0xEF53, False),
    ],
)
def test_only_a_system_that_reports_failed_writes_is_asked(
    system: str, release: str, kind: int | None, found: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fstatfs(fd: int, status: Any) -> int:
        if kind is None:
            return -1
        status[:8] = kind.to_bytes(8, sys.byteorder)
        return 0

    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(sysname=system, release=release))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(syncfs=lambda fd: 0, fstatfs=fstatfs))
    lock = OsDisk().lock(f"{tmp_path}/.lock")
    assert lock.sync_file_system() is found
    lock.release()


def test_the_system_syncs_a_file_system(tmp_path: Path, many: tuple[LogManager, CountingDisk]) -> None:
    """Checks that everything is there, whether or not this system can sync a file system."""
    logs, _ = many
    logs.close()
    assert (tmp_path / "a/.kafka_cleanshutdown").exists()
    again = manager(tmp_path, 4)
    assert [again.logs["t", partition].log_end_offset for partition in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
    again.close()
