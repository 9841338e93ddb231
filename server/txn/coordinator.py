"""The transaction coordinator (KIP-98, KIP-360, KIP-890) decides which producer may write under a transactional id, and ends its
transactions.

An id belongs to partition abs(Java's hash of it) mod the partition count of `__transaction_state`; the leader of that partition
coordinates it. It loads the partition when it takes it over, and unloads it when it loses it (shard.py, server/coordination/).

Every operation looks at the id's Transaction, takes a pure step (state.py) and writes one record. No operation waits for another
one. With one replica, and all partitions on this broker, an EndTxn is decided, marked in the partitions and completed before it
is answered, and unless there are many partitions within the turn of the loop that brought it. So its producer is answered
CONCURRENT_TRANSACTIONS only if a partition could not take its marker, or if a producer that takes over an id has to let the old
one's transaction end first. With more replicas answers go out when they are replicated.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.log.errors import LogError
from ottla.server.base.answers import chain_answer, wait_for
from ottla.server.base.clock import TURN_NS, Clock, sleep
from ottla.server.base.promise import Promise
from ottla.server.coordination.java_hash import java_hash_bucket
from ottla.server.coordination.runtime import CoordinatorLog, CoordinatorRuntime
from ottla.server.metadata.names import TRANSACTION_STATE
from ottla.server.txn import state
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.shard import MarkerWriter, TransactionShard
from ottla.server.txn.state import NO_PRODUCER_ID, Expected, State, TopicPartition, Transaction
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import LONGEST_STRING

if TYPE_CHECKING:
    from ottla.server.coordination.internal_topic import Appended

logger = logging.getLogger("ottla.server.txn")


class TransactionSettings(NamedTuple):
    """The settings of the transaction coordinator; the defaults are Kafka's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000


class Producer(NamedTuple):
    """The producer id and epoch that InitProducerId and EndTxn answer."""

    producer_id: int
    producer_epoch: int


T = TypeVar("T")


class TransactionCoordinator:
    """The coordinator of this broker. `next_producer_id` returns ids that were never used before; `transaction_version` returns
    the cluster's finalized level of that feature.
    """

    def __init__(
        self,
        log: CoordinatorLog,
        clock: Clock,
        settings: TransactionSettings,
        *,
        next_producer_id: Callable[[], Awaitable[int]],
        transaction_version: Callable[[], int],
        write_marker: MarkerWriter,
    ) -> None:
        self.settings = settings
        self._log = log
        self._clock = clock
        self._next_producer_id = next_producer_id
        self._version = transaction_version
        self._write_marker = write_marker
        self._shards = CoordinatorRuntime(TRANSACTION_STATE, log, clock, self._make, TransactionError, loaded=self._loaded)

    # Routing

    @property
    def has_topic(self) -> bool:
        """Returns whether `__transaction_state` exists."""
        return self._log.partition_count() > 0

    def partition_for(self, transactional_id: str) -> int:
        """Returns the partition of `__transaction_state` that the id belongs to. Raises TransactionError
        COORDINATOR_NOT_AVAILABLE while there is no such topic.
        """
        count = self._log.partition_count()
        if count == 0:
            raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return java_hash_bucket(transactional_id, count)

    def shard(self, transactional_id: str) -> TransactionShard:
        """Returns the shard that the id belongs to. Raises TransactionError: INVALID_REQUEST if the id is empty or too long for a
        record, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not 0 < len(transactional_id.encode()) <= LONGEST_STRING:
            raise TransactionError(ErrorCode.INVALID_REQUEST)
        if self._log.partition_count() == 0:
            raise TransactionError(ErrorCode.NOT_COORDINATOR)
        return self._shards.loaded_shard(self.partition_for(transactional_id))

    def find(self, transactional_id: str) -> Transaction | None:
        """Returns the id's transaction, or None if the id is unknown. Raises TransactionError as `shard` does."""
        return self.shard(transactional_id).transactions.get(transactional_id)

    def all_transactions(self) -> Iterator[Transaction]:
        """Yields all transactions that this broker coordinates. Raises TransactionError COORDINATOR_LOAD_IN_PROGRESS while some
        partitions are loading.
        """
        for shard in self._shards.loaded_shards():
            yield from shard.transactions.values()

    def answer_about_all(self, value: T, refused: Callable[[ErrorCode], T]) -> T | Promise[T]:
        """Returns `value`, which is about all transactions, or a promise of it if some partitions are not replicated yet;
        `refused` makes the answer if this broker loses one of those first.
        """
        return self._shards.answer_or(value, refused)

    def _known(self, transactional_id: str) -> tuple[TransactionShard, Transaction]:
        shard = self.shard(transactional_id)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return shard, transaction

    # Operations

    async def init_producer_id(self, transactional_id: str, timeout_ms: int, expected: Expected | None) -> Producer:
        """Lets a producer start under this id, or go on after an error (`expected` is the id and epoch that it had), and fences
        all others.

        Raises TransactionError: as `shard`, INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, or CONCURRENT_TRANSACTIONS if an open
        transaction was just aborted, so that the client asks again. Raises StorageError if there is no new producer id to give.
        """
        if not transactional_id:
            raise TransactionError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.settings.max_timeout_ms:
            raise TransactionError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        new_id = NO_PRODUCER_ID
        while True:
            shard, now_ms = self.shard(transactional_id), self._clock.now_ms()
            transaction = shard.transactions.get(transactional_id)
            if transaction is None:
                if new_id != NO_PRODUCER_ID:
                    transaction = Transaction(transactional_id, new_id, timeout_ms, now_ms)
            else:
                state.check_init(transaction, expected)
                if transaction.state is State.ONGOING:
                    await self._fence(transaction)
                    raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if transaction is None or (new_id == NO_PRODUCER_ID and state.init_needs_id(transaction, expected)):
                new_id = await self._next_producer_id()  # another producer may come during the wait: look again
                continue
            begun = state.begin_anew(transaction, timeout_ms, expected, now_ms, new_id)
            shard.write_transaction(begun)
            return await wait_for(shard.answer(Producer(begun.producer_id, begun.producer_epoch), begun.timeout_ms))

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        client_version: int = 0,
    ) -> Promise[None] | None:
        """Adds partitions to the producer's transaction, and begins it if none is open. Raises TransactionError: as `shard`,
        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
        """
        shard, transaction = self._known(transactional_id)
        state.check_owner(transaction, producer_id, producer_epoch)
        added = state.add_partitions(transaction, partitions, self._clock.now_ms(), client_version)
        if added is not transaction:
            shard.write_transaction(added)
        return shard.answer(None, added.timeout_ms)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode] | Promise[dict[TopicPartition, ErrorCode]]:
        """Returns NONE for the partitions that are in the transaction and TRANSACTION_ABORTABLE for the others. Raises
        TransactionError as `add_partitions` does.
        """
        shard, transaction = self._known(transactional_id)
        state.check_owner(transaction, producer_id, producer_epoch)
        known = transaction.partitions
        return shard.answer(
            {partition: ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE for partition in partitions}
        )

    def end(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, version: int
    ) -> Producer | Awaitable[Producer]:
        """Commits or aborts the transaction. Returns the producer's id and epoch afterwards, which `version` 2 changes; they have
        to be awaited if the epochs are used up, or until the decision is replicated. Raises TransactionError as `shard` and
        `state.check_end` do.
        """
        shard, transaction = self._known(transactional_id)
        answered = state.check_end(transaction, producer_id, producer_epoch, commit=commit, version=version)
        if answered is not None:
            return shard.answer(Producer(*answered))
        if version >= state.EPOCH_BUMP_SINCE and transaction.is_exhausted:
            return self._end_with_new_id(transaction, commit=commit)
        decided = state.end(transaction, self._clock.now_ms(), commit=commit, version=version, new_producer_id=NO_PRODUCER_ID)
        return self._finish(shard, decided)

    async def _end_with_new_id(self, seen: Transaction, *, commit: bool) -> Producer:
        new_id = await self._next_producer_id()
        shard, transaction = self._known(seen.transactional_id)
        if transaction is not seen:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        version = state.EPOCH_BUMP_SINCE
        decided = state.end(transaction, self._clock.now_ms(), commit=commit, version=version, new_producer_id=new_id)
        return await wait_for(self._finish(shard, decided))

    def _finish(self, shard: TransactionShard, decided: Transaction) -> Producer | Promise[Producer]:
        after, marked = shard.end(decided)

        def answer(_: None) -> Producer | Promise[Producer]:
            return shard.answer(Producer(after.producer_id, after.producer_epoch), decided.timeout_ms)

        return chain_answer(marked, answer)

    async def _fence(self, seen: Transaction) -> bool:
        """Aborts a transaction without its producer, if it has not changed since it was `seen`; returns whether it did. Raises
        TransactionError if that cannot be written.
        """
        version, new_id = self._version(), NO_PRODUCER_ID
        if version >= state.EPOCH_BUMP_SINCE and seen.is_exhausted:
            new_id = await self._next_producer_id()
        shard, transaction = self._known(seen.transactional_id)
        if transaction is not seen:
            return False
        fenced = state.fence(transaction, self._clock.now_ms(), version=version, new_producer_id=new_id)
        await wait_for(self._finish(shard, fenced))
        return True

    # Passes

    async def abort_overdue(self) -> None:
        """Aborts the transactions that have been open for longer than their timeout. This runs every
        `transaction.abort.timed.out.transaction.cleanup.interval.ms`. What could not be loaded is loaded first, if it can be:
        perhaps nobody else ever asks for a transaction whose end all readers wait for.
        """
        self.refresh()
        turn_ends = self._clock.ticks_ns() + TURN_NS
        for shard in list(self._shards.values()):
            turn_ends = await self._give_way(turn_ends)
            for transaction in shard.overdue(self._clock.now_ms()) if not shard.loading else ():
                turn_ends = await self._give_way(turn_ends)
                if self._shards.get(shard.partition) is not shard:
                    break  # its new coordinator aborts the others
                await self._abort_overdue(transaction)

    async def _give_way(self, turn_ends: int) -> int:
        """Lets others come first if the turn is over, at `turn_ends`. Returns when the present one ends."""
        if self._clock.ticks_ns() <= turn_ends:
            return turn_ends
        await sleep(self._clock, 0)
        return self._clock.ticks_ns() + TURN_NS

    async def _abort_overdue(self, transaction: Transaction) -> None:
        try:
            aborted = await self._fence(transaction)
        except (TransactionError, LogError) as error:
            logger.warning("cannot abort the timed-out transaction of %s now: %s", transaction.transactional_id, error)
            return
        if aborted:
            logger.info("aborted the transaction of %s, which had timed out", transaction.transactional_id)

    def expire(self) -> None:
        """Removes transactional ids that were not used for a long time. This runs every
        `transaction.remove.expired.transaction.cleanup.interval.ms`.
        """
        self._shards.on_each(self._expire, "remove expired transactional ids")

    def _expire(self, shard: TransactionShard) -> None:
        expired = shard.expire(self.settings.id_expiration_ms)
        if expired:
            logger.info("removed %d expired transactional ids from partition %d", expired, shard.partition)

    @property
    def damaged_partitions(self) -> int:
        """Returns how many partitions are not served because their bytes are damaged."""
        return self._shards.damaged

    # Leadership

    def refresh(self) -> None:
        """Loads all partitions that this broker leads and unloads the others. This runs at the start, and now and then."""
        self._shards.refresh()

    def follow(self, partition: int) -> None:
        """Loads or unloads one partition, whose leader may have changed."""
        self._shards.follow(partition)

    def close(self) -> None:
        """Unloads everything; the markers that are still missing are written after the next start."""
        self._shards.close()

    def _make(self, partition: int, leader_epoch: int, append: Callable[[bytes], Appended]) -> TransactionShard:
        return TransactionShard(partition, leader_epoch, append, self._clock, self._version, self._write_marker)

    def _loaded(self, shard: TransactionShard) -> None:
        if shard.transactions:
            logger.info("loaded partition %d of __transaction_state: %d ids", shard.partition, len(shard.transactions))
