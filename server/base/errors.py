"""Maps exceptions to Kafka's error codes, in one table.

`log` raises exceptions of its own and knows no codes; here each class gets the code that Kafka's broker answers. An exception
that is not in the table is a bug of ours, and no answer to it would be honest: `code_of` raises it again, so that dispatch logs
it with its traceback and closes the connection.

No answer ever has the code UNKNOWN_SERVER_ERROR (-1), with which Kafka answers what it did not expect: a client can neither tell
what is wrong nor whether to try again.
"""

from __future__ import annotations

from ottla.log import errors as log
from ottla.wire.errors import ErrorCode


class CloseConnection(Exception):
    """The request is answered by closing its connection, as Kafka does; the text goes to the log."""


class NotLeaderOrFollower(Exception):
    """This broker's leadership of a partition ended before an append was acknowledged: the next leader may not have it."""


class NotEnoughReplicas(Exception):
    """A batch was not appended, because fewer replicas are in sync than min.insync.replicas."""


class NotEnoughReplicasAfterAppend(Exception):
    """A batch was appended for acks=all, and by the time that all in-sync replicas had it, too few were in sync."""


class RequestTimedOut(Exception):
    """The event that a request waits for did not happen within the time that it gave."""


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
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
    NotLeaderOrFollower: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    NotEnoughReplicasAfterAppend: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    RequestTimedOut: ErrorCode.REQUEST_TIMED_OUT,
}


def code_of(error: Exception) -> ErrorCode:
    """Returns the code for an exception of the table, or of one of its subclasses. Raises any other exception again."""
    for kind in type(error).__mro__:
        code = CODES.get(kind)
        if code is not None:
            return code
    raise error


def known_code(code: int, otherwise: ErrorCode) -> ErrorCode:
    """Returns the code that another node has answered. Where that says nothing, because it is -1 or one that only newer nodes
    have, returns `otherwise`.
    """
    known = ErrorCode._value2member_map_.get(code)
    return known if isinstance(known, ErrorCode) and known >= 0 else otherwise


def append_error(error: Exception) -> ErrorCode:
    """Returns the code that clients of a coordinator get when it could not write its records: mostly one that makes them find the
    coordinator again and retry. What is too large for the internal topic stays so, and is answered as what it is; Kafka answers
    UNKNOWN_SERVER_ERROR."""
    if isinstance(error, log.RecordTooLarge | log.RecordListTooLarge):
        return code_of(error)
    if isinstance(error, log.StorageError | NotLeaderOrFollower | OSError):
        return ErrorCode.NOT_COORDINATOR
    if isinstance(error, log.InvalidProducerEpoch):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
