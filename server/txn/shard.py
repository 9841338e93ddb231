"""One partition of `__transaction_state`: the transactional ids that hash to it, and the ends that are under way.

A transaction's next state is written and then believed (`write`); loading is the same `replay` over the whole partition. What was
decided before a crash is completed after it: a transaction that is loaded in PREPARE_COMMIT or PREPARE_ABORT gets its markers
again; a partition that has its marker already takes it as the end of nothing.

Markers go to the partitions through `MarkerWriter`. A partition that cannot take its marker now (its directory is offline, its
leader is elsewhere) keeps the transaction in its PREPARE state, and `complete_rest` tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from ottla.log.errors import LogError
from ottla.server.base.clock import Clock
from ottla.server.base.errors import append_error
from ottla.server.txn import state
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.records import decode, encode_tombstones, encode_transaction
from ottla.server.txn.state import State, TopicPartition, Transaction
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED
from ottla.wire.records import decode_records

logger = logging.getLogger("ottla.server.txn")

TOMBSTONE_BATCH_BYTES: Final = 256 << 10
"""Of ids, about: with the longest of them a batch is still below any sensible max.message.bytes."""
_TOMBSTONE_OVERHEAD: Final = 16
_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_TAKEN_OVER: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Somebody else ends this producer's transactions by now: a newer coordinator, or an admin."""


class Marker(NamedTuple):
    """The end of a transaction as a partition is told of it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class MarkerWriter(Protocol):
    """Who brings markers to partitions."""

    def __call__(self, topic: str, partition: int, marker: Marker) -> ErrorCode:
        """NONE: written. UNKNOWN_TOPIC_OR_PARTITION: there is no such partition any more, and nothing to end in it."""
        ...


class Shard:
    """`append(batch) -> base offset` writes to this partition. `coordinator_epoch` is its leader epoch: partitions refuse a
    marker of an older one than they have seen."""

    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        append: Callable[[bytes], int],
        clock: Clock,
        transaction_version: Callable[[], int],
        write_marker: MarkerWriter,
    ) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        self.loading = True
        self._append = append
        self._clock = clock
        self._version = transaction_version
        self._write_marker = write_marker
        self._rest: dict[str, set[TopicPartition]] = {}
        """Of transactions whose end is decided: the partitions that have no marker yet."""

    @property
    def rest(self) -> int:
        """How many transactions are decided and not complete."""
        return len(self._rest)

    # State

    def write(self, transaction: Transaction) -> None:
        """Makes this the state of its id. TransactionError: it could not be written, and nothing has changed."""
        now_ms = self._clock.now_ms()
        self._append_batch(encode_transaction(transaction, now_ms, self._version()))
        self.replay(transaction.transactional_id, transaction)

    def replay(self, transactional_id: str, transaction: Transaction | None) -> None:
        """The only way that state changes, while running and while loading."""
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction

    def _append_batch(self, batch: bytes) -> None:
        try:
            self._append(batch)
        except (LogError, OSError) as error:
            code = append_error(error)
            logger.warning("partition %d of __transaction_state: %s (%s)", self.partition, error, code.name)
            raise TransactionError(code) from error

    # Loading

    def load(self, read: Callable[[], Iterator[bytes]]) -> Iterator[None]:
        """Replays the partition, one batch a step, and completes what was decided; what `read` raises comes through.

        A batch that does not follow its schema is left out with a line in the log, as in Kafka: the others are worth having.
        """
        for batch in read():
            try:
                found = [decode(record.key, record.value) for record in decode_records(batch) if record.key is not None]
            except MALFORMED as error:
                logger.error("partition %d of __transaction_state: a batch was left out: %r", self.partition, error)
                continue
            for each in found:
                if each is not None:
                    self.replay(*each)
            yield
        self.loading = False
        for transaction in list(self.transactions.values()):
            if transaction.is_ending:
                self._begin_completion(transaction)
            yield

    # Ends

    def end(self, transaction: Transaction) -> Transaction:
        """Writes the decision, then the markers, then that they are written, as far as it comes. Returns what the producer is
        from here on. TransactionError: the decision could not be written."""
        self.write(transaction)
        self._begin_completion(transaction)
        return state.complete(transaction, self._clock.now_ms())

    def _begin_completion(self, transaction: Transaction) -> None:
        self._rest[transaction.transactional_id] = set(transaction.partitions)
        self._complete(transaction.transactional_id)

    def complete_rest(self) -> None:
        """Tries again what could not be completed."""
        for transactional_id in list(self._rest):
            self._complete(transactional_id, again=True)

    def _complete(self, transactional_id: str, *, again: bool = False) -> None:
        transaction, rest = self.transactions[transactional_id], self._rest[transactional_id]
        marker = Marker(
            transaction.producer_id,
            transaction.producer_epoch,
            self.coordinator_epoch,
            transaction.state is State.PREPARE_COMMIT,
            transaction.client_version,
        )
        for topic, partition in sorted(rest):
            code = self._write_marker(topic, partition, marker)
            if code in _TAKEN_OVER:
                logger.warning("the end of %s is left to others: %s-%d says %s", transactional_id, topic, partition, code.name)
                del self._rest[transactional_id]
                return
            if code in _WRITTEN:
                rest.discard((topic, partition))
            else:
                level = logging.DEBUG if again else logging.WARNING  # ten times a second until it can
                logger.log(level, "%s-%d cannot take a marker of %s now: %s", topic, partition, transactional_id, code.name)
        if rest:
            return
        try:
            self.write(state.complete(transaction, self._clock.now_ms()))
        except TransactionError:  # logged where it was not written; markers can be written again
            return
        del self._rest[transactional_id]

    # Passes

    def overdue(self, now_ms: int) -> list[Transaction]:
        """The transactions whose time is over."""
        return [transaction for transaction in self.transactions.values() if transaction.is_overdue(now_ms)]

    def expire(self, expiration_ms: int) -> int:
        """Forgets ids that did nothing for so long; returns how many. TransactionError."""
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
        self._append_batch(encode_tombstones(transactional_ids, self._clock.now_ms()))
        for transactional_id in transactional_ids:
            self.replay(transactional_id, None)
