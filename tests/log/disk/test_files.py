"""log/disk/files.py and tests/memdisk.py: one contract for both disks, then what each has alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.log.disk.checkpoint import read_epochs, read_offsets, read_partition_metadata
from ottla.log.disk.files import MAX_WHOLE_BYTES, Disk, FileSlice, FileTooLarge, OpenFiles, OsDisk, remove_tree
from ottla.log.errors import CorruptSnapshot, InconsistentMetadata, LogDirLocked, TruncatedSlice
from ottla.log.index import CorruptIndex, load_offset_index, load_time_index
from ottla.log.producers import ProducerStates
from ottla.log.rebuild import _load_snapshot
from ottla.log.txn_index import load_txn_index
from tests.memdisk import MemDisk, PowerCut


@pytest.fixture(params=["system", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    """(a disk, an empty directory on it)"""
    if request.param == "system":
        return OsDisk(), str(tmp_path)
    disk = MemDisk()
    disk.makedirs("/d")
    return disk, "/d"


def test_a_file_grows_at_its_end_whoever_reads(place: tuple[Disk, str]) -> None:
    disk, path = place
    file = disk.open(f"{path}/a", create=True)
    assert file.append([b"one", memoryview(b"xtwox")[1:-1]]) == 6
    assert file.pread(3, 3) == b"two"
    other = disk.open(f"{path}/a")
    assert other.size == 6
    assert file.append([bytearray(b"!")]) == 1
    assert file.pread(100, 0) == b"onetwo!"
    assert file.pread(5, 100) == b""
    file.truncate(2)
    assert (file.size, file.append([b"e"]), file.pread(9, 0)) == (2, 1, b"one")
    file.sync()


def test_a_file_keeps_its_name_when_it_is_renamed_and_loses_it_when_it_is_removed(place: tuple[Disk, str]) -> None:
    disk, path = place
    file = disk.open(f"{path}/a", create=True)
    disk.rename(f"{path}/a", f"{path}/b")
    assert file.has_name()
    disk.open(f"{path}/a", create=True)
    disk.rename(f"{path}/a", f"{path}/b")
    assert not file.has_name()
    other = disk.open(f"{path}/b")
    disk.remove(f"{path}/b")
    assert not other.has_name()


def test_a_lock_knows_whether_the_system_was_started_anew(place: tuple[Disk, str], monkeypatch: pytest.MonkeyPatch) -> None:
    disk, path = place
    found = []
    for note in (False, True, False, False):
        lock = disk.lock(f"{path}/.lock")
        found.append(lock.same_boot)
        if note:
            lock.note_boot()
        lock.release()
    assert found == [False, False, True, True]
    if isinstance(disk, MemDisk):
        disk.crash()
        disk.makedirs(path)
    else:
        monkeypatch.setattr("ottla.log.disk.files._boot_id", lambda: b"another")
    assert not disk.lock(f"{path}/.lock").same_boot


def test_a_system_that_does_not_say_when_it_was_started_may_have_lost_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.log.disk.files._boot_id", lambda: b"")
    for _ in range(2):
        lock = OsDisk().lock(f"{tmp_path}/.lock")
        assert not lock.same_boot
        lock.note_boot()
        lock.release()


def test_more_parts_than_one_call_takes(place: tuple[Disk, str]) -> None:
    disk, path = place
    file = disk.open(f"{path}/a", create=True)
    assert file.append([b"x"] * 3000) == 3000
    assert file.size == 3000


def test_who_reads_what_is_appended_at_once_reads_it_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only while it is the end of the file, and not where nobody waits."""
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    asked: list[int] = []
    pread = os.pread

    def counted(fd: int, length: int, position: int) -> bytes:
        asked.append(position)
        return pread(fd, length, position)

    monkeypatch.setattr(os, "pread", counted)
    file.append([b"first"])
    assert (file.pread(5, 0), asked) == (b"first", [0])
    file.append([b"sec", b"ond"])
    assert [file.pread(6, 5), file.pread(6, 5), file.pread(5, 0), file.pread(3, 8)] == [b"second", b"second", b"first", b"ond"]
    assert (file.pread(11, 0), asked) == (b"firstsecond", [0, 0, 8, 0])
    file.append([b"third"])
    file.append([b"nobody asked for the third"])
    assert (file.pread(26, 16), asked) == (b"nobody asked for the third", [0, 0, 8, 0, 16])
    file.append([b"x" * 5000])
    assert (file.pread(5000, 42), asked) == (b"x" * 5000, [0, 0, 8, 0, 16, 42])
    file.truncate(11)
    assert file.pread(5000, 42) == b""
    file.pread(6, 5)
    file.append([b"small"])
    os.pwrite(file.fileno(), b"other", 5)
    file.end_at(10)  # where as much lies as was appended last
    assert file.pread(5, 5) == b"other"
    file.append([b"again"])
    assert asked[-1] == 5
    assert (file.pread(5, 10), asked[-1]) == (b"again", 5)
    file.truncate(10)
    assert file.pread(5, 10) == b""
    file.append([b"tailed"])
    file.append([b"plain!"])
    assert file.pread(6, 16) == b"plain!"
    file.append([b"tailed"])
    file.truncate(22)
    file.append([b"plain!"])
    assert file.pread(6, 22) == b"plain!"


def test_names(place: tuple[Disk, str]) -> None:
    disk, path = place
    with pytest.raises(FileNotFoundError):
        disk.open(f"{path}/missing")
    disk.makedirs(f"{path}/sub/deep")
    disk.makedirs(f"{path}/sub/deep")
    disk.write_bytes(f"{path}/sub/f", b"1")
    disk.write_bytes(f"{path}/sub/f", b"22", sync=False)
    assert disk.list(f"{path}/sub") == ["deep", "f"]
    assert (disk.size(f"{path}/sub/f"), disk.read_bytes(f"{path}/sub/f")) == (2, b"22")
    assert (disk.is_dir(f"{path}/sub"), disk.is_dir(f"{path}/sub/f"), disk.exists(f"{path}/no")) == (True, False, False)
    disk.rename(f"{path}/sub", f"{path}/moved")
    assert disk.read_bytes(f"{path}/moved/f") == b"22"
    disk.sync_dir(path)
    with pytest.raises(OSError, match="not empty"):
        disk.remove_dir(f"{path}/moved")
    remove_tree(disk, f"{path}/moved")
    remove_tree(disk, f"{path}/moved")  # what is gone is gone
    assert disk.list(path) == []
    with pytest.raises(FileNotFoundError):
        disk.remove(f"{path}/no")


def test_how_full_it_is(place: tuple[Disk, str]) -> None:
    disk, path = place
    total, usable = disk.space(path)
    assert 0 < usable <= total


def test_a_slice_outlives_rename_removal_and_the_owner(place: tuple[Disk, str]) -> None:
    disk, path = place
    file = disk.open(f"{path}/a", create=True)
    file.append([b"0123456789"])
    found = FileSlice(file, 2, 5)
    disk.rename(f"{path}/a", f"{path}/a.deleted")
    disk.remove(f"{path}/a.deleted")
    del file
    assert (len(found), found.read()) == (5, b"23456")


def test_a_slice_of_a_truncated_file_says_so(place: tuple[Disk, str]) -> None:
    disk, path = place
    file = disk.open(f"{path}/a", create=True)
    file.append([b"0123456789"])
    found = FileSlice(file, 2, 5)
    file.truncate(4)
    with pytest.raises(TruncatedSlice, match="only 2 bytes"):
        found.read()


def test_one_lock_a_directory(place: tuple[Disk, str]) -> None:
    disk, path = place
    lock = disk.lock(f"{path}/.lock")
    with pytest.raises(LogDirLocked, match=r"in use by another broker"):
        disk.lock(f"{path}/.lock")
    lock.release()
    disk.lock(f"{path}/.lock").release()


def test_descriptors_close_with_the_last_reference(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    fd = file.fileno()
    found = FileSlice(file, 0, 0)
    del file
    os.fstat(fd)
    del found
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_descriptor_is_closed_once_even_if_it_is_0(tmp_path: Path) -> None:
    """A file gets number 0 in a process that was started without standard input."""
    file: Any = OsDisk().open(str(tmp_path / "a"), create=True)
    os.close(file.fileno())
    file._fd = 0
    closed: list[int] = []
    for _ in range(2):
        file.close(closed.append)
    assert closed == [0]


class _Owner:
    def __init__(self) -> None:
        self.released = 0

    def release_file(self) -> None:
        self.released += 1


def test_open_files_release_the_oldest() -> None:
    open_files, owners = OpenFiles(2), [_Owner() for _ in range(4)]
    for owner in owners[:2]:
        open_files.opened(owner)
    open_files.forget(owners[0])
    for owner in owners[2:]:
        open_files.opened(owner)
    assert [owner.released for owner in owners] == [0, 1, 0, 0]
    assert len(open_files) == 2


# MemDisk


def memory() -> MemDisk:
    disk = MemDisk()
    disk.makedirs("/d")
    disk.sync_dir("/")
    return disk


def test_a_crash_takes_what_was_not_synced() -> None:
    disk = memory()
    kept, lost = disk.open("/d/kept", create=True), disk.open("/d/lost", create=True)
    kept.append([b"sync"])
    kept.sync()
    disk.sync_dir("/d")
    kept.append([b"ed and not"])
    disk.open("/d/late", create=True)
    disk.rename("/d/lost", "/d/renamed")
    disk.crash()
    assert disk.list("/d") == ["kept", "lost"]
    assert disk.read_bytes("/d/kept") == b"sync"
    assert lost.size == 0


def test_a_crash_may_keep_any_prefix() -> None:
    tails = set()
    for seed in range(60):
        disk = memory()
        file = disk.open("/d/a", create=True)
        disk.sync_dir("/d")
        file.append([b"abc"])
        disk.rename("/d/a", "/d/b")
        disk.crash(Random(seed))
        (name,) = disk.list("/d")
        data = disk.read_bytes(f"/d/{name}")
        tails.add((name, data if b"abc".startswith(data) else b"garbage"))
    assert {(name, tail) for name in "ab" for tail in (b"", b"abc")} <= tails
    assert ("a", b"garbage") in tails


def test_write_bytes_is_old_or_new_at_every_point() -> None:
    for stop in range(10):
        disk = memory()
        disk.write_bytes("/d/f", b"old")
        disk.stop_after(stop)
        try:
            disk.write_bytes("/d/f", b"new")
        except PowerCut:
            pass
        else:
            assert disk.read_bytes("/d/f") == b"new"
            break
        disk.crash(Random(stop))
        assert disk.read_bytes("/d/f") in (b"old", b"new")
    else:
        pytest.fail("never got through")


def test_faults_come_once_where_they_were_ordered() -> None:
    disk = memory()
    file = disk.open("/d/a.log", create=True)
    disk.fail("append", errno.ENOSPC, path=".log", skip=1, written=2)
    assert file.append([b"good"]) == 4
    assert file.append([b"bad"]) == 2
    disk.fail("append", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left") as caught:
        file.append([b"worse"])
    assert caught.value.errno == errno.ENOSPC
    disk.fail("sync", path="other")
    file.sync()
    disk.fail("sync", path="a.log")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = f"{tmp_path}/pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        OsDisk().open(path)
    assert OsDisk().read_bytes(path) == b""
    os.rename(path, f"{tmp_path}/small.tmp")
    with pytest.raises(OSError, match="No such device"):
        OsDisk().write_bytes(f"{tmp_path}/small", b"x")
    OsDisk().write_bytes(f"{tmp_path}/small", b"x")


def test_what_is_larger_than_any_small_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, MAX_WHOLE_BYTES + 1)
    with pytest.raises(FileTooLarge):
        OsDisk().read_bytes(str(path))


def test_derived_files_of_any_size_are_rebuilt(tmp_path: Path) -> None:
    disk, path = OsDisk(), tmp_path / "sparse"
    path.touch()
    os.truncate(path, 1 << 40)
    loads: tuple[Callable[[], Any], ...] = (
        lambda: load_offset_index(disk, str(path), 0, 1000, 1000),
        lambda: load_time_index(disk, str(path), 0, 1000),
        lambda: load_txn_index(disk, str(path), 0),
    )
    for load in loads:
        with pytest.raises(CorruptIndex):
            load()
    reads: tuple[Callable[[Disk, str], Any], ...] = (read_offsets, read_epochs)
    for read in reads:
        with pytest.raises(CorruptSnapshot):
            read(disk, str(path))
    with pytest.raises(InconsistentMetadata):
        read_partition_metadata(disk, str(path))
    snapshot = path.rename(tmp_path / f"{7:020d}.snapshot")
    assert _load_snapshot(disk, str(tmp_path), [7], ProducerStates(), 0, 9) == 0
    assert not snapshot.exists()


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "kept").touch()
    (tmp_path / "ours").mkdir()
    for link in (tmp_path / "link", tmp_path / "ours" / "link"):
        link.symlink_to(tmp_path / "theirs")
    for name in ("link", "ours"):
        remove_tree(OsDisk(), f"{tmp_path}/{name}")
    assert os.listdir(tmp_path) == ["theirs"]
    assert os.listdir(tmp_path / "theirs") == ["kept"]
