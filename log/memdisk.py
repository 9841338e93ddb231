"""A disk in memory that fails and crashes on request. For tests; production code never imports it.

It keeps two versions of everything: what a running process sees, and what would survive a power cut.

- A file's bytes survive from `sync`. On `crash` the unsynced tail is lost whole, or, given a random source, cut at any byte,
  possibly with garbage where a block was allocated and never written.
- Names survive from `sync_dir`: creates, renames and removes are a journal per directory, and a crash keeps a prefix of what
  was not synced (none, without a random source).

Faults are ordered by `fail`: the next matching operation raises OSError, for `append` after writing some of its bytes.
`stop_after(n)` raises `PowerCut` at the n-th change to the disk, so that a test can cut a run at every one of them.
"""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.log.errors import LogDirLocked
from ottla.log.files import Buffer, File, Lock


class PowerCut(BaseException):
    """The simulated process is gone. Not an Exception: nothing that handles errors may handle this."""


class _Inode:
    __slots__ = ("data", "modified_ms", "synced")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.synced = b""
        self.modified_ms = modified_ms


@dataclass(slots=True)
class Fault:
    """The `skip`-th next `operation` on a path that contains `path` raises OSError(code); an append writes `written` bytes
    first.
    """

    operation: str
    code: int
    path: str
    skip: int
    written: int


class MemFile:
    """A handle on a file of a MemDisk; like a descriptor it outlives renames and removal."""

    __slots__ = ("_disk", "_inode", "path")

    def __init__(self, disk: MemDisk, path: str, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode
        self.path = path

    def __repr__(self) -> str:
        return f"MemFile({self.path!r})"

    @property
    def size(self) -> int:
        return len(self._inode.data)

    def append(self, parts: Sequence[Buffer]) -> int:
        data = b"".join(parts)
        fault = self._disk._take_fault("append", self.path)
        if fault is not None:
            self._inode.data += data[: fault.written]
            if 0 < fault.written < len(data):
                return fault.written  # as the system call: short now, the error comes with the next one
            raise OSError(fault.code, os.strerror(fault.code), self.path)
        self._disk._change("append", self.path)
        self._inode.data += data
        self._inode.modified_ms = self._disk.now_ms()
        return len(data)

    def pread(self, length: int, position: int) -> bytes:
        self._disk._raise_fault("pread", self.path)
        return bytes(self._inode.data[position : position + length])

    def truncate(self, size: int) -> None:
        self._disk._raise_fault("truncate", self.path)
        self._disk._change("truncate", self.path)
        del self._inode.data[size:]
        self._inode.modified_ms = self._disk.now_ms()

    def sync(self) -> None:
        self._disk._raise_fault("sync", self.path)
        self._disk._change("sync", self.path)
        self._inode.synced = bytes(self._inode.data)

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a file in memory has no descriptor")

    def close(self) -> None:
        """Nothing is held."""


class _MemLock:
    def __init__(self, disk: MemDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk._locks.discard(self._path)


class MemDisk:
    """See the module's docstring. `now_ms` stamps modification times."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self.changes = 0  # operations that changed the disk so far: the crash points
        self.trace: list[tuple[str, str]] = []
        self._stop_at: int | None = None
        self._files: dict[str, _Inode] = {}
        self._dirs: set[str] = {"/"}
        self._durable_files: dict[str, _Inode] = {}
        self._durable_dirs: set[str] = {"/"}
        self._journal: list[tuple[str, str, str]] = []  # (operation, path, new path) not yet durable, in order
        self._faults: list[Fault] = []
        self._locks: set[str] = set()

    # Faults and crashes

    def fail(self, operation: str, code: int = errno.EIO, *, path: str = "", skip: int = 0, written: int = 0) -> None:
        """Orders a fault. Operations: open append pread truncate sync rename remove sync_dir read_bytes write_bytes list
        space."""
        self._faults.append(Fault(operation, code, path, skip, written))

    def stop_after(self, changes: int | None) -> None:
        """PowerCut instead of the change after the next `changes` ones; None = never."""
        self._stop_at = None if changes is None else self.changes + changes

    def crash(self, rng: random.Random | None = None) -> None:
        """The power is cut: drops what was not synced, or, with `rng`, an arbitrary allowed part of it. Open handles are void."""
        kept = rng.randint(0, len(self._journal)) if rng else 0
        for entry in self._journal[:kept]:
            self._apply(entry, self._durable_files, self._durable_dirs)
        self._journal.clear()
        self._locks.clear()
        self._faults.clear()
        self._stop_at = None
        survivors: dict[str, _Inode] = {}
        for path, old in self._durable_files.items():
            if path.startswith("\0"):  # its create was lost
                continue
            inode = _Inode(old.modified_ms)
            inode.synced = self._surviving(old, rng)
            inode.data = bytearray(inode.synced)
            survivors[path] = inode
        self._durable_files = survivors
        self._files = dict(survivors)
        self._dirs = set(self._durable_dirs)

    @staticmethod
    def _surviving(inode: _Inode, rng: random.Random | None) -> bytes:
        if rng is None:
            return inode.synced
        current = bytes(inode.data)
        if not current.startswith(inode.synced):  # it was cut: the old length or the new one
            return rng.choice((inode.synced, current))
        end = rng.randint(len(inode.synced), len(current))
        if end < len(current) and rng.random() < 0.3:  # a block was allocated and its bytes never arrived
            return current[:end] + rng.choice((bytes(16), rng.randbytes(rng.randint(1, 64))))
        return current[:end]

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
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), path)

    def _change(self, operation: str, path: str) -> None:
        if self._stop_at is not None and self.changes >= self._stop_at:
            raise PowerCut(f"before {operation} of {path}")
        self.changes += 1
        self.trace.append((operation, path))

    @staticmethod
    def _apply(entry: tuple[str, str, str], files: dict[str, _Inode], dirs: set[str]) -> None:
        """Replays a journal entry on the durable names. The inode of a create travels in `_created`."""
        operation, path, new = entry
        if operation == "mkdir":
            dirs.add(path)
        elif operation == "rmdir":
            dirs.discard(path)
        elif operation == "remove":
            files.pop(path, None)
        else:
            assert operation == "rename"
            if path in dirs:
                dirs.discard(path)
                dirs.add(new)
                for inner in [name for name in files if name.startswith(path + "/")]:
                    files[new + inner[len(path) :]] = files.pop(inner)
            elif path in files:
                files[new] = files.pop(path)

    # Disk

    def open(self, path: str, create: bool = False) -> File:
        self._raise_fault("open", path)
        inode = self._files.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            inode = self._create(path)
        return MemFile(self, path, inode)

    def _create(self, path: str) -> _Inode:
        if os.path.dirname(path) not in self._dirs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._change("create", path)
        inode = _Inode(self.now_ms())
        self._files[path] = inode
        # A new name with its inode: written as a rename from a place no path can name, so that one journal form serves.
        hidden = f"\0{self.changes}"
        self._durable_files[hidden] = inode
        self._journal.append(("rename", hidden, path))
        return inode

    def rename(self, old: str, new: str) -> None:
        self._raise_fault("rename", old)
        if old not in self._files and old not in self._dirs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        self._change("rename", old)
        entry = ("rename", old, new)
        self._apply(entry, self._files, self._dirs)
        self._journal.append(entry)

    def remove(self, path: str) -> None:
        self._raise_fault("remove", path)
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._change("remove", path)
        del self._files[path]
        self._journal.append(("remove", path, ""))

    def remove_dir(self, path: str) -> None:
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._change("rmdir", path)
        self._dirs.discard(path)
        self._journal.append(("rmdir", path, ""))

    def list(self, path: str) -> list[str]:
        self._raise_fault("list", path)
        if path not in self._dirs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        prefix = path.rstrip("/") + "/"
        inside = (name[len(prefix) :] for name in (*self._files, *self._dirs) if name.startswith(prefix))
        return sorted({name for name in inside if name and "/" not in name})

    def makedirs(self, path: str) -> None:
        missing = []
        while path not in self._dirs:
            missing.append(path)
            path = os.path.dirname(path)
        for made in reversed(missing):
            self._change("mkdir", made)
            self._dirs.add(made)
            self._journal.append(("mkdir", made, ""))

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._dirs

    def is_dir(self, path: str) -> bool:
        return path in self._dirs

    def _inode(self, path: str) -> _Inode:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def space(self, path: str) -> tuple[int, int]:
        """As if of 1 GiB, whatever directory is asked for."""
        self._raise_fault("space", path)
        return 1 << 30, (1 << 30) - sum(len(inode.data) for inode in self._files.values())

    def sync_dir(self, path: str) -> None:
        """Makes the directory's own entries durable, and as a journal must, everything that happened before the last of them."""
        self._raise_fault("sync_dir", path)
        self._change("sync_dir", path)
        last = max((at for at, (_, old, new) in enumerate(self._journal) if path in map(os.path.dirname, (old, new))), default=-1)
        for entry in self._journal[: last + 1]:
            self._apply(entry, self._durable_files, self._durable_dirs)
        del self._journal[: last + 1]

    def read_bytes(self, path: str) -> bytes:
        self._raise_fault("read_bytes", path)
        return bytes(self._inode(path).data)

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        self._raise_fault("write_bytes", path)
        temporary = path + ".tmp"
        inode = self._files.get(temporary) or self._create(temporary)
        self._change("write", temporary)
        inode.data[:] = data
        inode.modified_ms = self.now_ms()
        if sync:
            self._change("sync", temporary)
            inode.synced = bytes(data)
        self.rename(temporary, path)
        if sync:
            self.sync_dir(os.path.dirname(path))

    def lock(self, path: str) -> Lock:
        if path in self._locks:
            raise LogDirLocked(f"{os.path.dirname(path)} is in use by another broker (it holds {path})")
        if path not in self._files:
            self._create(path)
        self._locks.add(path)
        return _MemLock(self, path)
