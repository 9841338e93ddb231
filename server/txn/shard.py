"""A `TransactionShard` is one partition of `__transaction_state`: the transactional ids that hash to it, and the transactions
that are being ended.

A transaction ends in three steps: a record of the decision, a marker in each of its partitions, and a record that the markers are
written. The decision is replicated before the first marker is sent, because a marker cannot be taken back. What was decided
before a crash is completed after it: a transaction that is loaded in PREPARE_COMMIT or PREPARE_ABORT gets its markers again, and
a partition that already has its marker then has no transaction to end.

Markers are written to the partitions by a `MarkerWriter`, one partition a step (server/base/turns.py), because a transaction may
have thousands. While a partition has no marker yet (its turn has not come, its directory is offline, or its leader is elsewhere),
the transaction stays in its PREPARE state, in which every operation on it is refused; a marker that could not be written is tried
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.server.base.clock import Cancellable, Clock
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.coordination.shard import NO_PRODUCER_ID, CoordinatorShard
from ottla.server.metadata.names import TRANSACTION_STATE
from ottla.server.txn import state
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.records import decode, encode_tombstones, encode_transaction
from ottla.server.txn.state import State, TopicPartition, Transaction
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.coordination.internal_topic import Appended
    from ottla.wire.primitives import Buffer

RETRY_SECONDS: Final = 0.1
"""The time between two attempts to write the markers that could not be written."""
READ_TIMEOUT_MS: Final = 5_000
"""The time for which the answer to a request that writes nothing waits for replicas. One that writes has the transaction's own
timeout."""
TOMBSTONE_BATCH_BYTES: Final = 256 << 10
"""A batch of tombstones has about this many bytes of ids; even with one more id of the greatest length it stays below any
sensible max.message.bytes."""
_TOMBSTONE_OVERHEAD: Final = 16
_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_TAKEN_OVER: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""With these codes a partition says that a newer coordinator, or an admin, has taken over ending this producer's transactions."""

Change = tuple[str, Transaction | None]
"""A transactional id and its transaction, or None for a tombstone."""


class Marker(NamedTuple):
    """A marker, the control record that ends a transaction in a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class MarkerWriter(Protocol):
    """A function that writes markers to partitions."""

    def __call__(self, topic: str, partition: int, marker: Marker) -> ErrorCode | Promise[ErrorCode]:
        """Writes one marker. Returns the error code, or a promise of it if other brokers have to write or replicate the marker;
        the promise never fails.

        NONE means that the marker is written and replicated, UNKNOWN_TOPIC_OR_PARTITION that the partition no longer exists and
        needs none.
        """
        ...


class TransactionShard(CoordinatorShard[Change]):
    """The transactional ids of one partition. Its leader epoch is the coordinator epoch: a partition refuses a marker whose
    coordinator epoch is older than one it has seen.
    """

    topic = TRANSACTION_STATE
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
        super().__init__(partition, leader_epoch, append, clock, READ_TIMEOUT_MS)
        self.transactions: dict[str, Transaction] = {}
        self._version = transaction_version
        self._write_marker = write_marker
        self._rest: dict[str, set[TopicPartition]] = {}
        """The partitions that have no marker yet, for each transaction whose end is decided."""
        self._sent: set[tuple[str, TopicPartition]] = set()
        """The markers whose outcome is not known yet."""
        self._marking: set[str] = set()
        """The transactions whose markers are being written, step by step."""
        self._retry: Cancellable | None = None

    @property
    def rest(self) -> int:
        """Returns how many transactions are decided and not yet complete."""
        return len(self._rest)

    # State

    def write_transaction(self, transaction: Transaction) -> None:
        """Makes this the state of its id. Raises TransactionError if it cannot be written; nothing has changed then."""
        batch = encode_transaction(transaction, self.clock.now_ms(), self._version())
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
        """Completes the transactions whose end was decided before the partition was loaded, once it is all replicated."""
        for transaction in list(self.transactions.values()):
            if transaction.is_ending:
                self.when_replicated(partial(self._begin_completion, transaction.transactional_id))
            yield

    # Ends

    def end(self, transaction: Transaction) -> tuple[Transaction, Promise[None] | None]:
        """Writes the decision, then the markers, then the record that completes the transaction, as far as that is possible now.
        Returns the transaction as it will be when it is complete, and a promise that is kept when every partition was asked to
        take its marker: None if they were, or if the decision has to be replicated first. Raises TransactionError if the decision
        cannot be written.
        """
        self.write_transaction(transaction)
        marked = None
        if self.unreplicated is None:
            marked = self._begin_completion(transaction.transactional_id, ErrorCode.NONE)
        else:
            self.when_replicated(partial(self._begin_completion, transaction.transactional_id))
        known = self.transactions[transaction.transactional_id]
        return (state.complete(transaction, self.clock.now_ms()) if known is transaction else known), marked

    def _begin_completion(self, transactional_id: str, code: ErrorCode) -> Promise[None] | None:
        """Goes on once the decision is replicated. With any other code than NONE this broker has lost the partition, and the new
        coordinator completes the transaction. Returns a promise if the markers take longer than a turn.
        """
        if code is not ErrorCode.NONE:
            return None
        self._rest[transactional_id] = set(self.transactions[transactional_id].partitions)
        return self._in_turns(self._complete(transactional_id))

    def _in_turns(self, steps: Steps[None]) -> Promise[None] | None:
        under_way = take_steps(steps, self.clock)
        if under_way is not None:
            under_way.add_done_callback(self._report)
        return under_way

    def _report(self, under_way: Promise[None]) -> None:
        """Logs what no step foresees. It does not raise, since others wait for the same promise."""
        try:
            under_way.result()
        except Exception:
            self.logger.exception("markers are left unwritten until the coordinator is loaded anew")

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retry = self.clock.call_later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._in_turns(self._complete_rest())

    def _complete_rest(self) -> Steps[None]:
        """Makes steps that try again to complete the transactions that could not be completed. The next attempt waits until this
        one has come to its end.
        """
        try:
            for transactional_id in list(self._rest):
                yield from self._complete(transactional_id, again=True)
        finally:
            self._retry = None
        if self._rest:
            self._retry_later()

    def _complete(self, transactional_id: str, *, again: bool = False) -> Steps[None]:
        """Makes steps that write the markers of a transaction that are missing, and the last of them the record that completes
        it. Between two steps the shard may be unloaded, another coordinator may take the transaction over, and markers that were
        sent may be answered.
        """
        rest = self._rest.get(transactional_id)
        if rest is None or transactional_id in self._marking:
            return
        transaction = self.transactions[transactional_id]
        marker = Marker(
            transaction.producer_id,
            transaction.producer_epoch,
            self.leader_epoch,
            transaction.state is State.PREPARE_COMMIT,
            transaction.client_version,
        )
        self._marking.add(transactional_id)
        try:
            for partition in sorted(rest):
                yield None
                if self._rest.get(transactional_id) is not rest:
                    return
                if partition in rest and not self._mark(transactional_id, partition, marker, again):
                    return
        finally:
            self._marking.discard(transactional_id)
        self._finish(transactional_id)

    def _mark(self, transactional_id: str, partition: TopicPartition, marker: Marker, again: bool) -> bool:
        """Has a marker written, unless it is on its way. Returns False if another coordinator ends the transaction."""
        if (transactional_id, partition) in self._sent:
            return True
        code = self._write_marker(*partition, marker)
        if not isinstance(code, Promise):
            return self._note_outcome(transactional_id, partition, code, again)
        if code.done():
            return self._note_outcome(transactional_id, partition, code.result(), again)
        self._sent.add((transactional_id, partition))
        code.add_done_callback(partial(self._on_marker_answer, transactional_id, partition, again))
        return True

    def _on_marker_answer(
        self, transactional_id: str, partition: TopicPartition, again: bool, answer: Promise[ErrorCode]
    ) -> None:
        """Handles another broker's answer to a marker. By then another coordinator may have taken over the transaction."""
        self._sent.discard((transactional_id, partition))
        if transactional_id in self._rest and self._note_outcome(transactional_id, partition, answer.result(), again):
            self._finish(transactional_id)

    def _note_outcome(self, transactional_id: str, partition: TopicPartition, code: ErrorCode, again: bool) -> bool:
        """Notes the outcome of writing a marker to a partition. Returns False if another coordinator ends the transaction."""
        if code in _TAKEN_OVER:
            self.logger.warning("%s is no longer ended here: %s-%d answered %s", transactional_id, *partition, code.name)
            del self._rest[transactional_id]
            return False
        if code in _WRITTEN:
            self._rest[transactional_id].discard(partition)
        else:
            level = logging.DEBUG if again else logging.WARNING  # it is tried ten times a second
            self.logger.log(level, "%s-%d cannot take a marker of %s now: %s", *partition, transactional_id, code.name)
        return True

    def _finish(self, transactional_id: str) -> None:
        """Writes the record that completes the transaction if all markers are written; otherwise tries again later."""
        if self._rest[transactional_id]:
            self._retry_later()
            return
        try:
            self.write_transaction(state.complete(self.transactions[transactional_id], self.clock.now_ms()))
        except TransactionError:  # `append` has logged it, unless only replicas are missing; markers can be written again
            self._retry_later()
            return
        del self._rest[transactional_id]

    def unload(self) -> None:
        self._rest.clear()  # the next coordinator finds these in the log
        if self._retry is not None:
            self._retry.cancel()
        super().unload()

    # Passes

    def overdue(self, now_ms: int) -> list[Transaction]:
        """Returns the transactions that have been open for longer than their timeout."""
        return [transaction for transaction in self.transactions.values() if transaction.is_overdue(now_ms)]

    def expire(self, expiration_ms: int) -> int:
        """Removes the ids that have been idle for `expiration_ms`. Returns how many they were. Raises TransactionError."""
        before = self.clock.now_ms() - expiration_ms
        expired = [known.transactional_id for known in self.transactions.values() if known.is_idle and known.updated_ms <= before]
        batch: list[str] = []
        size = 0
        for transactional_id in expired:
            batch.append(transactional_id)
            size += len(transactional_id.encode()) + _TOMBSTONE_OVERHEAD
            if size >= TOMBSTONE_BATCH_BYTES:
                self._remove(batch)
                batch, size = [], 0
        if batch:
            self._remove(batch)
        return len(expired)

    def _remove(self, ids: Sequence[str]) -> None:
        self.write(encode_tombstones(ids, self.clock.now_ms()), [(transactional_id, None) for transactional_id in ids])
