"""Tells whether a file is another one than before, without reading it."""

from __future__ import annotations

import os
from pathlib import Path


def state_of(path: Path) -> tuple[int, ...]:
    """Returns something that is another one when the file is; nothing while there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
