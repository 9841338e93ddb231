"""log/management/clean_shutdown.py: a stop that syncs many partitions at once leaves what one that syncs them one after the
other leaves.

On a real disk: the simulated one is for one thread.
"""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from random import Random

import pytest

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
    sync_all(logs.logs.values(), 4)
    assert seen == [ZeroDivisionError]
    assert {logs.logs["t", partition].unflushed for partition in range(3, 40, 4)} == {0, 3}
    assert logs.logs["t", 3].unflushed == 3
    assert logs.logs["t", 3].unsynced
    logs.close(clean=False)
