"""One log directory (an entry of `log.dirs`) and what its partitions share, which is above all that they fail together.

A failed write or fsync means that nobody knows what the disk holds. After one, Linux may report the next fsync as a success
although pages were dropped. So the first failure takes the whole directory offline, for good: every partition in it answers
StorageError until the broker starts again and recovery has looked at the files. Nothing is retried, and no clean-shutdown marker
is written.

Two failures say nothing about the disk: descriptors ran out (EMFILE), or there is no room (ENOSPC, a quota, a limit on file
sizes). Then what was being written is undone and the request is answered with StorageError, too, but the directory stays online:
what is in it is served, and writing goes on as soon as it can; partitions that could not be made or opened are tried again
(server/partitions/backlog.py, and reopening.py beside it). Here ottla differs from Kafka, which takes the directory offline and,
if it is the only one, stops. If it is an fsync that fails so, or the undoing fails (`StateUnknown`), the failure is final here,
too.

This module also has the checkpoint files, which hold one line a partition, and the list of files to remove after
`file.delete.delay.ms`.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Final, Protocol

from ottla.log.disk import checkpoint
from ottla.log.disk.errors import NoRoom, StorageError
from ottla.log.disk.files import Disk, OpenFiles, StateUnknown, removals

_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_log = logging.getLogger("ottla.log.directory")


class Checkpointed(Protocol):
    """A partition as its directory sees it: the offsets that go into the checkpoints."""

    @property
    def recovery_point(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def first_base_offset(self) -> int: ...
    @property
    def checkpointed_high_watermark(self) -> int: ...


CHECKPOINTS: Final[Mapping[str, Callable[[Checkpointed], int | None]]] = {
    checkpoint.RECOVERY_POINTS: lambda log: log.recovery_point,
    checkpoint.LOG_START_OFFSETS: lambda log: log.log_start_offset if log.log_start_offset > log.first_base_offset else None,
    checkpoint.HIGH_WATERMARKS: lambda log: log.checkpointed_high_watermark,
}
"""The offset that each checkpoint has of a partition; None if it has no line for it, as for a log start that follows from the
names of segments."""

Entry = tuple[checkpoint.TopicPartition, int]
SavingSteps = Iterator[Callable[[], None] | None]


class LogDirectory:
    """A log directory at `path`. `failed` is why it is offline, None while it is online."""

    __slots__ = (
        "_doomed",
        "_saved",
        "_savings",
        "_writing",
        "cleaned",
        "damage_lock",
        "damaged_bytes",
        "disk",
        "failed",
        "flushed_ms",
        "flushes",
        "full",
        "mentioned",
        "on_failure",
        "open_files",
        "partitions",
        "path",
        "renamed",
        "starts_written",
        "unopened",
    )

    def __init__(self, disk: Disk, path: str, open_files: OpenFiles) -> None:
        self.disk = disk
        self.path = path
        self.open_files = open_files
        self.failed: str | None = None
        self.full = False
        """True if a write found no room and no checkpoint has been written since."""
        self.on_failure: Callable[[LogDirectory], None] | None = None
        self.flushes = 0
        """The number of flushes of its partitions that were done; `flushed_ms` is the time that they took together."""
        self.flushed_ms = 0
        self.partitions: dict[checkpoint.TopicPartition, Checkpointed] = {}
        self.unopened: dict[checkpoint.TopicPartition, Checkpointed] = {}
        """Partitions that could not be opened, with their lines in the checkpoints, which are kept: without its recovery point a
        damaged log would be taken for one with a torn tail, and cut."""
        self.renamed = False
        """True if a directory in this one was renamed and `sync_renames` has to make that durable."""
        self.damaged_bytes: int | None = None
        """The size of all `.damaged` files here, None if it was not needed yet (log/opening/damaged.py); `damage_lock` is for the
        threads of a start, which change it."""
        self.damage_lock = Lock()
        self._doomed: list[tuple[int, str]] = []
        self._saved: dict[str, bytes] = {}
        """The content of each checkpoint file, if it was written and is not being written anew."""
        self._savings: dict[str, int] = {}
        """The number of times that each checkpoint file began to be saved."""
        self._writing = Lock()
        """The lock of those who write a checkpoint file, of which a pass has its jobs done in a thread."""
        self.starts_written: bytes | None = None
        """The content of the checkpoint of log starts, if ottla has written it."""
        self.mentioned: set[checkpoint.TopicPartition] = set()
        """Partitions that a checkpoint file may name, whether they exist or not."""
        self.cleaned: dict[checkpoint.TopicPartition, int] = {}
        """The offset up to which each compacted partition is clean. Nothing is clean of a partition that is not in it."""

    def fail(self, action: str, error: Exception) -> StorageError:
        """Takes the directory offline because `action` failed, unless only descriptors or room ran out; returns the error to
        raise.
        """
        if isinstance(error, OSError) and not isinstance(error, StateUnknown):
            if error.errno in _NO_DESCRIPTORS:
                return NoRoom(f"{action}: {error}")
            if error.errno in _NO_ROOM:
                if not self.full:
                    self.full = True
                    _log.error(
                        "log directory %s is full and takes no records until it has room: %s: %s", self.path, action, error
                    )
                return NoRoom(f"{self.path} has no room: {action}: {error}")
        message = f"{self.path} is offline: {action}: {error}"
        if self.failed is None:
            self.failed = message
            _log.error("log directory %s goes offline: %s: %s", self.path, action, error)
            if self.on_failure is not None:
                self.on_failure(self)
        return StorageError(message)

    def check(self) -> None:
        """Raises StorageError if the directory is offline."""
        if self.failed is not None:
            raise StorageError(self.failed)

    @contextmanager
    def guard(self, action: str, *, whole: bool = False) -> Iterator[None]:
        """Guards work on the disk: raises StorageError if the directory is offline, or if an OSError inside takes it offline.
        With `whole` every OSError does, also one about descriptors or room, for work that cannot be left half done.
        """
        self.check()
        try:
            yield
        except OSError as error:
            final = StateUnknown(error.errno, error.strerror) if whole else error
            raise self.fail(action, final) from error

    def sync_renames(self) -> None:
        """Makes the renames durable that were left to this call, all with one fsync. Raises StorageError."""
        if self.renamed:
            with self.guard("deleting partitions"):
                self.disk.sync_dir(self.path)
            self.renamed = False

    # Removing later

    def remove_later(self, path: str, due_ms: int) -> None:
        """Removes a file, or a directory with what is in it, with the first `removals` from `due_ms` on."""
        self._doomed.append((due_ms, path))

    def removals(self, now_ms: int) -> Generator[None, None, int]:
        """Removes, durably, what is due at `now_ms`, and pauses after each file; returns how many paths it was in the end. Raises
        StorageError."""
        due = dict.fromkeys(path for due_ms, path in self._doomed if due_ms <= now_ms)
        if not due:
            return 0
        with self.guard("removing deleted files"):
            for path in due:
                yield from self._remove(path)
            for parent in {path.rpartition("/")[0] for path in due}:
                if self.disk.is_dir(parent):  # the directory may have been due itself
                    self.disk.sync_dir(parent)
            self._doomed = [(due_ms, path) for due_ms, path in self._doomed if path not in due]
        return len(due)

    def _remove(self, path: str) -> Iterator[None]:
        if self.disk.is_dir(path):
            yield from removals(self.disk, path)
        elif self.disk.exists(path):  # a partition's directory may have gone with all that was in it
            self.disk.remove(path)
            yield

    # Checkpoints

    def _checkpointed(self) -> dict[checkpoint.TopicPartition, Checkpointed]:
        return self.unopened | self.partitions if self.unopened else self.partitions

    def save_recovery_points(self) -> None:
        """Writes the recovery points, which are durable when this returns. Raises StorageError."""
        do_at_once(self.save_in_steps([checkpoint.RECOVERY_POINTS]))

    def save_all(self) -> None:
        """Writes all three checkpoints. Raises StorageError."""
        do_at_once(self.save_in_steps(CHECKPOINTS))

    def save_in_steps(self, names: Iterable[str]) -> SavingSteps:
        """Writes some of the CHECKPOINTS: yields None where it may pause, and a job that is to be done before the next step, in
        any thread. One that is saved anew meanwhile is not written, because what this has collected is older. Raises
        StorageError.
        """
        for name in names:
            yield from self._save(name, self._offsets(CHECKPOINTS[name]))

    def _offsets(self, offset_of: Callable[[Checkpointed], int | None]) -> Iterator[Entry | None]:
        """Yields the offset of each partition as it is when its turn comes, and None for one without a line."""
        for name in list(self._checkpointed()):
            log = self.partitions.get(name, self.unopened.get(name))
            offset = None if log is None else offset_of(log)
            yield None if offset is None else (name, offset)

    def save_cleaned(self) -> None:
        """Writes up to which offset each partition that still exists is clean. Raises StorageError."""
        there = self._checkpointed()
        entries = [entry for entry in self.cleaned.items() if entry[0] in there]
        do_at_once(self._save(checkpoint.CLEANER_OFFSETS, entries))

    def set_cleaned(self, partition: checkpoint.TopicPartition, offset: int) -> None:
        """Notes, durably, that the partition is clean up to `offset`. Raises StorageError."""
        self.cleaned[partition] = offset
        self.save_cleaned()

    def lower_cleaned(self, partition: checkpoint.TopicPartition, offset: int) -> None:
        """Notes that the partition was cut to `offset`, because what is written from there on is not clean. Raises
        StorageError."""
        if self.cleaned.get(partition, -1) > offset:
            self.set_cleaned(partition, offset)

    def forget_cleaned(self, partition: checkpoint.TopicPartition) -> None:
        """Removes a deleted partition from the cleaner's checkpoint, so that a new one of its name begins dirty. Raises
        StorageError."""
        if self.cleaned.pop(partition, None) is not None:
            self.save_cleaned()

    def had(self, partition: checkpoint.TopicPartition) -> bool:
        """Returns whether a checkpoint names the partition although it has no files."""
        return partition in self.mentioned and partition not in self.partitions

    def forget(self, partition: checkpoint.TopicPartition) -> None:
        """Removes, durably, what the checkpoints say of an earlier partition of this name, before a new one is made. Otherwise,
        after a crash, the old start and recovery point would be taken for the new partition's. Raises StorageError.
        """
        if partition in self.mentioned:
            assert partition not in self.partitions
            self.save_all()
            self.mentioned = set(self.partitions)
        self.forget_cleaned(partition)

    def _save(self, name: str, entries: Iterable[Entry | None]) -> SavingSteps:
        """Writes a checkpoint as `save_in_steps` does."""
        number = self._savings[name] = self._savings.get(name, 0) + 1
        lines: list[str] = []
        for entry in entries:
            if entry is not None:
                self.mentioned.add(entry[0])  # before it is written, so that `forget` saves anew
                lines.append(checkpoint.offset_line(*entry))
            yield None
            if self._savings[name] != number:
                return
        data = checkpoint.encode_lines(lines)
        self.check()
        # If nothing moved, spare the fsyncs; but this is how a full directory finds out that it has room again.
        if self.full or self._saved.get(name) != data:
            self._saved.pop(name, None)  # until it is written, nobody knows what the file has
            failures: list[StorageError] = []
            yield partial(self._write, name, data, number, failures)
            if failures:
                raise failures[0]

    def _write(self, name: str, data: bytes, number: int, failures: list[StorageError]) -> None:
        """Writes a checkpoint's file, unless a newer saving of it, one with a higher number, has begun."""
        try:
            with self._writing, self.guard(f"writing {name}"):
                if self._savings[name] != number:
                    return
                if name == checkpoint.LOG_START_OFFSETS:
                    sums = checkpoint.encode_checksums(each for each in (self.starts_written, data) if each is not None)
                    self.disk.write_bytes(f"{self.path}/{name}{checkpoint.CHECKSUM_SUFFIX}", sums)
                self.disk.write_bytes(f"{self.path}/{name}", data)
                self._saved[name] = data
                if name == checkpoint.LOG_START_OFFSETS:
                    self.starts_written = data
                if self.full:
                    self.full = False
                    _log.info("log directory %s has room again", self.path)
        except StorageError as error:
            failures.append(error)


def do_at_once(steps: SavingSteps) -> None:
    """Takes all steps at once, and does their jobs on the calling thread."""
    for job in steps:
        if job is not None:
            job()
