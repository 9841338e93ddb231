"""The IO seam: everything the log asks of a disk, in two small protocols, one for the operating system and one in memory.

`log` never touches `os` or `open` outside this file, so that a test can fail the next write, lose what was not synced or
stop at any operation, and one seed replays a crash (kfake's `persist_fs.go` and FoundationDB's `IAsyncFile` are the
models).

Rules that the rest of the log leans on:

- A `File` appends at its own end (`size`), not at a shared position: `pwritev` says where, so reads and other handles never
  move it.
- `append` may write less than it was given, as the system call may. The caller compares and cuts back.
- Nothing is durable before `File.sync`, and no create, rename or remove before `sync_dir` of its directory. `MemDisk.crash` takes
  that literally.
- Nobody closes a file that is being read. An owner drops its reference; the descriptor closes with the last one. A `FileSlice`
  holds a reference, so a fetch in flight survives that its segment is rolled, deleted or pushed out of `OpenFiles`. (A file
  that is truncated under a slice gives `TruncatedSlice`: those bytes no longer exist.)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.log.errors import LogDirLocked, TruncatedSlice

Buffer = bytes | bytearray | memoryview

_READ_BYTES = 32 * 1024  # nearly all small files are smaller: one call
MAX_WHOLE_BYTES = 1 << 28
_IOV_MAX = 1024  # Linux takes no more parts in one call
_SMALL = 4096  # bytes of an append that are worth a copy


class StateUnknown(OSError):
    """A failure after which nobody knows what the disk holds: of an fsync, or of the cut that was to take half a write back.

    Whatever its errno says, it is final: the next fsync may succeed although pages were dropped.
    """


class FileTooLarge(OSError):
    """A file that is to be read whole is larger than any that is ever written here."""


class File(Protocol):
    """An open file that grows at its end. Every method may raise OSError."""

    @property
    def size(self) -> int:
        """Bytes in the file, as far as this handle wrote or found them."""
        ...

    def append(self, parts: Sequence[Buffer]) -> int:
        """Writes the parts one after the other at `size` in one system call; returns the bytes written, which may be fewer."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the file's end."""
        ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes."""
        ...

    def reserve(self, size: int) -> None:
        """Makes the file `size` bytes long, with zeros behind its end. Appends go on at the end, and so does `size`."""
        ...

    def end_at(self, size: int) -> None:
        """The file's end is there: what lies behind was reserved, or nobody wants it."""
        ...

    def sync(self) -> None:
        """Returns when the file's bytes are durable. May be called from another thread. StateUnknown."""
        ...

    def fileno(self) -> int:
        """The descriptor, for os.sendfile; OSError where there is none (memory)."""
        ...

    def close(self) -> None:
        """Gives the descriptor back now. Only for files that no slice can refer to."""
        ...


class Lock(Protocol):
    """An exclusive lock on a directory, held until `release` or the end of the process."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute or relative to wherever the caller is; names are text. Every method may raise OSError."""

    def open(self, path: str, create: bool = False) -> File:
        """Opens for reading and appending. `create` makes an empty file if there is none."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces `new` if it is a file."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file."""
        ...

    def remove_dir(self, path: str) -> None:
        """Removes an empty directory."""
        ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def makedirs(self, path: str) -> None:
        """Makes the directory and its parents; no error if it is there."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def is_link(self, path: str) -> bool:
        """A symbolic link, wherever it leads."""
        ...

    def size(self, path: str) -> int:
        """Bytes in a file."""
        ...

    def modified_ms(self, path: str) -> int:
        """When a file was last written, milliseconds since 1970."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Makes it look as if the file was last written then: retention by time looks at it where records have no time."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """(bytes in all, bytes that we may still write) of the file system that `path` lies on."""
        ...

    def sync_dir(self, path: str) -> None:
        """Returns when creates, renames and removes in the directory are durable. StateUnknown, or OSError where not even that
        was tried.
        """
        ...

    def read_bytes(self, path: str) -> bytes:
        """A whole small file. FileTooLarge beyond MAX_WHOLE_BYTES."""
        ...

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        """Replaces a small file in one step: temporary file, fsync, rename, fsync of the directory. A reader sees old or new.

        `sync=False` leaves both fsyncs out, for derived files that are rebuilt when a power cut takes them. OSError: the file is
        as it was, and nothing else is there; StateUnknown.
        """
        ...

    def lock(self, path: str) -> Lock:
        """Takes an exclusive lock on the file, which is made if missing; LogDirLocked if another holds it."""
        ...


class FileSlice:
    """`length` bytes of `file` from `position`, not read yet. Lives in an encoded answer until the connection sends it."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileSlice({self.file!r}, position={self.position}, length={self.length})"

    def read(self) -> bytes:
        """The bytes. TruncatedSlice if the file was cut meanwhile."""
        data = self.file.pread(self.length, self.position)
        if len(data) != self.length:
            raise TruncatedSlice(f"{self!r}: only {len(data)} bytes are left")
        return data


class OpensFiles(Protocol):
    """Someone who holds a file open and can open it again: a segment."""

    def release_file(self) -> None: ...


class OpenFiles:
    """Bounds how many log files are open at once: the owner that opened first lets go first, and opens again when it must.

    First in, first out costs nothing on the hot path; a busy file is opened again now and then, for some microseconds.
    """

    def __init__(self, limit: int) -> None:
        assert limit > 0
        self.limit = limit
        self._owners: dict[OpensFiles, None] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def opened(self, owner: OpensFiles) -> None:
        self._owners[owner] = None
        if len(self._owners) > self.limit:
            oldest = next(iter(self._owners))
            del self._owners[oldest]
            oldest.release_file()

    def forget(self, owner: OpensFiles) -> None:
        self._owners.pop(owner, None)


class OsFile:
    """A file of the operating system. The descriptor closes with the last reference."""

    __slots__ = ("_fd", "_is_tailed", "_last", "path", "size")

    def __init__(self, path: str, fd: int, size: int) -> None:
        self.path = path
        self._fd = fd
        self.size = size
        self._is_tailed = False  # what was appended before was read at once: somebody waits for records
        # Then where the next append ends, and its bytes if they are few. One object: threads read, too.
        self._last = (size, b"")

    def __repr__(self) -> str:
        return f"OsFile({self.path!r})"

    def append(self, parts: Sequence[Buffer]) -> int:
        if len(parts) > _IOV_MAX:
            parts = (b"".join(parts),)
        written = os.pwritev(self._fd, parts, self.size)
        self.size += written
        if self._is_tailed:
            self._is_tailed = False
            if written <= _SMALL:
                self._last = (self.size, b"".join(parts)[:written])
        return written

    def pread(self, length: int, position: int) -> bytes:
        if position + length == self.size:
            self._is_tailed = True
            end, last = self._last
            if length == len(last) and position + length == end:
                return last
        data = os.pread(self._fd, length, position)
        if len(data) == length or position + len(data) >= self.size:
            return data
        pieces = [data]  # a read above 2 GiB, or one that a signal cut short
        got = len(data)
        while got < length:
            data = os.pread(self._fd, length - got, position + got)
            if not data:
                break
            pieces.append(data)
            got += len(data)
        return b"".join(pieces)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.end_at(size)

    def reserve(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def end_at(self, size: int) -> None:
        self.size = size
        self._last = (size, b"")

    def sync(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise _unknown(error, self.path) from error

    def fileno(self) -> int:
        return self._fd

    def close(self, _close: Callable[[int], None] = os.close) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _close(fd)

    def __del__(self) -> None:
        self.close()


def _fsync(fd: int, path: str) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        raise _unknown(error, path) from error


def _unknown(error: OSError, path: str) -> StateUnknown:
    return StateUnknown(error.errno, f"fsync failed: {error.strerror}", path)


class _OsLock:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsDisk:
    """The operating system's file system."""

    file_type: type[OsFile] = OsFile

    def open(self, path: str, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_CREAT if create else 0)  # a pipe is not waited for
        fd = os.open(path, flags, 0o644)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            return self.file_type(path, fd, found.st_size)
        except OSError:
            os.close(fd)
            raise

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_dir(self, path: str) -> None:
        os.rmdir(path)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def makedirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _fsync(fd, path)
        finally:
            os.close(fd)

    def read_bytes(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe is not waited for: it is empty
        try:
            pieces: list[bytes] = []
            while piece := os.read(fd, _READ_BYTES):
                if not pieces and len(piece) == _READ_BYTES and os.fstat(fd).st_size > MAX_WHOLE_BYTES:
                    raise FileTooLarge(errno.EFBIG, os.strerror(errno.EFBIG), path)
                pieces.append(piece)
                if len(piece) < _READ_BYTES:
                    break
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            os.close(fd)

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        temporary = path + ".tmp"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe is not waited for
            with open(os.open(temporary, flags, 0o666), "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:  # a short write is followed by the reason for it
                    rest = rest[file.write(rest) :]
                if sync:
                    _fsync(file.fileno(), temporary)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):  # half a file, on a disk that may be full
                os.unlink(temporary)
            raise
        if sync:
            self.sync_dir(os.path.dirname(path) or ".")

    def lock(self, path: str) -> Lock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Two kinds of lock, because they do not see each other: flock stops a second broker, in this process too;
            # the POSIX lock is the one Apache Kafka takes.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise LogDirLocked(f"{os.path.dirname(path)} is in use by another broker (it holds {path})") from None
            raise
        return _OsLock(fd)


def remove_files(disk: Disk, paths: Sequence[str]) -> None:
    """Takes back files that were just made, as far as they are there. StateUnknown where one stays."""
    try:
        for path in paths:
            if disk.exists(path):
                disk.remove(path)
    except OSError as error:
        raise StateUnknown(error.errno, f"half-made files could not be removed: {error.strerror}") from error


def remove_tree(disk: Disk, path: str) -> None:
    """Removes a directory with what is in it, of links only themselves: what they lead to is somebody else's. What is gone
    already is no error.
    """
    with contextlib.suppress(FileNotFoundError):
        if disk.is_link(path):
            disk.remove(path)
            return
        for name in disk.list(path):
            inner = f"{path}/{name}"
            if disk.is_dir(inner):
                remove_tree(disk, inner)
            else:
                disk.remove(inner)
        disk.remove_dir(path)
