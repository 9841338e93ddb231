"""The disk in memory that fails and stops on request.

Faults are ordered by `fail`: the next matching operation raises OSError, for `append` after writing some of its bytes.
`stop_after(n)` raises `PowerCut` at the n-th change to the disk, so that a test can cut a run at every one of them;
`before_change` is called ahead of each, and may look at `crashed`, another disk with what a power cut would leave right there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from ottla.log.disk.files import Buffer, File, Lock, StateUnknown
from ottla.server.testkit.disk.memory_disk import MemoryDisk, MemoryFile
from ottla.server.testkit.disk.power_loss import SECTOR_BYTES


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


class MemFile(MemoryFile):
    """A handle on a file of a MemDisk."""

    __slots__ = ()
    _disk: MemDisk

    def append(self, parts: Sequence[Buffer]) -> int:
        fault = self._disk._take_fault("append", self.path)
        if fault is None:
            return super().append(parts)
        data = b"".join(parts)
        self.write(data[: fault.written])
        written = fault.written
        if 0 < written < len(data):
            if fault.code:
                fault.written = 0
                self._disk._faults.insert(0, fault)
            return written  # as the system call: short now, the error comes with the next one
        raise OSError(fault.code, os.strerror(fault.code), self.path)

    def pread(self, length: int, position: int) -> bytes:
        self._disk._raise_fault("pread", self.path)
        return super().pread(length, position)

    def truncate(self, size: int) -> None:
        self._disk._raise_fault("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._disk._raise_fault("sync", self.path)
        super().sync()


class MemDisk(MemoryDisk):
    """See the module's docstring."""

    file_type: ClassVar[type[MemoryFile]] = MemFile

    def __init__(
        self, now_ms: Callable[[], int] = lambda: 0, *, sector_bytes: int = SECTOR_BYTES, ordered_names: bool = False
    ) -> None:
        super().__init__(now_ms, sector_bytes=sector_bytes, ordered_names=ordered_names)
        self.changes = 0  # operations that changed the disk so far: the crash points
        self.trace: list[tuple[str, str]] = []
        self.before_change: Callable[[str, str], None] | None = None
        """Called with (operation, path) ahead of every change to the disk."""
        self._stop_at: int | None = None
        self._faults: list[Fault] = []

    def fail(self, operation: str, code: int = errno.EIO, *, path: str = "", skip: int = 0, written: int = 0) -> None:
        """Orders a fault. Operations: open append pread truncate sync rename remove sync_dir read_bytes write_bytes list
        space lock."""
        self._faults.append(Fault(operation, code, path, skip, written))

    def stop_after(self, changes: int | None) -> None:
        """PowerCut instead of the change after the next `changes` ones; None = never."""
        self._stop_at = None if changes is None else self.changes + changes

    def crash(self, rng: Random | None = None) -> None:
        super().crash(rng)
        self._faults.clear()
        self._stop_at = None

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

    def note_change(self, operation: str, path: str) -> None:
        if self._stop_at is not None and self.changes >= self._stop_at:
            raise PowerCut(f"before {operation} of {path}")
        if self.before_change is not None:
            self.before_change(operation, path)
        self.changes += 1
        self.trace.append((operation, path))

    # Disk

    def open(self, path: str, create: bool = False) -> File:
        self._raise_fault("open", path)
        return super().open(path, create)

    def rename(self, old: str, new: str) -> None:
        self._raise_fault("rename", old)
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self._raise_fault("remove", path)
        super().remove(path)

    def list(self, path: str) -> list[str]:
        self._raise_fault("list", path)
        return super().list(path)

    def space(self, path: str) -> tuple[int, int]:
        self._raise_fault("space", path)
        return super().space(path)

    def sync_dir(self, path: str) -> None:
        self._raise_fault("sync_dir", path)
        super().sync_dir(path)

    def read_bytes(self, path: str) -> bytes:
        self._raise_fault("read_bytes", path)
        return super().read_bytes(path)

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        self._raise_fault("write_bytes", path)
        super().write_bytes(path, data, sync)

    def lock(self, path: str) -> Lock:
        self._raise_fault("lock", path)
        return super().lock(path)
