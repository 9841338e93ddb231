"""Small file systems for brokers, whose room is taken and given back: full disks."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from compat_tests.reference.kafka import BrokerProcess

_LARGEST_PIECE: Final = 1 << 22
_SMALLEST_PIECE: Final = 4096


class Room:
    """The room on a file system, which is taken and given back."""

    def __init__(self, directory: Path) -> None:
        self._filler = directory / "filler"

    def take(self) -> None:
        """Takes all there is. What frees room later does so for the broker, until the next time.

        It does so in pieces, smaller ones at the end: for one that is too large by what others took meanwhile, tmpfs gives
        nothing at all.
        """
        piece = _LARGEST_PIECE
        with self._filler.open("ab") as file:
            while piece >= _SMALLEST_PIECE:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), piece)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece //= 2

    def give_back(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(broker: BrokerProcess, size: str) -> Iterator[Room]:
    """Gives a broker that has not run a file system of its own for its data, of a size as mount takes it, and yields the room on
    it. The broker must have ended before the file system goes. Needs a namespace of mounts (scripts/namespaces.py)."""
    disk = broker.directory / "disk"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], check=True)
    try:
        broker.data_dir = disk / "data"
        broker.settings["log.dirs"] = str(broker.data_dir)
        yield Room(disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
