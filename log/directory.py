"""One log directory (an entry of `log.dirs`): what its partitions share, which is above all that they fail together.

A failed write or fsync means that nobody knows what the disk holds. After one, Linux may report the next fsync as a success
although pages were dropped. So the first failure takes the whole directory offline, for good: every partition in it answers
StorageError until the broker starts again and recovery has looked at the files. Nothing is retried, and no clean-shutdown
marker is written.

Here also lie the checkpoint files, which hold one line a partition, and the list of files to remove after `file.delete.delay.ms`.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ottla.log import checkpoint
from ottla.log.errors import StorageError
from ottla.log.files import Disk, OpenFiles, remove_tree

_OURS = (errno.EMFILE, errno.ENFILE)

_log = logging.getLogger("ottla.log.directory")


class Checkpointed(Protocol):
    """What a directory asks of its partitions."""

    @property
    def recovery_point(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def first_base_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...


class LogDirectory:
    """`path` is the directory; `failed` is why it is offline, None while it is not."""

    __slots__ = ("_doomed", "_saved", "disk", "failed", "flushed_ms", "flushes", "on_failure", "open_files", "partitions", "path")

    def __init__(self, disk: Disk, path: str, open_files: OpenFiles) -> None:
        self.disk = disk
        self.path = path
        self.open_files = open_files
        self.failed: str | None = None
        self.on_failure: Callable[[LogDirectory], None] | None = None
        self.flushes = 0
        """Flushes of its partitions that are done, and in `flushed_ms` how long they took together."""
        self.flushed_ms = 0
        self.partitions: dict[checkpoint.TopicPartition, Checkpointed] = {}
        self._doomed: list[tuple[int, str]] = []
        self._saved: dict[str, bytes] = {}

    def fail(self, action: str, error: Exception) -> StorageError:
        """Takes the directory offline because `action` failed; returns the error to raise.

        Running out of descriptors says nothing about the disk: that error is only passed on.
        """
        if isinstance(error, OSError) and error.errno in _OURS:
            return StorageError(f"{action}: {error}")
        message = f"{self.path} is offline: {action}: {error}"
        if self.failed is None:
            self.failed = message
            _log.error("log directory %s goes offline: %s: %s", self.path, action, error)
            if self.on_failure is not None:
                self.on_failure(self)
        return StorageError(message)

    def check(self) -> None:
        """StorageError if the directory is offline."""
        if self.failed is not None:
            raise StorageError(self.failed)

    @contextmanager
    def guard(self, action: str) -> Iterator[None]:
        """Around work on the disk: StorageError if the directory is offline, or goes offline by an OSError inside."""
        self.check()
        try:
            yield
        except OSError as error:
            raise self.fail(action, error) from error

    # Removing later

    def remove_later(self, path: str, due_ms: int) -> None:
        """Removes a file, or a directory with what is in it, in the first `remove_due` from `due_ms` on."""
        self._doomed.append((due_ms, path))

    def remove_due(self, now_ms: int) -> int:
        """Removes what is due; returns how many. StorageError."""
        due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
        if not due:
            return 0
        with self.guard("removing deleted files"):
            self._doomed = [(due_ms, path) for due_ms, path in self._doomed if due_ms > now_ms]
            for path in due:
                self._remove(path)
        return len(due)

    def _remove(self, path: str) -> None:
        if self.disk.is_dir(path):
            remove_tree(self.disk, path)
        elif self.disk.exists(path):  # a partition's directory may have gone with all that was in it
            self.disk.remove(path)

    # Checkpoints

    def save_recovery_points(self) -> None:
        """Durable when it returns. StorageError."""
        self._save(checkpoint.RECOVERY_POINTS, {name: log.recovery_point for name, log in self.partitions.items()})

    def save_log_start_offsets(self) -> None:
        """Only those that no file name says. StorageError."""
        starts = {n: log.log_start_offset for n, log in self.partitions.items() if log.log_start_offset > log.first_base_offset}
        self._save(checkpoint.LOG_START_OFFSETS, starts)

    def save_high_watermarks(self) -> None:
        """StorageError."""
        self._save(checkpoint.HIGH_WATERMARKS, {name: log.high_watermark for name, log in self.partitions.items()})

    def save_all(self) -> None:
        """All three. StorageError."""
        self.save_recovery_points()
        self.save_log_start_offsets()
        self.save_high_watermarks()

    def _save(self, name: str, offsets: dict[checkpoint.TopicPartition, int]) -> None:
        data = checkpoint.encode_offsets(offsets)
        with self.guard(f"writing {name}"):
            if self._saved.get(name) != data:  # if nothing moved, spare the fsyncs
                self.disk.write_bytes(f"{self.path}/{name}", data)
        self._saved[name] = data
