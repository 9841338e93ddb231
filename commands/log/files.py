"""The names of files in a data directory, and the layout of index entries, for the commands that look into one.

These commands need no broker and trust nothing: a file may have any size or content. log/index.py and log/txn_index.py describe
the formats. There an index is loaded to be used; here its entries are examined one by one, including wrong ones.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from ottla.commands.output import Failure
from ottla.log.disk.files import MAX_WHOLE_BYTES, OsFile

SEGMENT_FILE: Final = re.compile(r"([0-9]{20})\.(log|index|timeindex|txnindex)")
METADATA_SNAPSHOT: Final = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint")
"""The snapshots of the metadata log: offset, epoch."""

OFFSET_ENTRY: Final = Struct(">ii")
"""Relative offset, position."""
TIME_ENTRY: Final = Struct(">qi")
"""Timestamp in ms, relative offset."""
TXN_ENTRY: Final = Struct(">hqqqq")
"""Version, producer id, first offset, last offset, last stable offset."""

TOO_LARGE: Final = f"more than {MAX_WHOLE_BYTES} bytes are too many for such a file"


def open_to_read(path: Path, *, follow: bool = True) -> OsFile:
    """Opens a regular file, and unless `follow` no symbolic link. Raises OSError, and Failure if it is something else."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    about = os.fstat(fd)
    file = OsFile(str(path), fd, about.st_size)  # closes with its last reference
    if not stat.S_ISREG(about.st_mode):
        raise Failure(f"{path}: not a regular file")
    return file


def read_whole(path: Path) -> bytes | None:
    """Returns a file's bytes; None if there are more than MAX_WHOLE_BYTES. Raises OSError, and Failure like `open_to_read`."""
    file = open_to_read(path)
    return file.pread(file.size, 0) if file.size <= MAX_WHOLE_BYTES else None


class Entries:
    """The whole entries in `data`, unpacked on access: a list of tuples would take ten times as much memory."""

    def __init__(self, layout: Struct, data: bytes) -> None:
        self._layout = layout
        self._data = data[: len(data) // layout.size * layout.size]

    def __len__(self) -> int:
        return len(self._data) // self._layout.size

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return self._layout.iter_unpack(self._data)

    def __getitem__(self, at: int) -> tuple[int, ...]:
        return self._layout.unpack_from(self._data, at * self._layout.size)
