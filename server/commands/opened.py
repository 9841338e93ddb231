"""Opening a file only to read it, for the commands that look into data directories, whatever lies there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ottla.log.files import OsFile
from ottla.server.commands.output import Failure


def open_to_read(path: Path) -> OsFile:
    """A regular file. OSError; Failure if it is something else."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    about = os.fstat(fd)
    file = OsFile(str(path), fd, about.st_size)  # closes with its last reference
    if not stat.S_ISREG(about.st_mode):
        raise Failure(f"{path}: is no regular file")
    return file
