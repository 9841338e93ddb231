"""A disk that changes nothing: the changes that recovery would make to a directory happen only in memory.

A reader of segments must see what a broker that starts on them would see: torn tails cut, interrupted compactions finished or
undone, damaged indexes rebuilt. `log.opening.recovery` does all that and takes its disk as a parameter; on this one its cuts,
renames and removals are visible only to itself. Files are opened only for reading, so a read-only mount is sufficient.

A live broker may change the same files meanwhile. A file that has vanished raises FileNotFoundError, as everywhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final

from ottla.log.disk.files import Buffer, File, Lock, OsDisk, OsFile

_DISK: Final = OsDisk()


class ReadOnlyFile(OsFile):
    """A real file that is cut, if at all, only in memory."""

    def __init__(self, path: str, fd: int, size: int, sizes: dict[str, int] | None = None) -> None:
        super().__init__(path, fd, size)
        self._sizes = {} if sizes is None else sizes

    def pread(self, length: int, position: int) -> bytes:
        """Reads like OsFile, but nothing behind `size`, where another process may be writing."""
        return super().pread(max(0, min(length, self.size - position)), position)

    def append(self, parts: Sequence[Buffer]) -> int:
        raise OSError(errno.EROFS, "a broker must start on this directory first: a segment is to be split", self.path)

    def truncate(self, size: int) -> None:
        self.size = self._sizes[self.path] = size

    def reserve(self, size: int) -> None:
        """Does nothing, because nothing is written."""

    def sync(self) -> None:
        """Does nothing, since nothing was written."""


def open_for_reading(path: str, sizes: dict[str, int] | None = None) -> ReadOnlyFile:
    """Opens a regular file only for reading. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    found = os.fstat(fd)
    file = ReadOnlyFile(path, fd, found.st_size, sizes)  # closes the descriptor when it goes
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file


class _Nothing:
    """A lock that does not lock anything, because nothing is changed."""

    same_boot = False

    def note_boot(self) -> None:
        """Does nothing."""

    def sync_file_system(self) -> bool:
        return False

    def release(self) -> None:
        """Does nothing."""


class ReadOnlyDisk:
    """A log.disk.files.Disk on top of the real one. `real_path` returns where the file that has a name here really is."""

    is_open_to_processes = False  # since the changes are made nowhere else

    def __init__(self) -> None:
        self._real: dict[str, str] = {}
        """The real path of each file that was renamed here, by its new name."""
        self._gone: set[str] = set()
        self._made: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}
        """The size in bytes of each file that was cut here, by its real path."""

    def real_path(self, path: str) -> str:
        """Returns the real path of a file. Raises FileNotFoundError if it is gone, here or really."""
        if path in self._gone:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._real.get(path, path)

    def open(self, path: str, create: bool = False) -> File:
        if create and not self.exists(path):
            self.write_bytes(path, b"")
        if path in self._made:
            return _MadeFile(path, self._made[path])
        real = self.real_path(path)
        file = open_for_reading(real, self._sizes)
        file.size = min(file.size, self._sizes.get(real, file.size))
        return file

    def rename(self, old: str, new: str) -> None:
        if old in self._made:
            self._made[new] = self._made.pop(old)
            self._real.pop(new, None)
        else:
            real = self.real_path(old)
            if not os.path.lexists(real):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
            self._made.pop(new, None)
            self._real.pop(old, None)
            self._real[new] = real
        self._gone.discard(new)
        self._gone.add(old)

    def remove(self, path: str) -> None:
        self._made.pop(path, None)
        self._real.pop(path, None)
        self._gone.add(path)

    def remove_dir(self, path: str) -> None:
        self._gone.add(path)

    def list(self, path: str) -> list[str]:
        names = {name for name in _DISK.list(path) if f"{path}/{name}" not in self._gone}
        here = (name.rpartition("/") for name in (*self._real, *self._made))
        return sorted(names | {name for parent, _, name in here if parent == path})

    def makedirs(self, path: str, private: bool = False) -> None:
        self._gone.discard(path)

    def exists(self, path: str) -> bool:
        return path in self._made or (path not in self._gone and _DISK.exists(self._real.get(path, path)))

    def is_dir(self, path: str) -> bool:
        return path not in self._gone and _DISK.is_dir(path)

    def is_link(self, path: str) -> bool:
        return path not in self._gone and _DISK.is_link(path)

    def size(self, path: str) -> int:
        if path in self._made:
            return len(self._made[path])
        real = self.real_path(path)
        return min(_DISK.size(real), self._sizes.get(real, _DISK.size(real)))

    def modified_ms(self, path: str) -> int:
        return 0 if path in self._made else _DISK.modified_ms(self.real_path(path))

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Does nothing, because nobody reads the time here."""

    def space(self, path: str) -> tuple[int, int]:
        return _DISK.space(path)

    def sync_dir(self, path: str) -> None:
        """Does nothing, since nothing was written."""

    def read_bytes(self, path: str) -> bytes:
        return self._made[path] if path in self._made else _DISK.read_bytes(self.real_path(path))

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        self._made[path] = data
        self._real.pop(path, None)
        self._gone.discard(path)

    def lock(self, path: str) -> Lock:
        return _Nothing()


class _MadeFile(ReadOnlyFile):
    """A file that exists only in memory."""

    def __init__(self, path: str, data: bytes) -> None:
        super().__init__(path, -1, len(data))
        self._data = data

    def pread(self, length: int, position: int) -> bytes:
        return self._data[position : position + length]

    def truncate(self, size: int) -> None:
        self._data = self._data[:size]
        self.size = size
