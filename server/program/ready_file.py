"""Lets another program know that the broker serves, and where, by a file that is complete from the moment it exists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk


def write_ready_file(disk: Disk, path: str, bootstrap: str, test: str | None, process_id: int) -> None:
    """Writes the addresses of the broker and of its test port, None if it has none. Raises OSError."""
    text = json.dumps({"bootstrap": bootstrap, "test": test, "pid": process_id})
    disk.write_bytes(path, text.encode() + b"\n", False)  # in one step
