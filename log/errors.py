"""What can go wrong between a record batch and its partition, one small class a reason.

The log knows no error codes: `server/base/errors.py` maps each class to Kafka's code in one table. Texts are for people and
travel to clients as error messages where the API has room for one. Part of Kafka's "storage" exceptions
(`org.apache.kafka.common.errors`), without the hierarchy: nothing here is caught by a common parent but `LogError`.
"""

from __future__ import annotations

from collections.abc import Sequence


class LogError(Exception):
    """Base of everything that this layer raises on purpose."""


class OffsetOutOfRange(LogError):
    """An offset below the log's start or beyond its end. 1 OFFSET_OUT_OF_RANGE."""


class CorruptRecord(LogError):
    """A batch whose CRC, size or magic is wrong: damaged on the way or on disk; sending it again can help. 2 CORRUPT_MESSAGE."""


class NotABatch(CorruptRecord):
    """Bytes that do not even begin like a batch of any format. 2 CORRUPT_MESSAGE."""


class OffsetsOutOfOrder(CorruptRecord):
    """A batch for a follower whose offsets lie below the end of its log, or make no sense. 2 CORRUPT_MESSAGE."""


class _RecordErrors(LogError):
    """A refusal that may name single records: `record_errors` holds (index in the batch, text), empty if all are meant."""

    def __init__(self, message: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.record_errors = list(record_errors)


class InvalidRecord(_RecordErrors):
    """A batch that is intact but not well-formed or not allowed; sending it again never helps. 87 INVALID_RECORD."""


class NotOneBatch(InvalidRecord):
    """Bytes that are not one whole batch of the one format we take: refused before the log looks into it. 87 INVALID_RECORD."""


class InvalidTimestamp(_RecordErrors):
    """Records whose timestamps the topic refuses. 32 INVALID_TIMESTAMP."""


class RecordTooLarge(LogError):
    """A batch above `max.message.bytes`. 10 MESSAGE_TOO_LARGE."""


class RecordListTooLarge(LogError):
    """A batch above `segment.bytes`: it fits into no segment. 18 RECORD_LIST_TOO_LARGE."""


class UnsupportedCompression(LogError):
    """A codec that the version of the request does not know. 76 UNSUPPORTED_COMPRESSION_TYPE."""


class OutOfOrderSequence(LogError):
    """An idempotent producer's batch that does not follow its last one. 45 OUT_OF_ORDER_SEQUENCE_NUMBER."""


class InvalidProducerEpoch(LogError):
    """A batch of a producer that a newer epoch replaced. 47 INVALID_PRODUCER_EPOCH."""


class InvalidTransactionState(LogError):
    """A transactional and a plain batch of one producer mixed up. 48 INVALID_TXN_STATE."""


class TransactionCoordinatorFenced(LogError):
    """A transaction marker from a coordinator that a newer one replaced. 52 TRANSACTION_COORDINATOR_FENCED."""


class FencedLeaderEpoch(LogError):
    """The caller's leader epoch is older than the partition's. 74 FENCED_LEADER_EPOCH."""


class UnknownLeaderEpoch(LogError):
    """The caller's leader epoch is newer than the partition's. 75 UNKNOWN_LEADER_EPOCH."""


class PolicyViolation(LogError):
    """The topic's settings forbid it, such as deleting records of a compacted topic. 44 POLICY_VIOLATION."""


class StorageError(LogError):
    """The disk failed; the log directory is offline. 56 KAFKA_STORAGE_ERROR."""


class CorruptSnapshot(LogError):
    """A producer snapshot or checkpoint file that cannot be read; the caller rebuilds it from the log. Never sent."""


class CorruptLog(StorageError):
    """Bytes that were fsynced do not hold what was written. The partition stays offline; nothing is cut. 56
    KAFKA_STORAGE_ERROR.
    """


class LogDirLocked(StorageError):
    """Another process holds the log directory's `.lock`. Never sent: the broker does not start."""


class InconsistentMetadata(StorageError):
    """`meta.properties` or `partition.metadata` names another cluster, node, directory or topic than the caller expects."""


class TruncatedSlice(StorageError):
    """The file behind a FileSlice was cut before the slice was read: an answer whose size is already sent cannot be completed."""


class OpeningStopped(StorageError):
    """A start was told to end before all partitions were open. Never sent; the next start recovers."""
