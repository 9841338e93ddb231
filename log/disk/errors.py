"""Errors of a disk: it fails, a directory is not ours to use, or one of its small files is not readable.

Everything above log/disk/ imports them from log/errors.py, together with the errors of record batches, and log/errors.py says how
they become Kafka's error codes.
"""

from __future__ import annotations


class LogError(Exception):
    """The base of everything that this layer raises on purpose."""


class StorageError(LogError):
    """The disk failed and the log directory is offline, or has no room; or the log is closed. 56 KAFKA_STORAGE_ERROR."""


class NoRoom(StorageError):
    """Descriptors or room ran out. The log directory stays online, and the same may succeed later."""


class CorruptSnapshot(LogError):
    """A producer snapshot or a checkpoint file cannot be read; the caller rebuilds it from the log. No client ever sees this."""


class LogDirLocked(StorageError):
    """Another process holds the log directory's `.lock`, so the broker does not start. No client ever sees this."""


class InconsistentMetadata(StorageError):
    """`meta.properties` or `partition.metadata` names another cluster, node, directory or topic than the caller expects."""


class TruncatedSlice(StorageError):
    """The file behind a FileSlice was cut before the slice was read, so an answer whose size was already sent cannot be
    completed."""
