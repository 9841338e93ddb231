"""Making things durable: what a log has written and not synced, the fsyncs that change that, and the answers that wait for them.

fsync takes milliseconds, so a flush is split: the log says what is to be synced (`PartitionLog.start_flush`), `FlushJob.run`
does it in any thread while the log goes on, and `finish` moves the recovery point. What was written after the start is not
covered, and is in the next job. Jobs of one log run one after the other.

**`flush.messages` is a promise: of the acknowledged records at most so many, less one, may be lost with the power.** So an append
that leaves `flush.messages` or more behind the recovery point is acknowledged after a flush. Where the log may wait for its
disk (`flush_inline`), that is done inside the append. Where it may not, the append returns at once and says that its answer
`waits`; the caller has a flush run and answers then, and all appends which came before that flush began share it: group
commit. Consumers wait, too, as with Kafka, whose high watermark moves when the append, with its flush, is over: the high
watermark stays back until `finish`.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from ottla.log.disk.checkpoint import LEADER_EPOCHS
from ottla.log.disk.files import File

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog


class Unsynced:
    """What of a partition was written and not synced, beside the segments from the recovery point on. False if nothing is.

    `paths`: small files; `directories`: where names changed; `epochs`: the leader epochs, which are not even written: their
    file has no checksum, so it must never be there half, and recovery finds them in the batches. `in_flight`: the job that is
    syncing what it took; its names count as unsynced until it is finished. `held`: ends of the appends whose answers wait,
    ascending.
    """

    __slots__ = ("directories", "epochs", "held", "in_flight", "lock", "paths")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.directories: list[str] = []
        self.epochs = False
        self.in_flight: FlushJob | None = None
        self.held: deque[int] = deque()
        self.lock = Lock()
        """Held by the job that runs."""

    def __bool__(self) -> bool:
        return bool(self.paths or self.directories or self.in_flight is not None)

    def names_in(self, directory: str) -> None:
        """Files were made, renamed or removed there."""
        if directory not in self.directories:
            self.directories.append(directory)

    def add_indexes(self, paths: list[str], log: PartitionLog) -> None:
        """Of a segment that is rolled. They wait for the flush that moves the recovery point past it; where that is done already,
        recovery would begin behind them and believe what a power cut left, so they are synced now. OSError.
        """
        if log.recovery_point < log.log_end_offset:
            self.paths += paths
            return
        for path in paths:
            log.directory.disk.open(path).sync()
        log.directory.disk.sync_dir(log.path)

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

    def cut(self, offset: int) -> None:
        """The log ends at `offset` now."""
        while self.held and self.held[-1] > offset:
            self.held.pop()


class FlushJob:
    """An fsync to be done. `run` may be called in any thread; the rest belongs to the log's own.

    After it comes `finish`, or, where it failed, `give_up`. A job that begins while another is under way takes over what that one
    took, too: should the first fail for want of descriptors, the second may not move the recovery point past its names.
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
        earlier = log.unsynced.in_flight
        if earlier is not None:
            self._paths = [*earlier._paths, *self._paths]
            self._directories = [*earlier._directories, *self._directories]
            self._epochs = epochs or earlier._epochs
        log.unsynced.in_flight = self

    def run(self) -> None:
        """Syncs. StorageError: the log directory is offline, or descriptors or room for a small file ran out."""
        log = self._log
        disk = log.directory.disk
        with log.unsynced.lock, log.directory.guard(f"flushing {log.path}"):
            began_ms = log.now_ms()
            for file in self._files:
                file.sync()
            for path in self._paths:
                with suppress(FileNotFoundError):  # retention or deletion took it meanwhile
                    disk.open(path).sync()
            if self._epochs is not None and not log.closed:  # or it would be the file of another partition of the name
                with suppress(FileNotFoundError):  # the whole partition is gone
                    disk.write_bytes(f"{log.path}/{LEADER_EPOCHS}", self._epochs)
            for path in self._directories:
                with suppress(FileNotFoundError):
                    disk.sync_dir(path)
            self.took_ms = max(0, log.now_ms() - began_ms)  # the wall clock may be set back

    def run_and_finish(self) -> None:
        """All of it, here and now. StorageError."""
        try:
            self.run()
        except BaseException:
            self.give_up()
            raise
        self.finish()

    def finish(self) -> None:
        """After `run`: moves the recovery point."""
        self._leave()
        self._log.finish_flush(self)

    def give_up(self) -> None:
        """What was to be synced waits for the next job: before that the recovery point may not pass a segment's name."""
        self._leave()
        self._log.unsynced.give_back(self._paths, self._directories, self._epochs is not None)

    def _leave(self) -> None:
        if self._log.unsynced.in_flight is self:
            self._log.unsynced.in_flight = None


# Acknowledgement after a flush


def flush_or_hold(log: PartitionLog, end_offset: int) -> bool:
    """An append that ended at `end_offset` made a flush due: it is done here, or, if True, the answer waits for one.
    StorageError.
    """
    if log.flush_inline:
        log.flush()
        return False
    log.unsynced.held.append(end_offset)
    return True


def answer_waits(log: PartitionLog, end_offset: int) -> bool:
    """Whether an append that ended at `end_offset` may not be acknowledged yet."""
    return end_offset - log.recovery_point >= log.flush_messages and not log.flush_inline


def release(log: PartitionLog) -> None:
    """After the recovery point moved: readers see those appends that may be acknowledged now."""
    held = log.unsynced.held
    while held and held[0] - log.recovery_point < log.flush_messages:
        end_offset = held.popleft()
        if log.sole_replica and end_offset > log.high_watermark:
            log.high_watermark = end_offset
