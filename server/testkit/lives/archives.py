"""Snapshots as tar archives, which are made piece by piece, whatever their size.

One log directory is the root of its archive: unpacked into an empty directory, that is a `log.dirs` for a broker, of ottla or of
Apache Kafka, which recovers it as after `kill -9`. Of several, each has a directory in the archive, `log-dir-0`, `log-dir-1` and
so on, in the order of the settings.

All names in an archive come from below the log directories, and none leads out of it.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk

TAR: Final = "application/x-tar"
PIECE_BYTES: Final = 1024 * 1024
_FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755


class Archive:
    """An archive of some directories, of which nothing is read before it is wanted. The directories must not change."""

    def __init__(self, disk: Disk, directories: Sequence[str], readers: set[object] | None = None) -> None:
        """`readers` has an entry for each reading of the archive that has begun and not ended."""
        self._disk = disk
        self._readers = set() if readers is None else readers
        self._roots = [
            (directory, "" if len(directories) == 1 else f"log-dir-{index}/") for index, directory in enumerate(directories)
        ]

    def size(self) -> int:
        """Returns how many bytes it has. Raises OSError."""
        return sum(len(header) + _padded(size) for header, _, size in self._members()) + 2 * tarfile.BLOCKSIZE

    def pieces(self) -> Iterator[bytes]:
        """Yields its bytes. Raises OSError, also if a file is shorter than it was."""
        reader = object()
        self._readers.add(reader)
        try:
            for header, path, size in self._members():
                yield header
                if size:
                    yield from self._content(path, size)
                    yield bytes(_padded(size) - size)
            yield bytes(2 * tarfile.BLOCKSIZE)
        finally:
            self._readers.discard(reader)

    def _members(self) -> Iterator[tuple[bytes, str, int]]:
        """Yields the header of each member, where it is, and the size of its content."""
        for directory, prefix in self._roots:
            if prefix:
                yield self._header(directory, prefix.rstrip("/"), None), directory, 0
            yield from self._inside(directory, prefix)

    def _inside(self, directory: str, prefix: str) -> Iterator[tuple[bytes, str, int]]:
        for name in self._disk.list(directory):
            path = f"{directory}/{name}"
            if self._disk.is_dir(path):
                yield self._header(path, f"{prefix}{name}", None), path, 0
                yield from self._inside(path, f"{prefix}{name}/")
            else:
                size = self._disk.size(path)
                yield self._header(path, f"{prefix}{name}", size), path, size

    def _header(self, path: str, name: str, size: int | None) -> bytes:
        """Returns what precedes the content of a file of this size; None is for a directory."""
        info = tarfile.TarInfo(name)
        if size is None:
            info.type, info.mode = tarfile.DIRTYPE, _DIRECTORY_MODE
        else:
            info.mode, info.size, info.mtime = _FILE_MODE, size, self._disk.modified_ms(path) // 1000
        return info.tobuf(tarfile.PAX_FORMAT)

    def _content(self, path: str, size: int) -> Iterator[bytes]:
        with closing(self._disk.open(path)) as file:
            at = 0
            while at < size:
                piece = file.pread(min(PIECE_BYTES, size - at), at)
                if not piece:
                    raise OSError(f"{path} became shorter while it was archived")
                at += len(piece)
                yield piece


def write_archive(archive: Archive, disk: Disk, path: str) -> None:
    """Writes an archive to a file, in place of one that is there. Raises OSError."""
    if disk.exists(path):
        disk.remove(path)
    with closing(disk.open(path, create=True)) as file:
        for piece in archive.pieces():
            rest = memoryview(piece)
            while rest:  # after a short write the next one raises the reason
                rest = rest[file.append([rest]) :]


def _padded(size: int) -> int:
    """Returns how many bytes a content of `size` bytes takes."""
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
