"""One partition of `__transaction_state`: the transactional ids that hash to it, and the ends that are under way.

An end is a decision, markers in the partitions of the transaction, and a record that says that they are written. The decision is
replicated before the first marker is sent; a marker cannot be taken back. What was decided before a crash is completed after it:
a transaction that is loaded in PREPARE_COMMIT or PREPARE_ABORT gets its markers again, and a partition that has its marker
already takes it as the end of nothing.

Markers go to the partitions through `MarkerWriter`. A partition that cannot take its marker now (its directory is offline, its
leader is elsewhere) keeps the transaction in its PREPARE state, and is asked again until it has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.server.base.clock import Cancellable, Clock
from ottla.server.base.promise import Promise
from ottla.server.coordination.shard import NO_PRODUCER_ID, CoordinatorShard
from ottla.server.txn import state
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.records import decode, encode_tombstones, encode_transaction
from ottla.server.txn.state import State, TopicPartition, Transaction
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.coordination.internal_topic import Appended
    from ottla.wire.primitives import Buffer

TOPIC: Final = "__transaction_state"
RETRY_SECONDS: Final = 0.1
"""The time between two attempts to write markers that a partition did not take."""
TOMBSTONE_BATCH_BYTES: Final = 256 << 10
"""About how many bytes of ids a batch has: with the longest of them it is still below any sensible max.message.bytes."""
_TOMBSTONE_OVERHEAD: Final = 16
_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_TAKEN_OVER: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Somebody else ends this producer's transactions by now: a newer coordinator, or an admin."""

Change = tuple[str, Transaction | None]
"""A transactional id and its transaction, or None where the id is forgotten."""


class Marker(NamedTuple):
    """The end of a transaction as it is written to a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class MarkerWriter(Protocol):
    """Brings markers to partitions."""

    def __call__(self, topic: str, partition: int, marker: Marker) -> ErrorCode | Promise[ErrorCode]:
        """Writes one marker. The code comes later where another broker has to write it; the promise of it never fails.

        NONE says that it is written, UNKNOWN_TOPIC_OR_PARTITION that the partition does not exist any more, and nothing is to be
        ended in it.
        """
        ...


class TransactionShard(CoordinatorShard[Change]):
    """The leader epoch is the epoch of the coordinator: partitions refuse a marker of an older one than they have seen."""

    topic = TOPIC
    logger = logging.getLogger("ottla.server.txn")

    def __init__(
        self,
        partition: int,
        leader_epoch: int,
        append: Callable[[bytes], Appended],
        clock: Clock,
        transaction_version: Callable[[], int],
        write_marker: MarkerWriter,
    ) -> None:
        super().__init__(partition, leader_epoch, append)
        self.transactions: dict[str, Transaction] = {}
        self._clock = clock
        self._version = transaction_version
        self._write_marker = write_marker
        self._rest: dict[str, set[TopicPartition]] = {}
        """Of transactions whose end is decided: the partitions that have no marker yet."""
        self._sent: set[tuple[str, TopicPartition]] = set()
        """The markers whose outcome is not known yet."""
        self._retry: Cancellable | None = None

    @property
    def rest(self) -> int:
        """How many transactions are decided and not complete."""
        return len(self._rest)

    # State

    def write_transaction(self, transaction: Transaction) -> None:
        """Makes this the state of its id. TransactionError: it could not be written, and nothing has changed."""
        batch = encode_transaction(transaction, self._clock.now_ms(), self._version())
        self.write(batch, ((transaction.transactional_id, transaction),))

    def decode(self, key: Buffer, value: Buffer | None) -> Change | None:
        return decode(key, value)

    def replay(self, record: Change, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        transactional_id, transaction = record
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction

    def refusal(self, code: ErrorCode) -> TransactionError:
        return TransactionError(code)

    def loaded(self) -> Iterator[None]:
        """Completes what was decided before."""
        for transaction in list(self.transactions.values()):
            if transaction.is_ending:
                self._begin_completion(transaction.transactional_id, ErrorCode.NONE)
            yield

    # Ends

    def end(self, transaction: Transaction) -> Transaction:
        """Writes the decision, then the markers, then that they are written, as far as it comes. Returns what the producer is
        from here on. TransactionError: the decision could not be written."""
        self.write_transaction(transaction)
        if self.unreplicated is None:
            self._begin_completion(transaction.transactional_id, ErrorCode.NONE)
        else:
            self.when_replicated(partial(self._begin_completion, transaction.transactional_id))
        return state.complete(transaction, self._clock.now_ms())

    def _begin_completion(self, transactional_id: str, code: ErrorCode) -> None:
        """The decision is replicated, or, with another code than NONE, for a new coordinator to find."""
        if code is ErrorCode.NONE:
            self._rest[transactional_id] = set(self.transactions[transactional_id].partitions)
            self._complete(transactional_id)

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retry = self._clock.call_later(RETRY_SECONDS, self._complete_rest)

    def _complete_rest(self) -> None:
        """Tries again what could not be completed."""
        self._retry = None
        for transactional_id in list(self._rest):
            self._complete(transactional_id, again=True)

    def _complete(self, transactional_id: str, *, again: bool = False) -> None:
        transaction, rest = self.transactions[transactional_id], self._rest[transactional_id]
        marker = Marker(
            transaction.producer_id,
            transaction.producer_epoch,
            self.leader_epoch,
            transaction.state is State.PREPARE_COMMIT,
            transaction.client_version,
        )
        for partition in sorted(rest):
            if (transactional_id, partition) in self._sent:
                continue
            code = self._write_marker(*partition, marker)
            if isinstance(code, Promise) and not code.done():
                self._sent.add((transactional_id, partition))
                code.add_done_callback(partial(self._answered, transactional_id, partition, again))
            elif not self._took(transactional_id, partition, code.result() if isinstance(code, Promise) else code, again):
                return
        self._finish(transactional_id)

    def _answered(self, transactional_id: str, partition: TopicPartition, again: bool, answer: Promise[ErrorCode]) -> None:
        """Another broker says what became of its marker; by now the end may be another coordinator's."""
        self._sent.discard((transactional_id, partition))
        if transactional_id in self._rest and self._took(transactional_id, partition, answer.result(), again):
            self._finish(transactional_id)

    def _took(self, transactional_id: str, partition: TopicPartition, code: ErrorCode, again: bool) -> bool:
        """Notes what a partition says to its marker. Returns False if the end of the transaction is left to others."""
        if code in _TAKEN_OVER:
            self.logger.warning("the end of %s is left to others: %s-%d says %s", transactional_id, *partition, code.name)
            del self._rest[transactional_id]
            return False
        if code in _WRITTEN:
            self._rest[transactional_id].discard(partition)
        else:
            level = logging.DEBUG if again else logging.WARNING  # ten times a second until it can
            self.logger.log(level, "%s-%d cannot take a marker of %s now: %s", *partition, transactional_id, code.name)
        return True

    def _finish(self, transactional_id: str) -> None:
        """Writes that the end is complete, if it is; otherwise it is tried again later."""
        if self._rest[transactional_id]:
            self._retry_later()
            return
        try:
            self.write_transaction(state.complete(self.transactions[transactional_id], self._clock.now_ms()))
        except TransactionError:  # logged where it was not written; markers can be written again
            self._retry_later()
            return
        del self._rest[transactional_id]

    def unload(self) -> None:
        self._rest.clear()  # the next coordinator has it from the log
        if self._retry is not None:
            self._retry.cancel()
        super().unload()

    # Passes

    def overdue(self, now_ms: int) -> list[Transaction]:
        """Returns the transactions that are open for longer than their timeout."""
        return [transaction for transaction in self.transactions.values() if transaction.is_overdue(now_ms)]

    def expire(self, expiration_ms: int) -> int:
        """Forgets ids that did nothing for so long. Returns how many; TransactionError."""
        before = self._clock.now_ms() - expiration_ms
        expired = [each.transactional_id for each in self.transactions.values() if each.is_idle and each.updated_ms <= before]
        batch: list[str] = []
        size = 0
        for transactional_id in expired:
            batch.append(transactional_id)
            size += len(transactional_id.encode()) + _TOMBSTONE_OVERHEAD
            if size >= TOMBSTONE_BATCH_BYTES:
                self._forget(batch)
                batch, size = [], 0
        if batch:
            self._forget(batch)
        return len(expired)

    def _forget(self, transactional_ids: Sequence[str]) -> None:
        self.write(encode_tombstones(transactional_ids, self._clock.now_ms()), [(each, None) for each in transactional_ids])
