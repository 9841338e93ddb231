"""Maps exceptions to Kafka's error codes, in one table.

`log` raises exceptions of its own and knows no codes; here each class gets the code that Kafka's broker answers. An exception
that is not in the table is a bug of ours and must not be answered as if the client were to blame: `code_of` answers
UNKNOWN_SERVER_ERROR for it and logs the traceback.
"""

from __future__ import annotations

import logging

from ottla.log import errors as log
from ottla.wire.errors import ErrorCode

logger = logging.getLogger("ottla.server.errors")


class CloseConnection(Exception):
    """The request is answered by closing its connection, as Kafka does; the text goes to the log."""


class NotLeaderOrFollower(Exception):
    """This broker's leadership of a partition ended before an append was acknowledged: the next leader may not have it."""


CODES: dict[type[Exception], ErrorCode] = {
    log.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    log.CorruptRecord: ErrorCode.CORRUPT_MESSAGE,
    log.InvalidRecord: ErrorCode.INVALID_RECORD,
    log.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    log.RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    log.RecordListTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    log.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    log.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    log.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    log.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    log.TransactionCoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    log.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    log.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    log.PolicyViolation: ErrorCode.POLICY_VIOLATION,
    log.StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    NotLeaderOrFollower: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def code_of(error: Exception) -> ErrorCode:
    """Returns the code for an exception of the table, or of one of its subclasses."""
    for kind in type(error).__mro__:
        code = CODES.get(kind)
        if code is not None:
            return code
    logger.error("unexpected error, answered as UNKNOWN_SERVER_ERROR", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def append_error(error: Exception) -> ErrorCode:
    """Returns the code that clients of a coordinator get when it could not write its records: mostly one that makes them find the
    coordinator again and retry."""
    if isinstance(error, log.RecordTooLarge | log.RecordListTooLarge):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if isinstance(error, log.StorageError | NotLeaderOrFollower | OSError):
        return ErrorCode.NOT_COORDINATOR
    if isinstance(error, log.InvalidProducerEpoch):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
