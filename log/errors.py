"""The errors that can happen between a record batch and its partition, one small class for each reason.

The log knows no error codes: `server/base/errors.py` maps each class to Kafka's code in one table. The texts are for people and
travel to clients as error messages where the API has room for one. They correspond to some of Kafka's exceptions
(`org.apache.kafka.common.errors`), without the hierarchy: the only common parent that is ever caught is `LogError`.

Those that the disk can cause are defined in log/disk/errors.py, since nothing in log/disk/ imports what lies above it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.log.disk.errors import (
    CorruptSnapshot,
    InconsistentMetadata,
    LogDirLocked,
    LogError,
    NoRoom,
    StorageError,
    TruncatedSlice,
)

__all__ = [
    "CorruptLog",
    "CorruptRecord",
    "CorruptSnapshot",
    "FencedLeaderEpoch",
    "InconsistentMetadata",
    "InvalidProducerEpoch",
    "InvalidRecord",
    "InvalidTimestamp",
    "InvalidTransactionState",
    "LogDirLocked",
    "LogError",
    "NoRoom",
    "NotABatch",
    "NotOneBatch",
    "NotValidated",
    "OffsetOutOfRange",
    "OffsetsOutOfOrder",
    "OpeningStopped",
    "OutOfOrderSequence",
    "PolicyViolation",
    "RecordListTooLarge",
    "RecordTooLarge",
    "StorageError",
    "TransactionCoordinatorFenced",
    "TruncatedSlice",
    "UnknownLeaderEpoch",
    "UnsupportedCompression",
]


class OffsetOutOfRange(LogError):
    """An offset is below the log's start or beyond its end. 1 OFFSET_OUT_OF_RANGE."""


class CorruptRecord(LogError):
    """A batch has a wrong CRC, size or magic: it was damaged on the way or on disk, and sending it again can help. 2
    CORRUPT_MESSAGE."""


class NotABatch(CorruptRecord):
    """The bytes do not even begin like a batch of any format. 2 CORRUPT_MESSAGE."""


class OffsetsOutOfOrder(CorruptRecord):
    """A batch that a follower was to append has offsets below the end of its log, or impossible ones. 2 CORRUPT_MESSAGE."""


class _RecordErrors(LogError):
    """A refusal that may name single records: `record_errors` holds (index in the batch, text) of each, and is empty if the whole
    batch is refused."""

    def __init__(self, message: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.record_errors = list(record_errors)


class InvalidRecord(_RecordErrors):
    """A batch is intact but not well-formed or not allowed; sending it again never helps. 87 INVALID_RECORD."""


class NotOneBatch(InvalidRecord):
    """The bytes are not exactly one whole batch of the accepted format; they are refused without a look inside. 87
    INVALID_RECORD."""


class NotValidated(LogError):
    """A batch is so large, once unfolded, that checking it would keep the caller longer than it said it has time for. Nothing is
    wrong with it so far; the caller has it validated in a thread. It is never answered."""


class InvalidTimestamp(_RecordErrors):
    """Records have timestamps that the topic does not accept. 32 INVALID_TIMESTAMP."""


class RecordTooLarge(LogError):
    """A batch is larger than `max.message.bytes`. 10 MESSAGE_TOO_LARGE."""


class RecordListTooLarge(LogError):
    """A batch is larger than `segment.bytes` and fits into no segment. 18 RECORD_LIST_TOO_LARGE."""


class UnsupportedCompression(LogError):
    """A batch has a codec that does not exist in the version of the request. 76 UNSUPPORTED_COMPRESSION_TYPE."""


class OutOfOrderSequence(LogError):
    """A batch of an idempotent producer does not follow its last one. 45 OUT_OF_ORDER_SEQUENCE_NUMBER."""


class InvalidProducerEpoch(LogError):
    """A batch is from a producer epoch that a newer one has replaced. 47 INVALID_PRODUCER_EPOCH."""


class InvalidTransactionState(LogError):
    """A producer sent a plain batch inside its transaction. 48 INVALID_TXN_STATE."""


class TransactionCoordinatorFenced(LogError):
    """A transaction marker is from a coordinator epoch that a newer one has replaced. 52 TRANSACTION_COORDINATOR_FENCED."""


class FencedLeaderEpoch(LogError):
    """The caller's leader epoch is older than the partition's. 74 FENCED_LEADER_EPOCH."""


class UnknownLeaderEpoch(LogError):
    """The caller's leader epoch is newer than the partition's. 75 UNKNOWN_LEADER_EPOCH."""


class PolicyViolation(LogError):
    """The topic's settings forbid the operation, such as deleting records of a compacted topic. 44 POLICY_VIOLATION."""


class CorruptLog(StorageError):
    """Bytes that were fsynced do not hold what was written. The partition stays offline, and nothing is cut. 56
    KAFKA_STORAGE_ERROR."""


class OpeningStopped(StorageError):
    """The start was stopped before all partitions were open; the next start recovers. No client ever sees this."""
