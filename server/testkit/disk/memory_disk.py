"""A disk in memory whose power can be cut: what was not synced is lost then.

It keeps two versions of everything: what a running process sees, and what would survive a power cut. A file's bytes survive from
`sync`, names from `sync_dir`. What a power cut may keep or lose of the rest, and why just that, is the story of power_loss.py:
sizes, sectors and names go their own ways.

A broker for tests runs on it where its power is to be cut (`disk="memory"`), since on a real disk nobody can take back what the
system has already written. Threads may use it, each file or name one at a time.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Sequence
from random import Random
from threading import Lock as ThreadLock
from typing import ClassVar, Self

from ottla.log.disk.errors import LogDirLocked
from ottla.log.disk.files import Buffer, Disk, File, Lock, remove_tree
from ottla.server.testkit.disk.power_loss import (
    SECTOR_BYTES,
    Choose,
    Directory,
    Entry,
    Inode,
    Names,
    Node,
    lose_all,
    random_choice,
)


class MemoryFile:
    """A handle on a file of a MemoryDisk; like a descriptor it outlives renames and removal."""

    __slots__ = ("_disk", "_end", "_inode", "path")

    def __init__(self, disk: MemoryDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._end: int | None = None  # where reserved bytes follow
        self.path = path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def size(self) -> int:
        return len(self._inode.data) if self._end is None else self._end

    def append(self, parts: Sequence[Buffer]) -> int:
        data = b"".join(parts)
        self._disk.note_change("append", self.path)
        self.write(data)
        self._inode.modified_ms = self._disk.now_ms()
        return len(data)

    def write(self, data: bytes) -> None:
        """Writes at the end, without a note."""
        with self._disk.one_at_a_time:
            self._inode.write(self.size, data)
        if self._end is not None:
            self._end += len(data)

    def pread(self, length: int, position: int) -> bytes:
        return bytes(self._inode.data[position : position + length])

    def truncate(self, size: int) -> None:
        self._disk.note_change("truncate", self.path)
        self._end = None
        with self._disk.one_at_a_time:
            self._inode.cut(size)
        self._inode.modified_ms = self._disk.now_ms()

    def reserve(self, size: int) -> None:
        end = self.size
        self.truncate(size)
        self._end = end

    def end_at(self, size: int) -> None:
        self._end = size

    def sync(self) -> None:
        self._disk.note_change("sync", self.path)
        with self._disk.one_at_a_time:
            self._inode.sync()

    def has_name(self) -> bool:
        return self._disk.has_name(self._inode)

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a file in memory has no descriptor")

    def close(self) -> None:
        """Does nothing, since nothing is held."""


class _MemoryLock:
    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self.same_boot = disk.same_boot(path)

    def note_boot(self) -> None:
        self._disk.note_boot(self._path)

    def sync_file_system(self) -> bool:
        return False

    def release(self) -> None:
        self._disk.release(self._path)


class MemoryDisk:
    """See the module's docstring. `now_ms` stamps modification times. `sector_bytes`: what is written whole or not at all.
    `ordered_names`: creates, renames and removes survive in order, as on ext4 and xfs.
    """

    file_type: ClassVar[type[MemoryFile]] = MemoryFile
    is_open_to_processes = False

    def __init__(
        self, now_ms: Callable[[], int] = lambda: 0, *, sector_bytes: int = SECTOR_BYTES, ordered_names: bool = False
    ) -> None:
        self.now_ms = now_ms
        self.one_at_a_time = ThreadLock()
        """Held while bytes or names change: flushes are done in other threads."""
        self._sector_bytes = sector_bytes
        self._ordered_names = ordered_names
        self._names = Names(ordered=ordered_names)
        self._locks: set[str] = set()
        self._boot = 0
        self._boots_noted: dict[str, int] = {}

    # Crashes

    def crash(self, rng: Random | None = None) -> None:
        """Cuts the power: drops what was not synced, or, with `rng`, an arbitrary allowed part of it. Open handles are void."""
        self._names = self._after_cut(random_choice(rng) if rng else lose_all)
        self._boot += 1
        self._locks.clear()

    def crashed(self, choose: Choose) -> Self:
        """Returns another disk, with what would be left if the power were cut now and `choose` had its say; this one goes on."""
        other = self._another()
        other._names = self._after_cut(choose)
        return other

    def killed(self) -> Self:
        """Returns another disk, with what would be left if the process were killed now: all of it, and what was not synced is
        still not safe from a power cut. This one goes on.
        """
        other = self._another()
        with self.one_at_a_time:
            other._names = self._names.copied()
        other._boot, other._boots_noted = self._boot, self._boots_noted.copy()
        return other

    def _another(self) -> Self:
        return type(self)(self.now_ms, sector_bytes=self._sector_bytes, ordered_names=self._ordered_names)

    def _after_cut(self, choose: Choose) -> Names:
        def left(inode: Inode) -> Inode:
            return Inode(inode.modified_ms, inode.surviving(choose, self._sector_bytes))

        with self.one_at_a_time:
            return self._names.survivors(choose, left)

    def sync_tree(self, path: str) -> None:
        """Makes a directory durable, with all that is in it and its place in the directories above."""
        for name in self.list(path):
            inner = f"{path}/{name}"
            if self.is_dir(inner):
                self.sync_tree(inner)
            else:
                self.open(inner).sync()
        while path:
            self.sync_dir(path)
            path = os.path.dirname(path).rstrip("/")
        self.sync_dir("/")

    def forget_tree(self, path: str) -> None:
        """Removes a directory with what is in it for good: it is gone after a power cut too, and takes no memory any more. It is
        not an error if it is gone already."""
        if self._find(path) is None:
            return
        self.note_change("rmdir", path)
        directory, name = self._place(path)
        with self.one_at_a_time:
            self._names.change((directory, name, None))
            self._names.sync(directory)
            self._names.forget_unreachable()

    def note_change(self, operation: str, path: str) -> None:
        """Is called ahead of every change. Nothing happens here; a disk of a test may count them, or fail."""

    def has_name(self, inode: Inode) -> bool:
        """Returns whether the file has a name in some directory."""
        return _is_in(self._names.root, inode)

    def note_boot(self, path: str) -> None:
        """Notes on which run of the system the lock at `path` was taken."""
        self._boots_noted[path] = self._boot

    def same_boot(self, path: str) -> bool:
        """Returns whether the power was not cut since `note_boot`."""
        return self._boots_noted.get(path) == self._boot

    def release(self, path: str) -> None:
        """Releases the lock at `path`."""
        self._locks.discard(path)

    # Names

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._names.root
        for name in path.split("/"):
            if name:
                node = node.entries.get(name) if isinstance(node, Directory) else None
        return node

    def _place(self, path: str) -> tuple[Directory, str]:
        """Returns the directory that a path's last name is in, and that name."""
        parent, name = os.path.dirname(path), os.path.basename(path)
        directory = self._find(parent)
        if not isinstance(directory, Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return directory, name

    def _inode(self, path: str) -> Inode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _set(self, *entries: Entry) -> None:
        with self.one_at_a_time:
            self._names.change(*entries)

    # Disk

    def open(self, path: str, create: bool = False) -> File:
        return self.file_type(self, path, self._create(path) if create and self._find(path) is None else self._inode(path))

    def _create(self, path: str) -> Inode:
        directory, name = self._place(path)
        self.note_change("create", path)
        inode = Inode(self.now_ms())
        self._set((directory, name, inode))
        return inode

    def rename(self, old: str, new: str) -> None:
        node = self._find(old)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        places = self._place(old), self._place(new)
        self.note_change("rename", old)
        self._set((*places[0], None), (*places[1], node))

    def remove(self, path: str) -> None:
        self._inode(path)
        self.note_change("remove", path)
        self._set((*self._place(path), None))

    def remove_dir(self, path: str) -> None:
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self.note_change("rmdir", path)
        self._set((*self._place(path), None))

    def list(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def makedirs(self, path: str, private: bool = False) -> None:
        missing = []
        while self._find(path) is None:
            missing.append(path)
            path = os.path.dirname(path)
        for made in reversed(missing):
            self.note_change("mkdir", made)
            self._set((*self._place(made), Directory()))

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def is_link(self, path: str) -> bool:
        return False

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def space(self, path: str) -> tuple[int, int]:
        """Returns the space as if this were a disk of 1 GiB, whatever directory is asked for."""
        return 1 << 30, max(0, (1 << 30) - _bytes_in(self._names.root))

    def sync_dir(self, path: str) -> None:
        directory = self._directory(path)
        self.note_change("sync_dir", path)
        with self.one_at_a_time:
            self._names.sync(directory)

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._inode(path).data)

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        temporary = path + ".tmp"
        if self._find(temporary) is None:
            inode = self._create(temporary)
        else:
            inode = self._inode(temporary)
            self.note_change("truncate", temporary)
            with self.one_at_a_time:
                inode.cut(0)
        self.note_change("write", temporary)
        with self.one_at_a_time:
            inode.write(0, data)
        inode.modified_ms = self.now_ms()
        if sync:
            self.note_change("sync", temporary)
            with self.one_at_a_time:
                inode.sync()
        self.rename(temporary, path)
        if sync:
            self.sync_dir(os.path.dirname(path))

    def lock(self, path: str) -> Lock:
        if path in self._locks:
            raise LogDirLocked(f"{os.path.dirname(path)} is in use by another broker (it holds {path})")
        if self._find(path) is None:
            self._create(path)
        self._locks.add(path)
        return _MemoryLock(self, path)


def remove_for_good(disk: Disk, path: str) -> None:
    """Removes a directory as `remove_tree` does; if the disk is in memory, that becomes free at once."""
    if isinstance(disk, MemoryDisk):
        disk.forget_tree(path)
    else:
        remove_tree(disk, path)


def _is_in(directory: Directory, inode: Inode) -> bool:
    return any(
        node is inode or (isinstance(node, Directory) and _is_in(node, inode)) for node in list(directory.entries.values())
    )


def _bytes_in(directory: Directory) -> int:
    return sum(_bytes_in(node) if isinstance(node, Directory) else len(node.data) for node in list(directory.entries.values()))
