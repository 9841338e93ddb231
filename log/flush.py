"""Flushing: what a log has written and not synced yet (`Unsynced`), and the fsyncs that make it durable (`FlushJob`).

fsync takes milliseconds, so a flush is split: the log names what has to be synced (`PartitionLog.start_flush`), `FlushJob.run`
syncs it in any thread while the log is used, and `finish` moves the recovery point. What was written after the start of a job is
not covered by it, and belongs to the next job. The jobs of one log run one after the other.

**`flush.messages` is a promise: of the acknowledged records, fewer than that many can be lost in a power cut.** So an append that
leaves `flush.messages` or more records beyond the recovery point is acknowledged after a flush. The append returns at once and
says that its answer `waits`. The caller starts a flush and answers after it, and all appends that came before that flush began
share it (group commit). Consumers wait, too: as in Kafka, where the high watermark moves when the append with its flush is over,
the high watermark stays where it is until `finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Final, Protocol

from ottla.log.disk.checkpoint import LEADER_EPOCHS
from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import File

_STAGED: Final = f"{LEADER_EPOCHS}.tmp"
"""A start removes what it finds under this name (log/opening/temporary_files.py)."""


class Unsynced:
    """Lists what a partition has written and not synced, beside the segments from the recovery point on. It is false if there is
    nothing.

    `paths` are small files, `directories` those in which names changed. `epochs` says that the leader epochs changed; they are
    not even written before a flush, because their file has no checksum and must never be half there, and recovery finds them in
    the batches. `in_flight` is the job that is syncing what it took; its paths count as unsynced until it is finished.
    `is_overdue` says that a job was to sync some of it and failed. `closed` says that the log is closed, so that another
    partition may have its directory's name by now.
    """

    __slots__ = ("closed", "directories", "epochs", "in_flight", "is_overdue", "lock", "paths")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.directories: list[str] = []
        self.epochs = False
        self.in_flight: FlushJob | None = None
        self.is_overdue = False
        self.closed = False
        self.lock = Lock()
        """The lock that a job holds while it runs."""

    def __bool__(self) -> bool:
        return bool(self.paths or self.directories or self.in_flight is not None)

    def names_in(self, directory: str) -> None:
        """Notes that files were made, renamed or removed in `directory`."""
        if directory not in self.directories:
            self.directories.append(directory)

    def take(self) -> tuple[list[str], list[str]]:
        """Hands (paths, directories) over to a job."""
        taken = self.paths, self.directories
        self.paths, self.directories, self.epochs, self.is_overdue = [], [], False, False
        return taken

    def give_back(self, paths: list[str], directories: list[str], epochs: bool) -> None:
        """Takes back what a job took and did not sync."""
        self.is_overdue = True
        self.paths += paths
        for directory in directories:
            self.names_in(directory)
        self.epochs |= epochs


class Flushable(Protocol):
    """The files of a partition, as a flush sees them (log/local_log.py)."""

    directory: LogDirectory
    path: str
    unsynced: Unsynced
    now_ms: Callable[[], int]


class FlushJob:
    """One flush of a log that is to be done. `run` may be called in any thread, the other methods only in the log's own.

    After `run` comes `finish` or, if it failed, `give_up`. A job that begins while another is under way takes over what that one
    took, too: if the first fails because descriptors ran out, the second may not move the recovery point past those paths.

    `files` are the segments to sync, `epochs` is the new content of the leader epochs' file, None if they did not change. Once
    the job is done, everything below offset `upto` is durable, unless the log was cut meanwhile: `cuts` is the number of
    truncations before the job began. `finish` calls `on_finished`.
    """

    __slots__ = (
        "_directories", "_directory", "_epochs", "_files", "_now_ms", "_on_finished", "_path", "_paths", "_unsynced", "cuts",
        "took_ms", "upto",
    )  # fmt: skip

    def __init__(
        self,
        log: Flushable,
        files: list[File],
        epochs: bytes | None,
        *,
        upto: int,
        cuts: int,
        on_finished: Callable[[FlushJob], None],
    ) -> None:
        unsynced = self._unsynced = log.unsynced
        self._directory = log.directory
        self._path = log.path
        self._files = files
        self._paths, self._directories = unsynced.take()
        self._epochs = epochs
        self.upto = upto
        self.cuts = cuts
        self._now_ms = log.now_ms
        self._on_finished = on_finished
        self.took_ms = 0
        earlier = unsynced.in_flight
        if earlier is not None:
            self._paths = [*earlier._paths, *self._paths]
            self._directories = [*earlier._directories, *self._directories]
            self._epochs = epochs or earlier._epochs
        unsynced.in_flight = self

    def run(self) -> None:
        """Does the fsyncs. Raises StorageError if the log directory is or goes offline, or if descriptors or room for a small
        file ran out."""
        disk = self._directory.disk
        with self._unsynced.lock, self._directory.guard(f"flushing {self._path}"):
            began_ms = self._now_ms()
            for file in self._files:
                file.sync()
            for path in self._paths:
                with suppress(FileNotFoundError):  # retention or a deletion has removed it meanwhile
                    disk.open(path).sync()
            if self._epochs is not None and not self._unsynced.closed:
                with suppress(FileNotFoundError):  # the whole partition is gone
                    disk.write_bytes(f"{self._path}/{LEADER_EPOCHS}", self._epochs)
            for path in self._directories:
                with suppress(FileNotFoundError):
                    disk.sync_dir(path)
            self.took_ms = max(0, self._now_ms() - began_ms)  # the wall clock may be set back

    def stage(self) -> None:
        """Writes what is not even written yet, unsynced and under another name, for one who syncs the whole file system in place
        of `run`, and lets the segments' files go, since that needs none of them. The job cannot `run` any more. Raises
        StorageError."""
        self._files = []
        if self._epochs is not None:
            with self._directory.guard(f"flushing {self._path}"), suppress(FileNotFoundError):
                self._directory.disk.write_bytes(f"{self._path}/{_STAGED}", self._epochs, sync=False)

    def put_in_place(self) -> bool:
        """Gives what was staged its name, once that is durable; returns whether there was anything. Raises StorageError."""
        if self._epochs is None:
            return False
        with self._directory.guard(f"flushing {self._path}"), suppress(FileNotFoundError):
            self._directory.disk.rename(f"{self._path}/{_STAGED}", f"{self._path}/{LEADER_EPOCHS}")
        return True

    def run_and_finish(self) -> None:
        """Runs and finishes the job on the calling thread. Raises StorageError."""
        try:
            self.run()
        except BaseException:
            self.give_up()
            raise
        self.finish()

    def finish(self) -> None:
        """Moves the log's recovery point, after `run`."""
        self._leave()
        self._on_finished(self)

    def give_up(self) -> None:
        """Leaves what was to be synced to the next job, before which the recovery point may not pass a segment's name."""
        self._leave()
        self._unsynced.give_back(self._paths, self._directories, self._epochs is not None)

    def _leave(self) -> None:
        if self._unsynced.in_flight is self:
            self._unsynced.in_flight = None
