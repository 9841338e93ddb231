"""Directories and files that nobody keeps: they are not synced, and a thread removes them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import weakref

from ottla.log.disk.files import OsDisk, OsFile


class TemporaryDirectory:
    """Removed when it is no longer wanted, at the latest when the program ends: by the process that made it. A child forked off
    inside a broker's `with` block leaves that block, too, when it exits; tempfile's own would then take the parent's files away.
    """

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="ottla-")
        self._process_id = os.getpid()
        self.remove = weakref.finalize(self, _remove_in, self._process_id, self.path)

    def remove_soon(self) -> None:
        """Takes its name away and leaves its files to a thread."""
        if os.getpid() == self._process_id and self.remove.detach() is not None:
            remove_soon(self.path)


def _remove_in(process_id: int, path: str) -> None:
    if os.getpid() == process_id:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)


def remove_soon(path: str) -> None:
    """Renames a directory and has a thread remove it: a file takes half a millisecond. The end of the program waits for that."""
    gone = f"{path}.gone"
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, gone)
        try:
            threading.Thread(target=_remove_in, args=(os.getpid(), gone), name="ottla-remove").start()
        except RuntimeError:  # the program is ending
            _remove_in(os.getpid(), gone)


class UnsyncedFile(OsFile):
    __slots__ = ()

    def sync(self) -> None:
        """Does nothing: the file does not outlive the process."""


class UnsyncedDisk(OsDisk):
    """The operating system's files without fsync, for a directory that is removed in the end."""

    file_type = UnsyncedFile
    is_open_to_processes = False  # since another process would sync what it writes

    def sync_dir(self, path: str) -> None:
        """Does nothing, as for files."""

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        super().write_bytes(path, data, sync=False)
