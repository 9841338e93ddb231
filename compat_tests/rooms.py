"""The room on a file system, which is taken and given back: a full disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

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
