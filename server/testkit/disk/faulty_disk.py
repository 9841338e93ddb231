"""A disk that fails or is slow when a test says so (disk_faults.py), around the disk that a broker for tests has.

What the broker makes of it is its own: a write without room is answered KAFKA_STORAGE_ERROR and may succeed later, and after a
failed fsync the log directory is offline (log/disk/directory.py). The kit's own work, such as snapshots, goes past this.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ottla.log.disk.files import Buffer, Disk, File, Lock
from ottla.server.testkit.disk.disk_faults import CHANGE, GROW, READ, DiskFaults


class FaultyFile:
    """An open file of a FaultyDisk."""

    __slots__ = ("_faults", "_file", "path")

    def __init__(self, file: File, path: str, faults: DiskFaults) -> None:
        self._file = file
        self._faults = faults
        self.path = path

    def __repr__(self) -> str:
        return repr(self._file)

    @property
    def size(self) -> int:
        """See File."""
        return self._file.size

    def append(self, parts: Sequence[Buffer]) -> int:
        """See File."""
        if self._faults.all:
            size = sum(map(len, parts))
            room = self._faults.room(self.path, size)
            if room < size:
                parts = [b"".join(parts)[:room]]
        return self._file.append(parts)

    def pread(self, length: int, position: int) -> bytes:
        """See File."""
        if self._faults.all:
            self._faults.check(READ, self.path)
        return self._file.pread(length, position)

    def truncate(self, size: int) -> None:
        """See File. A disk without room can do that."""
        self._faults.check(CHANGE, self.path)
        self._file.truncate(size)

    def reserve(self, size: int) -> None:
        """See File. The bytes are a hole, so that takes no room."""
        self._faults.check(CHANGE, self.path)
        self._file.reserve(size)

    def end_at(self, size: int) -> None:
        """See File."""
        self._file.end_at(size)

    def sync(self) -> None:
        """See File."""
        if self._faults.all:
            self._faults.sync(self.path)
        self._file.sync()

    def has_name(self) -> bool:
        """See File."""
        return self._file.has_name()

    def fileno(self) -> int:
        """See File. What the system sends by itself cannot be made to fail, so a file whose reads fail has none."""
        if self._faults.all:
            self._faults.check(READ, self.path)
        return self._file.fileno()

    def close(self) -> None:
        """See File."""
        self._file.close()


class FaultyDisk:
    """A Disk around another one; see the module's docstring."""

    is_open_to_processes = False  # since another process would meet no fault

    def __init__(self, disk: Disk, faults: DiskFaults) -> None:
        self._disk = disk
        self._faults = faults

    def open(self, path: str, create: bool = False) -> File:
        """See Disk."""
        if self._faults.all:
            self._faults.check(GROW if create and not self._disk.exists(path) else READ, path)
        return FaultyFile(self._disk.open(path, create), path, self._faults)

    def rename(self, old: str, new: str) -> None:
        """See Disk."""
        self._faults.check(CHANGE, old)
        self._disk.rename(old, new)

    def remove(self, path: str) -> None:
        """See Disk."""
        self._faults.check(CHANGE, path)
        self._disk.remove(path)

    def remove_dir(self, path: str) -> None:
        """See Disk."""
        self._faults.check(CHANGE, path)
        self._disk.remove_dir(path)

    def list(self, path: str) -> list[str]:
        """See Disk."""
        self._faults.check(READ, path)
        return self._disk.list(path)

    def makedirs(self, path: str, private: bool = False) -> None:
        """See Disk."""
        if self._faults.all and not self._disk.is_dir(path):
            self._faults.check(GROW, path)
        self._disk.makedirs(path, private)

    def exists(self, path: str) -> bool:
        """See Disk."""
        return self._disk.exists(path)

    def is_dir(self, path: str) -> bool:
        """See Disk."""
        return self._disk.is_dir(path)

    def is_link(self, path: str) -> bool:
        """See Disk."""
        return self._disk.is_link(path)

    def size(self, path: str) -> int:
        """See Disk."""
        return self._disk.size(path)

    def modified_ms(self, path: str) -> int:
        """See Disk."""
        return self._disk.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """See Disk."""
        self._disk.set_modified_ms(path, modified_ms)

    def space(self, path: str) -> tuple[int, int]:
        """See Disk."""
        whole, free = self._disk.space(path)
        faults = (fault for fault in self._faults.all if fault.fail == "enospc" and fault.is_active)
        full = [fault.left_bytes for fault in faults if fault.matches(path)]
        return whole, min(free, *full) if full else free

    def sync_dir(self, path: str) -> None:
        """See Disk."""
        if self._faults.all:
            self._faults.sync(path)
        self._disk.sync_dir(path)

    def read_bytes(self, path: str) -> bytes:
        """See Disk."""
        self._faults.check(READ, path)
        return self._disk.read_bytes(path)

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        """See Disk. A small file that finds no room for the whole of it fails at once."""
        if self._faults.all:
            self._faults.room(path, len(data), whole=True)
            if sync:
                self._faults.sync(path)
                self._faults.sync(os.path.dirname(path))
        self._disk.write_bytes(path, data, sync)

    def lock(self, path: str) -> Lock:
        """See Disk."""
        return self._disk.lock(path)
