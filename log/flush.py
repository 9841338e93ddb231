"""Making things durable: what a log has written and not synced, and the fsyncs that change that.

fsync takes milliseconds, so a flush is split: the log says what is to be synced (`PartitionLog.start_flush`), `FlushJob.run`
does it in any thread while the log goes on, and `finish` moves the recovery point. What was written after the start is not
covered, and is in the next job.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.log.checkpoint import LEADER_EPOCHS
from ottla.log.files import File

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog


class Unsynced:
    """What of a partition was written and not synced, beside the segments from the recovery point on.

    `paths`: small files; `directories`: where names changed; `epochs`: the leader epochs, which are not even written: their
    file has no checksum, so it must never be there half, and recovery finds them in the batches.
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
        self.paths, self.directories, self.epochs = [], [], False
        return taken

    def give_back(self, paths: list[str], directories: list[str], epochs: bool) -> None:
        """A job took these and did not sync them."""
        self.paths += paths
        for directory in directories:
            self.names_in(directory)
        self.epochs |= epochs


class FlushJob:
    """An fsync to be done. `run` may be called in any thread, one job of a log at a time; the rest belongs to the log's own.

    After it comes `finish`, or, where it failed, `give_up`.
    """

    __slots__ = ("_directories", "_epochs", "_files", "_log", "_paths", "cuts", "took_ms", "upto")

    def __init__(self, log: PartitionLog, upto: int, files: list[File], epochs: bytes | None) -> None:
        self._log = log
        self._files = files
        self._paths, self._directories = log.unsynced.take()
        self._epochs = epochs
        self.upto = upto
        self.cuts = log.cuts
        self.took_ms = 0

    def run(self) -> None:
        """Syncs. StorageError: the log directory is offline, or descriptors ran out."""
        disk = self._log.directory.disk
        began_ms = self._log.now_ms()
        with self._log.directory.guard(f"flushing {self._log.path}"):
            for file in self._files:
                file.sync()
            for path in self._paths:
                with suppress(FileNotFoundError):  # retention or deletion took it meanwhile
                    disk.open(path).sync()
            if self._epochs is not None:
                with suppress(FileNotFoundError):  # the whole partition is gone
                    disk.write_bytes(f"{self._log.path}/{LEADER_EPOCHS}", self._epochs)
            for path in self._directories:
                with suppress(FileNotFoundError):
                    disk.sync_dir(path)
        self.took_ms = max(0, self._log.now_ms() - began_ms)  # the wall clock may be set back

    def finish(self) -> None:
        """After `run`: moves the recovery point."""
        self._log.finish_flush(self)

    def give_up(self) -> None:
        """What was to be synced waits for the next job: before that the recovery point may not pass a segment's name."""
        self._log.unsynced.give_back(self._paths, self._directories, self._epochs is not None)
