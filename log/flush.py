"""Making things durable: what a log has written and not synced, and the fsyncs that change that.

fsync takes milliseconds, so a flush is split: the log says what is to be synced (`PartitionLog.start_flush`), `FlushJob.run`
does it in any thread while the log goes on, and `finish` moves the recovery point. What was written after the start is not
covered, and is in the next job.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.log.files import File

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog


class Unsynced:
    """What of a partition was written and not synced, beside the segments from the recovery point on.

    `paths`: small files; `directories`: where names changed; `epochs`: the leader epochs are not even written.
    """

    __slots__ = ("directories", "epochs", "paths")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.directories: list[str] = []
        self.epochs = False

    def names_in(self, directory: str) -> None:
        """Files were made, renamed or removed there."""
        if directory not in self.directories:
            self.directories.append(directory)

    def take(self) -> tuple[list[str], list[str]]:
        """Hands (paths, directories) over to a job."""
        taken = self.paths, self.directories
        self.paths, self.directories = [], []
        return taken


class FlushJob:
    """An fsync to be done. `run` may be called in any thread; the rest belongs to the log's own."""

    __slots__ = ("_directories", "_files", "_log", "_paths", "cuts", "upto")

    def __init__(self, log: PartitionLog, upto: int, files: list[File], paths: list[str], directories: list[str]) -> None:
        self._log = log
        self._files = files
        self._paths = paths
        self._directories = directories
        self.upto = upto
        self.cuts = log.cuts

    def run(self) -> None:
        """Syncs. On failure the log directory goes offline: StorageError."""
        disk = self._log.directory.disk
        try:
            for file in self._files:
                file.sync()
            for path in self._paths:
                with suppress(FileNotFoundError):  # retention or deletion took it meanwhile
                    disk.open(path).sync()
            for path in self._directories:
                with suppress(FileNotFoundError):
                    disk.sync_dir(path)
        except OSError as error:
            raise self._log.directory.fail(f"flushing {self._log.path}", error) from error

    def finish(self) -> None:
        """After `run`: moves the recovery point."""
        self._log.finish_flush(self)
