"""The life of a transactional id: an immutable `Transaction`, the table of its states, and a function for each operation.

    EMPTY -> ONGOING -> PREPARE_COMMIT -> COMPLETE_COMMIT -> ONGOING ...
                     -> PREPARE_ABORT  -> COMPLETE_ABORT

Everything here is pure: an operation takes a Transaction and returns the next one, or raises TransactionError. The coordinator
writes the next one to `__transaction_state`, and only then does it count (server/txn/shard.py).

There are two protocols side by side. With transaction.version 0 and 1 a producer keeps its epoch from one transaction to the
next. With version 2 (KIP-890) every end of a transaction raises the epoch, which the answer to EndTxn carries, so that a late
batch of one transaction can never slip into the next. A transaction may then be aborted even before it has begun, and when the
epochs of a producer id are used up, the same answer carries a new id. `client_version` is the version that ended the transaction;
it is kept in the log.

An epoch is an int16. The last one, 32767, is never given to a client: it exists to fence the one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ottla.server.txn.errors import TransactionError
from ottla.wire.errors import ErrorCode

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
LAST_EPOCH: Final = 32767
EXHAUSTED_EPOCH: Final = LAST_EPOCH - 1
"""The last epoch that a client is given."""
EPOCH_BUMP_SINCE: Final = 2
"""The transaction.version from which on every end raises the epoch."""

TopicPartition = tuple[str, int]


class State(IntEnum):
    """The states, with their numbers in the records of `__transaction_state`; `text` is the name that clients get."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


_IDLE: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
_ENDING: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})

TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
    State.COMPLETE_ABORT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
    State.DEAD: frozenset(),
    State.PREPARE_EPOCH_FENCE: frozenset(),
}
"""DEAD and PREPARE_EPOCH_FENCE occur only inside Kafka's coordinator and never in its log; this coordinator does not use them."""


class Transaction(NamedTuple):
    """The state of a transactional id. Times are in ms since the epoch; `started_ms` is -1 if no transaction has begun.

    `producer_epoch` is -1 until a producer has been given an epoch. `last_producer_epoch` is the one before it, for a client that
    repeats a request whose answer it did not get; it is not in the log, so, as in Kafka, a restart forgets it. `next_producer_id`
    becomes the producer id when the transaction's end is complete.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    updated_ms: int
    state: State = State.EMPTY
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Returns whether the producer id has no epoch left for a client."""
        return self.producer_epoch >= EXHAUSTED_EPOCH

    @property
    def is_ending(self) -> bool:
        """Returns whether the end is decided and the markers are being written."""
        return self.state in _ENDING

    @property
    def is_idle(self) -> bool:
        """Returns whether no transaction is under way."""
        return self.state in _IDLE

    def is_overdue(self, now_ms: int) -> bool:
        """Returns whether the transaction has been open for longer than its timeout."""
        return self.state is State.ONGOING and self.started_ms + self.timeout_ms < now_ms


def _move(transaction: Transaction, state: State, **changes: Any) -> Transaction:
    """Returns the transaction in its next state."""
    assert state in TRANSITIONS[transaction.state], (transaction, state)
    return transaction._replace(state=state, previous_producer_id=transaction.producer_id, **changes)


# InitProducerId


class Expected(NamedTuple):
    """The producer id and epoch that a client says it has (InitProducerId version 3, KIP-360)."""

    producer_id: int
    producer_epoch: int


def check_init(transaction: Transaction, expected: Expected | None) -> None:
    """Checks that this client may begin anew. Raises TransactionError CONCURRENT_TRANSACTIONS or PRODUCER_FENCED."""
    if expected is not None and transaction.producer_epoch != NO_EPOCH and expected.producer_id != transaction.producer_id:
        # The answer to its last request may have carried a new id and never reached it.
        rotated = expected.producer_id == transaction.previous_producer_id and expected.producer_epoch >= EXHAUSTED_EPOCH
        if not rotated:
            raise TransactionError(ErrorCode.PRODUCER_FENCED)
    if transaction.is_ending:
        raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)


def init_needs_id(transaction: Transaction, expected: Expected | None) -> bool:
    """Returns whether `begin_anew` takes a new producer id."""
    return transaction.is_exhausted and (expected is None or expected.producer_epoch == transaction.producer_epoch)


def begin_anew(
    transaction: Transaction, timeout_ms: int, expected: Expected | None, now_ms: int, new_producer_id: int
) -> Transaction:
    """Gives a producer that starts the next epoch, which fences all producers before it. Raises TransactionError PRODUCER_FENCED.

    `new_producer_id` is used if `init_needs_id` is true. The transaction must be idle: the caller aborts an open one first.
    """
    assert transaction.is_idle, transaction
    clean = {"timeout_ms": timeout_ms, "updated_ms": now_ms, "partitions": frozenset(), "started_ms": NO_TIME}
    epoch = transaction.producer_epoch
    if init_needs_id(transaction, expected):
        last = NO_EPOCH if expected is None else epoch
        return _move(transaction, State.EMPTY, producer_id=new_producer_id, producer_epoch=0, last_producer_epoch=last, **clean)
    if expected is None:
        epoch, last = epoch + 1, NO_EPOCH
    elif epoch in (NO_EPOCH, expected.producer_epoch):
        epoch, last = epoch + 1, epoch
    elif expected.producer_epoch == transaction.last_producer_epoch:
        last = transaction.last_producer_epoch  # it repeats its request, and gets the same answer
    else:
        raise TransactionError(ErrorCode.PRODUCER_FENCED)
    if epoch > EXHAUSTED_EPOCH:
        raise TransactionError(ErrorCode.PRODUCER_FENCED)  # the last epoch is there to fence this client
    return _move(transaction, State.EMPTY, producer_epoch=epoch, last_producer_epoch=last, **clean)


# Partitions


def check_owner(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
    """Checks that a producer may add partitions to its transaction. Raises TransactionError: INVALID_PRODUCER_ID_MAPPING,
    PRODUCER_FENCED, or CONCURRENT_TRANSACTIONS while the last transaction is being ended.
    """
    if transaction.producer_id != producer_id:
        raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer_epoch:
        raise TransactionError(ErrorCode.PRODUCER_FENCED)
    if transaction.is_ending:
        raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)


def add_partitions(
    transaction: Transaction, partitions: Iterable[TopicPartition], now_ms: int, client_version: int
) -> Transaction:
    """Returns the transaction with these partitions added, or the same object if that changes nothing. The first partitions begin
    the transaction.
    """
    added = transaction.partitions | frozenset(partitions)
    if transaction.state is State.ONGOING and added == transaction.partitions:
        return transaction
    started_ms = now_ms if transaction.is_idle else transaction.started_ms
    return _move(
        transaction,
        State.ONGOING,
        partitions=added,
        started_ms=started_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


# The end


class Answered(NamedTuple):
    """The answer to an EndTxn that the client repeats: the transaction has already ended that way, and nothing is written."""

    producer_id: int
    producer_epoch: int


def check_end(transaction: Transaction, producer_id: int, producer_epoch: int, *, commit: bool, version: int) -> Answered | None:
    """Checks that the client may end the transaction in this way. Returns None, or the answer if it has already ended that way.
    `version` is 0 or 2 (see the module's docstring).

    Raises TransactionError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or INVALID_TXN_STATE.
    """
    if version >= EPOCH_BUMP_SINCE:
        return _check_end_with_bump(transaction, producer_id, producer_epoch, commit=commit)
    if transaction.producer_id != producer_id:
        raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer_epoch:
        raise TransactionError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is State.ONGOING:
        return None
    if transaction.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
        return Answered(NO_PRODUCER_ID, NO_EPOCH)
    raise TransactionError(_wrong_end(transaction, commit=commit))


def _check_end_with_bump(transaction: Transaction, producer_id: int, producer_epoch: int, *, commit: bool) -> Answered | None:
    """Does `check_end` for version 2. The epoch tells a repeated request from a new one: a repeated request has the epoch before,
    or the last epoch of the producer id before.
    """
    state = transaction.state
    again_after_rotation = (
        transaction.previous_producer_id == producer_id and producer_epoch == EXHAUSTED_EPOCH and transaction.producer_epoch == 0
    )
    again = transaction.producer_epoch == producer_epoch + 1
    if transaction.producer_id != producer_id and not again_after_rotation:
        raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    current = transaction.producer_epoch == producer_epoch
    if transaction.is_ending:
        allowed = again
    elif state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        allowed = current or again or again_after_rotation
    else:
        allowed = current
    if not allowed:
        raise TransactionError(ErrorCode.PRODUCER_FENCED)
    if state is State.ONGOING:
        return None
    if again or again_after_rotation:
        if state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
            return Answered(transaction.producer_id, transaction.producer_epoch)
    elif not commit and transaction.is_idle:
        return None  # it aborts a transaction of which nothing reached this broker, and wants the next epoch
    raise TransactionError(_wrong_end(transaction, commit=commit))


def _wrong_end(transaction: Transaction, *, commit: bool) -> ErrorCode:
    if transaction.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE


def end(transaction: Transaction, now_ms: int, *, commit: bool, version: int, new_producer_id: int) -> Transaction:
    """Returns the transaction with its end decided, which cannot be taken back once it is in the log.

    `new_producer_id` replaces the producer id if version 2 finds its epochs used up (`is_exhausted`); otherwise it is
    NO_PRODUCER_ID.
    """
    changes: dict[str, Any] = {"updated_ms": now_ms, "client_version": 0, "next_producer_id": NO_PRODUCER_ID}
    if version >= EPOCH_BUMP_SINCE:
        changes["client_version"] = version
        changes["producer_epoch"] = min(transaction.producer_epoch + 1, LAST_EPOCH)
        changes["last_producer_epoch"] = transaction.producer_epoch
        changes["next_producer_id"] = new_producer_id
    if transaction.is_idle:
        changes["started_ms"] = now_ms
    return _move(transaction, State.PREPARE_COMMIT if commit else State.PREPARE_ABORT, **changes)


def fence(transaction: Transaction, now_ms: int, *, version: int, new_producer_id: int) -> Transaction:
    """Aborts a transaction without its client asking for it, because it timed out or another producer takes its place. Raises the
    producer's epoch.
    """
    assert transaction.state is State.ONGOING, transaction
    if version < EPOCH_BUMP_SINCE:
        epoch = min(transaction.producer_epoch + 1, LAST_EPOCH)
        transaction = transaction._replace(producer_epoch=epoch, last_producer_epoch=NO_EPOCH)
    return end(transaction, now_ms, commit=False, version=version, new_producer_id=new_producer_id)


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """Returns the transaction as it is once all markers are written."""
    changes: dict[str, Any] = {"updated_ms": now_ms, "partitions": frozenset(), "next_producer_id": NO_PRODUCER_ID}
    if transaction.client_version >= EPOCH_BUMP_SINCE and transaction.next_producer_id != NO_PRODUCER_ID:
        changes["producer_id"] = transaction.next_producer_id
        changes["producer_epoch"] = 0
    done = State.COMPLETE_COMMIT if transaction.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
    return _move(transaction, done, **changes)
