"""What can go wrong in a partition's log, one small class a case.

Each class says who is at fault and what state the log is left in; `server/errors.py` maps classes to Kafka's error codes in
one table, so nothing here knows a code. Everything derives from `LogError`. Unless a class says otherwise the log is
unchanged: a refused append has written nothing.

Validation of produced batches follows Kafka's LogValidator, sequence checks follow KIP-98, record-level details KIP-467.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class LogError(Exception):
    """Base of all errors that the log layer raises on purpose."""


class RecordError(NamedTuple):
    """One refused record of a batch (KIP-467): its index in the batch from 0, and why, or None."""

    batch_index: int
    message: str | None = None


class RecordValidationError(LogError):
    """Base of errors that can name the records at fault in `record_errors` (may be empty)."""

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors: tuple[RecordError, ...] = tuple(record_errors)


# The batch itself is at fault.


class CorruptRecord(LogError):
    """CRC mismatch, impossible size or unknown magic."""


class InvalidRecord(RecordValidationError):
    """The bytes are intact and say something impossible: counts, offset deltas, attributes, a null key where one is needed."""


class InvalidTimestamp(RecordValidationError):
    """A create time outside `message.timestamp.before.max.ms` / `after.max.ms`."""


class RecordTooLarge(LogError):
    """A batch beyond `max.message.bytes`."""


class RecordListTooLarge(LogError):
    """A batch that no segment can hold: beyond `segment.bytes`."""


class UnsupportedCompression(LogError):
    """A codec that the request's version or the broker does not know."""


# The producer is at fault (KIP-98, KIP-360).


class OutOfOrderSequence(LogError):
    """A gap in the sequence numbers of an idempotent producer, or a duplicate too old to be remembered."""


class InvalidProducerEpoch(LogError):
    """A batch from a producer epoch that a later one has replaced."""


class DuplicateSequence(LogError):
    """A batch that was already appended, where the caller cannot be given its first offset."""


class InvalidTransactionState(LogError):
    """A transactional batch or marker that does not fit the transaction's state."""


class TransactionCoordinatorFenced(LogError):
    """A transaction marker of a coordinator epoch that a later one has replaced."""


# The reader, or another replica's view, is at fault.


class OffsetOutOfRange(LogError):
    """An offset below the log's start or beyond its end (or beyond the high watermark, for DeleteRecords)."""


class FencedLeaderEpoch(LogError):
    """The caller's leader epoch is older than ours."""


class UnknownLeaderEpoch(LogError):
    """The caller's leader epoch is newer than ours."""


class PolicyViolation(LogError):
    """The operation contradicts a topic setting: DeleteRecords on a topic that is only compacted."""


# The disk, or the operator, is at fault.


class StorageError(LogError):
    """The log directory failed or is offline. Reads and writes of its partitions fail until a restart; nothing is retried."""


class CorruptLog(StorageError):
    """Bytes that were fsynced do not hold what was written. The partition stays offline; nothing is cut."""


class LogDirLocked(StorageError):
    """Another process holds the directory's `.lock`."""


class InconsistentMetadata(StorageError):
    """`meta.properties` or `partition.metadata` contradicts what the caller expects: a foreign cluster, node, directory or topic id."""


class TruncatedSlice(StorageError):
    """A FileSlice's file was truncated before the slice was read; the answer being sent cannot be completed."""
