"""The IO seam: everything that the log asks of a disk, as two small protocols, `File` and `Disk`, and their implementation by the
operating system. The one in memory is the test kit's (server/testkit/disk/memory_disk.py).

`log` never touches `os` or `open` outside this file, so that a test can fail the next write, lose what was not synced or stop at
any operation, and one seed replays a crash (kfake's `persist_fs.go` and FoundationDB's `IAsyncFile` are the models).

Rules that the rest of the log leans on:

- A `File` appends at its own end (`size`), not at a shared position: `pwritev` says where, so reads and other handles never move
  it.
- `append` may write less than it was given, as the system call may. The caller compares and cuts back.
- Nothing is durable before `File.sync`, and no create, rename or remove before `sync_dir` of its directory. `MemoryDisk.crash`
  takes that literally.
- What is made has the mode of the directory around it, less the umask. A log directory that is made is for its owner alone (0700,
  and so 0600 for its files); one that exists keeps the mode that somebody gave it.
- Nobody closes a file that is being read. An owner drops its reference; the descriptor closes with the last one. A `FileSlice`
  holds a reference, so a fetch in flight is not disturbed when its segment is rolled, deleted or pushed out of `OpenFiles`. (If
  the file is truncated under a slice, reading gives `TruncatedSlice`, because those bytes no longer exist.)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ottla.log.disk.errors import LogDirLocked, TruncatedSlice

Buffer = bytes | bytearray | memoryview

_READ_BYTES = 32 * 1024  # nearly all small files are smaller and take one call
MAX_WHOLE_BYTES = 1 << 28
_IOV_MAX = 1024  # Linux takes no more parts in one call
_BOOT_ID_BYTES = 64
_REPORTING = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
"""The file systems whose failed writes syncfs(2) reports, by statfs(2): ext4, xfs, btrfs, f2fs, tmpfs."""
_STATFS_BYTES = 256
"""More than any system's struct statfs has. Its first field is the type, a long."""
_ANYBODY = 0o777
_RW = 0o666
_SMALL = 4096  # an append of up to so many bytes is copied, to be read from memory


class StateUnknown(OSError):
    """A failure after which nobody knows what the disk holds: an fsync failed, or the cut that was to undo half a write.

    Whatever its errno says, it is final, because the next fsync may succeed although pages were dropped.
    """


class FileTooLarge(OSError):
    """A file that was to be read whole is larger than any that is ever written here."""


class File(Protocol):
    """An open file that grows at its end. Every method may raise OSError."""

    @property
    def size(self) -> int:
        """The number of bytes in the file, as far as this handle wrote or found them."""
        ...

    def append(self, parts: Sequence[Buffer]) -> int:
        """Writes the parts one after the other at `size` in one system call; returns the bytes written, which may be fewer."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Returns `length` bytes from `position`, fewer only at the file's end."""
        ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes."""
        ...

    def reserve(self, size: int) -> None:
        """Makes the file `size` bytes long, filled with zeros behind its end. Appends still go to the old end, and the property
        `size` still says where that is."""
        ...

    def end_at(self, size: int) -> None:
        """Sets the file's end to `size` without cutting it: the bytes behind were reserved, or nobody wants them."""
        ...

    def sync(self) -> None:
        """Returns when the file's bytes are durable. May be called from another thread. Raises StateUnknown."""
        ...

    def has_name(self) -> bool:
        """Returns whether the file still has a name in some directory; without one it is gone when it is closed."""
        ...

    def fileno(self) -> int:
        """Returns the descriptor, for os.sendfile. Raises OSError if there is none, as for a file in memory."""
        ...

    def close(self) -> None:
        """Closes the descriptor at once. This is only for files that no slice can refer to."""
        ...


class Lock(Protocol):
    """An exclusive lock on a directory, held until `release` or the end of the process."""

    @property
    def same_boot(self) -> bool:
        """Returns whether the system has been running without a break since the last `note_boot` on this directory. Then
        everything that was written since is there, whether it was synced or not. False if nobody knows."""
        ...

    def note_boot(self) -> None:
        """Notes on which run of the system the directory is used, after everything that an earlier run may have lost was looked
        at. Raises OSError."""
        ...

    def sync_file_system(self) -> bool:
        """Syncs the whole file system that the lock lies on. Returns True if everything that was written and named there since
        the lock was taken is durable. False if not, or if the system cannot tell; then each file has to be synced by itself.
        """
        ...

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute or relative to wherever the caller is; names are text. Every method may raise OSError."""

    @property
    def is_open_to_processes(self) -> bool:
        """Returns whether another process may work on the files: it sees them at the same paths, and there is nothing about them
        that only this object does."""
        ...

    def open(self, path: str, create: bool = False) -> File:
        """Opens for reading and appending. `create` makes an empty file if there is none."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Renames a file or directory atomically; replaces `new` if that is a file."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file."""
        ...

    def remove_dir(self, path: str) -> None:
        """Removes an empty directory."""
        ...

    def list(self, path: str) -> list[str]:
        """Returns the names of what is in a directory, sorted."""
        ...

    def makedirs(self, path: str, private: bool = False) -> None:
        """Makes the directory and its parents. It is not an error if it exists. Only the owner may enter one that is `private`;
        who may enter another is as in the directory around it."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def is_link(self, path: str) -> bool:
        """Returns whether the path is a symbolic link, wherever that leads."""
        ...

    def size(self, path: str) -> int:
        """Returns the number of bytes in a file."""
        ...

    def modified_ms(self, path: str) -> int:
        """Returns when a file was last written, in ms since 1970."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Sets the time at which the file was last written, which is what retention by time uses if records have no timestamp."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Returns (bytes in all, bytes that we may still write) of the file system that `path` lies on."""
        ...

    def sync_dir(self, path: str) -> None:
        """Syncs a directory: when this returns, what was created, renamed and removed in it is durable. Raises StateUnknown, or
        OSError if not even the attempt could be made.
        """
        ...

    def read_bytes(self, path: str) -> bytes:
        """Returns the content of a small file. Raises FileTooLarge beyond MAX_WHOLE_BYTES."""
        ...

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        """Replaces a small file in one step: temporary file, fsync, rename, fsync of the directory. A reader sees the old content
        or the new one.

        `sync=False` leaves both fsyncs out, for derived files that are rebuilt when a power cut takes them. Raises OSError, with
        the file as it was and nothing else left behind, and StateUnknown.
        """
        ...

    def lock(self, path: str) -> Lock:
        """Takes an exclusive lock on the file, which is made if missing. Raises LogDirLocked if another process holds it."""
        ...


class FileSlice:
    """Stands for `length` bytes of `file` from `position`, which are not read yet. It is part of an encoded answer until the
    connection sends it."""

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
        """Reads and returns the bytes. Raises TruncatedSlice if the file was cut meanwhile."""
        data = self.file.pread(self.length, self.position)
        if len(data) != self.length:
            raise TruncatedSlice(f"{self!r}: only {len(data)} bytes are left")
        return data

    def descriptor(self) -> int:
        """Returns the descriptor of the file, or -1 if the operating system has none for it."""
        try:
            return self.file.fileno()
        except OSError:
            return -1


class OpensFiles(Protocol):
    """An owner of an open file that can open it again when needed: a segment."""

    def release_file(self) -> None: ...


class OpenFiles:
    """Bounds how many log files are open at once: the owner that opened its file first closes it first, and opens it again when
    it must.

    First in, first out costs nothing on the hot path; a busy file is opened again now and then, which takes some microseconds.
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
        self._is_tailed = False  # the last append was read at once, so some consumer waits for records
        # The end of the last append, and its bytes if they are few. They are one object because other threads read them, too.
        self._last = (size, b"")

    def __repr__(self) -> str:
        return f"OsFile({self.path!r})"

    def append(self, parts: Sequence[Buffer]) -> int:
        if len(parts) == 1:
            written = os.pwrite(self._fd, parts[0], self.size)
        else:
            written = os.pwritev(self._fd, parts if len(parts) <= _IOV_MAX else (b"".join(parts),), self.size)
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
        pieces = [data]  # the read was above 2 GiB, or a signal cut it short
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

    def has_name(self) -> bool:
        return os.fstat(self._fd).st_nlink > 0

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
    """The lock on a file, in which it notes the id of the boot. Kafka locks the same file and does not look into it."""

    __slots__ = ("_boot", "_fd", "_may_sync", "same_boot")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._may_sync = True
        self._boot = _boot_id()
        self.same_boot = bool(self._boot) and os.pread(fd, len(self._boot) + 1, 0) == self._boot

    def note_boot(self) -> None:
        if not self.same_boot:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, self._boot, 0)

    def sync_file_system(self) -> bool:
        syncfs = _find_syncfs(self._fd) if self._may_sync else None
        if syncfs is None:
            return False
        self._may_sync = syncfs(self._fd) == 0  # a failed write is reported once, to a descriptor that was open by then
        return self._may_sync

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _find_syncfs(fd: int) -> Callable[[int], int] | None:
    """Returns syncfs(2), None where it may not report what has failed: Linux does since 5.17, and only on file systems that keep
    the data themselves. In overlayfs, for one, failed writes are known to the file system below, which is not asked.
    """
    system = os.uname()
    version = tuple(int(number) for number in re.findall(r"\d+", system.release)[:2])
    if system.sysname != "Linux" or version < (5, 17):
        return None
    import ctypes  # nobody else needs it

    libc, status = ctypes.CDLL(None), ctypes.create_string_buffer(_STATFS_BYTES)
    if libc.fstatfs(fd, status) or int.from_bytes(status.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) not in _REPORTING:
        return None
    found: Callable[[int], int] | None = getattr(libc, "syncfs", None)
    return found


def _mode_around(path: str) -> int:
    """Returns who may do what in the directory around a path, for what is made there; the umask takes away from that. So whoever
    may look into a log directory is decided by its own mode alone."""
    try:
        return os.stat(os.path.dirname(path) or ".").st_mode & _ANYBODY
    except FileNotFoundError:
        return _ANYBODY  # it has to be made first, if it may be


def _boot_id() -> bytes:
    """Returns what is different after every start of the system, b"" if the system does not say (only Linux does)."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read(_BOOT_ID_BYTES).strip()
    except OSError:
        return b""


class OsDisk:
    """The operating system's file system."""

    file_type: type[OsFile] = OsFile
    is_open_to_processes = True

    def open(self, path: str, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_CREAT if create else 0)  # opening a pipe must not block
        fd = os.open(path, flags, _mode_around(path) & _RW if create else 0)
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

    def makedirs(self, path: str, private: bool = False) -> None:
        os.makedirs(path, stat.S_IRWXU if private else _mode_around(path), exist_ok=True)

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
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # opening a pipe must not block; it reads as empty
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
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe must not block
            with open(os.open(temporary, flags, _mode_around(path) & _RW), "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:  # after a short write the next one raises the reason
                    rest = rest[file.write(rest) :]
                if sync:
                    _fsync(file.fileno(), temporary)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):  # removes half a file from a disk that may be full
                os.unlink(temporary)
            raise
        if sync:
            self.sync_dir(os.path.dirname(path) or ".")

    def lock(self, path: str) -> Lock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _mode_around(path) & _RW)
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
    """Removes files that were just made, as far as they exist. Raises StateUnknown if one cannot be removed."""
    try:
        for path in paths:
            if disk.exists(path):
                disk.remove(path)
    except OSError as error:
        raise StateUnknown(error.errno, f"half-made files could not be removed: {error.strerror}") from error


def remove_tree(disk: Disk, path: str) -> None:
    """Removes a directory with what is in it. Of a link only the link is removed, because what it leads to is somebody else's. It
    is not an error if something is gone already.
    """
    for _ in removals(disk, path):
        pass


def removals(disk: Disk, path: str) -> Iterator[None]:
    """Does what `remove_tree` does, and pauses after each file and directory."""
    with contextlib.suppress(FileNotFoundError):
        if disk.is_link(path):
            disk.remove(path)
            return
        for name in disk.list(path):
            inner = f"{path}/{name}"
            if disk.is_dir(inner):
                yield from removals(disk, inner)
            else:
                disk.remove(inner)
                yield
        disk.remove_dir(path)
        yield
