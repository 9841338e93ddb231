"""A disk in memory that fails and crashes on request. For tests; production code never imports it.

It keeps two versions of everything: what a running process sees, and what would survive a power cut. A file's bytes survive from
`sync`, names from `sync_dir`. What `crash` may keep or lose of the rest, and why just that, is the story of `tests.memloss`:
sizes, sectors and names go their own ways.

Faults are ordered by `fail`: the next matching operation raises OSError, for `append` after writing some of its bytes.
`stop_after(n)` raises `PowerCut` at the n-th change to the disk, so that a test can cut a run at every one of them;
`before_change` is called ahead of each, and may look at `crashed`, another disk with what a power cut would leave right there.
"""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.log.disk.files import Buffer, File, Lock, StateUnknown
from ottla.log.errors import LogDirLocked
from tests.memloss import SECTOR_BYTES, Choose, Directory, Inode, Names, Node, lose_all, random_choice


class PowerCut(BaseException):
    """The simulated process is gone. Not an Exception: nothing that handles errors may handle this."""


@dataclass(slots=True)
class Fault:
    """The `skip`-th next `operation` on a path that contains `path` raises OSError(code); an append writes `written` bytes
    first. With code 0 that is all: the write is short, and the next one goes on.
    """

    operation: str
    code: int
    path: str
    skip: int
    written: int


class MemFile:
    """A handle on a file of a MemDisk; like a descriptor it outlives renames and removal."""

    __slots__ = ("_disk", "_end", "_inode", "path")

    def __init__(self, disk: MemDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._end: int | None = None  # where reserved bytes follow
        self.path = path

    def __repr__(self) -> str:
        return f"MemFile({self.path!r})"

    @property
    def size(self) -> int:
        return len(self._inode.data) if self._end is None else self._end

    def append(self, parts: Sequence[Buffer]) -> int:
        data = b"".join(parts)
        fault = self._disk._take_fault("append", self.path)
        if fault is not None:
            self._write(data[: fault.written])
            written = fault.written
            if 0 < written < len(data):
                if fault.code:
                    fault.written = 0
                    self._disk._faults.insert(0, fault)
                return written  # as the system call: short now, the error comes with the next one
            raise OSError(fault.code, os.strerror(fault.code), self.path)
        self._disk._change("append", self.path)
        self._write(data)
        self._inode.modified_ms = self._disk.now_ms()
        return len(data)

    def _write(self, data: bytes) -> None:
        self._inode.write(self.size, data)
        if self._end is not None:
            self._end += len(data)

    def pread(self, length: int, position: int) -> bytes:
        self._disk._raise_fault("pread", self.path)
        return bytes(self._inode.data[position : position + length])

    def truncate(self, size: int) -> None:
        self._disk._raise_fault("truncate", self.path)
        self._disk._change("truncate", self.path)
        self._end = None
        self._inode.cut(size)
        self._inode.modified_ms = self._disk.now_ms()

    def reserve(self, size: int) -> None:
        end = self.size
        self.truncate(size)
        self._end = end

    def end_at(self, size: int) -> None:
        self._end = size

    def sync(self) -> None:
        self._disk._raise_fault("sync", self.path)
        self._disk._change("sync", self.path)
        self._inode.sync()

    def has_name(self) -> bool:
        return _is_in(self._disk._names.root, self._inode)

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a file in memory has no descriptor")

    def close(self) -> None:
        """Nothing is held."""


class _MemLock:
    def __init__(self, disk: MemDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self.same_boot = disk._boots_noted.get(path) == disk._boot

    def note_boot(self) -> None:
        self._disk._boots_noted[self._path] = self._disk._boot

    def sync_file_system(self) -> bool:
        return False

    def release(self) -> None:
        self._disk._locks.discard(self._path)


class MemDisk:
    """See the module's docstring. `now_ms` stamps modification times. `sector_bytes`: what is written whole or not at all.
    `ordered_names`: creates, renames and removes survive in order, as on ext4 and xfs.
    """

    def __init__(
        self, now_ms: Callable[[], int] = lambda: 0, *, sector_bytes: int = SECTOR_BYTES, ordered_names: bool = False
    ) -> None:
        self.now_ms = now_ms
        self.changes = 0  # operations that changed the disk so far: the crash points
        self.trace: list[tuple[str, str]] = []
        self.before_change: Callable[[str, str], None] | None = None
        """Called with (operation, path) ahead of every change to the disk."""
        self._sector_bytes = sector_bytes
        self._ordered_names = ordered_names
        self._stop_at: int | None = None
        self._names = Names(ordered=ordered_names)
        self._faults: list[Fault] = []
        self._locks: set[str] = set()
        self._boot = 0
        self._boots_noted: dict[str, int] = {}

    # Faults and crashes

    def fail(self, operation: str, code: int = errno.EIO, *, path: str = "", skip: int = 0, written: int = 0) -> None:
        """Orders a fault. Operations: open append pread truncate sync rename remove sync_dir read_bytes write_bytes list
        space lock."""
        self._faults.append(Fault(operation, code, path, skip, written))

    def stop_after(self, changes: int | None) -> None:
        """PowerCut instead of the change after the next `changes` ones; None = never."""
        self._stop_at = None if changes is None else self.changes + changes

    def crash(self, rng: random.Random | None = None) -> None:
        """The power is cut: drops what was not synced, or, with `rng`, an arbitrary allowed part of it. Open handles are void."""
        self._names = self._after_cut(random_choice(rng) if rng else lose_all)
        self._boot += 1
        self._locks.clear()
        self._faults.clear()
        self._stop_at = None

    def crashed(self, choose: Choose) -> MemDisk:
        """Another disk, with what would be left if the power were cut now and `choose` had its say; this one goes on."""
        other = MemDisk(self.now_ms, sector_bytes=self._sector_bytes, ordered_names=self._ordered_names)
        other._names = self._after_cut(choose)
        return other

    def killed(self) -> MemDisk:
        """Another disk, with what would be left if the process were killed now: all of it, and what was not synced is still not
        safe from a power cut. This one goes on.
        """
        other = MemDisk(self.now_ms, sector_bytes=self._sector_bytes, ordered_names=self._ordered_names)
        other._names = self._names.copied()
        other._boot, other._boots_noted = self._boot, self._boots_noted.copy()
        return other

    def _after_cut(self, choose: Choose) -> Names:
        return self._names.survivors(choose, lambda inode: Inode(inode.modified_ms, inode.surviving(choose, self._sector_bytes)))

    def _take_fault(self, operation: str, path: str) -> Fault | None:
        for fault in self._faults:
            if fault.operation == operation and fault.path in path:
                if fault.skip > 0:
                    fault.skip -= 1
                    return None
                self._faults.remove(fault)
                return fault
        return None

    def _raise_fault(self, operation: str, path: str) -> None:
        fault = self._take_fault(operation, path)
        if fault is None:
            return
        if operation in ("sync", "sync_dir") and fault.code not in (errno.EMFILE, errno.ENFILE):  # with those it was not tried
            raise StateUnknown(fault.code, os.strerror(fault.code), path)
        raise OSError(fault.code, os.strerror(fault.code), path)

    def _change(self, operation: str, path: str) -> None:
        if self._stop_at is not None and self.changes >= self._stop_at:
            raise PowerCut(f"before {operation} of {path}")
        if self.before_change is not None:
            self.before_change(operation, path)
        self.changes += 1
        self.trace.append((operation, path))

    # Names

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._names.root
        for name in path.split("/"):
            if name:
                node = node.entries.get(name) if isinstance(node, Directory) else None
        return node

    def _place(self, path: str) -> tuple[Directory, str]:
        """The directory that a path's last name is in, and that name."""
        parent, name = os.path.split(path)
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

    # Disk

    def open(self, path: str, create: bool = False) -> File:
        self._raise_fault("open", path)
        return MemFile(self, path, self._create(path) if create and self._find(path) is None else self._inode(path))

    def _create(self, path: str) -> Inode:
        directory, name = self._place(path)
        self._change("create", path)
        inode = Inode(self.now_ms())
        self._names.change((directory, name, inode))
        return inode

    def rename(self, old: str, new: str) -> None:
        self._raise_fault("rename", old)
        node = self._find(old)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        places = self._place(old), self._place(new)
        self._change("rename", old)
        self._names.change((*places[0], None), (*places[1], node))

    def remove(self, path: str) -> None:
        self._raise_fault("remove", path)
        self._inode(path)
        self._change("remove", path)
        self._names.change((*self._place(path), None))

    def remove_dir(self, path: str) -> None:
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._change("rmdir", path)
        self._names.change((*self._place(path), None))

    def list(self, path: str) -> list[str]:
        self._raise_fault("list", path)
        return sorted(self._directory(path).entries)

    def makedirs(self, path: str, private: bool = False) -> None:
        missing = []
        while self._find(path) is None:
            missing.append(path)
            path = os.path.dirname(path)
        for made in reversed(missing):
            self._change("mkdir", made)
            self._names.change((*self._place(made), Directory()))

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
        """As if of 1 GiB, whatever directory is asked for."""
        self._raise_fault("space", path)
        return 1 << 30, (1 << 30) - _bytes_in(self._names.root)

    def sync_dir(self, path: str) -> None:
        self._raise_fault("sync_dir", path)
        directory = self._directory(path)
        self._change("sync_dir", path)
        self._names.sync(directory)

    def read_bytes(self, path: str) -> bytes:
        self._raise_fault("read_bytes", path)
        return bytes(self._inode(path).data)

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        self._raise_fault("write_bytes", path)
        temporary = path + ".tmp"
        if self._find(temporary) is None:
            inode = self._create(temporary)
        else:
            inode = self._inode(temporary)
            self._change("truncate", temporary)
            inode.cut(0)
        self._change("write", temporary)
        inode.write(0, data)
        inode.modified_ms = self.now_ms()
        if sync:
            self._change("sync", temporary)
            inode.sync()
        self.rename(temporary, path)
        if sync:
            self.sync_dir(os.path.dirname(path))

    def lock(self, path: str) -> Lock:
        self._raise_fault("lock", path)
        if path in self._locks:
            raise LogDirLocked(f"{os.path.dirname(path)} is in use by another broker (it holds {path})")
        if self._find(path) is None:
            self._create(path)
        self._locks.add(path)
        return _MemLock(self, path)


def _is_in(directory: Directory, inode: Inode) -> bool:
    return any(node is inode or (isinstance(node, Directory) and _is_in(node, inode)) for node in directory.entries.values())


def _bytes_in(directory: Directory) -> int:
    return sum(_bytes_in(node) if isinstance(node, Directory) else len(node.data) for node in directory.entries.values())
