"""log/directory.py: failing together, removing later, and checkpoints that cost nothing when nothing moved."""

from __future__ import annotations

import errno

import pytest

from ottla.log.directory import LogDirectory
from ottla.log.errors import StorageError
from ottla.log.files import OpenFiles
from ottla.log.memdisk import MemDisk


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


def test_removing_later(disk: MemDisk, directory: LogDirectory) -> None:
    for name in ("a", "b", "p/c"):
        disk.write_bytes(f"/d/{name}", b"x")
    directory.remove_later("/d/a", 100)
    directory.remove_later("/d/p/c", 100)
    directory.remove_later("/d/p", 100)
    directory.remove_later("/d/b", 101)
    directory.remove_later("/d/gone", 100)
    assert directory.remove_due(99) == 0
    assert directory.remove_due(100) == 4
    assert disk.list("/d") == ["b"]
    assert directory.remove_due(1000) == 1
    assert disk.list("/d") == []


def test_a_failing_removal(disk: MemDisk, directory: LogDirectory) -> None:
    disk.write_bytes("/d/a", b"x")
    directory.remove_later("/d/a", 0)
    disk.fail("remove")
    with pytest.raises(StorageError):
        directory.remove_due(0)


class _Log:
    recovery_point, log_start_offset, first_base_offset, high_watermark = 7, 5, 3, 9


def test_checkpoints(disk: MemDisk, directory: LogDirectory) -> None:
    directory.partitions["t", 0] = _Log()
    directory.save_all()
    contents = {name: disk.read_bytes(f"/d/{name}") for name in disk.list("/d") if name != "p"}
    assert contents == {
        "log-start-offset-checkpoint": b"0\n1\nt 0 5\n",
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
