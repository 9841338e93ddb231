"""Lets another program know that the broker serves, and where, by a file that is complete from the moment it exists.

It is there only while the broker serves, so whoever waits for it never finds that of an earlier start.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk


def write_ready_file(disk: Disk, path: str, bootstrap: str, test: str | None, process_id: int) -> None:
    """Writes the addresses of the broker and of its test port, None if it has none. Raises OSError."""
    text = json.dumps({"bootstrap": bootstrap, "test": test, "pid": process_id})
    disk.write_bytes(path, text.encode() + b"\n", False)  # in one step


def remove_ready_file(disk: Disk, path: str, process_id: int | None = None) -> None:
    """Removes the file if there is one, of any process or only of the given one. A file that cannot be removed stays: it cannot
    be written either, which is said then."""
    with contextlib.suppress(OSError):
        if process_id is None or _process_of(disk.read_bytes(path)) == process_id:
            disk.remove(path)


def _process_of(text: bytes) -> object:
    """Returns the process id that a file names; None if it names none, and so is somebody else's."""
    try:
        told = json.loads(text)
    except ValueError:
        return None
    return told.get("pid") if isinstance(told, dict) else None
