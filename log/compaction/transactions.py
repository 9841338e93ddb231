"""Tells the cleaner, as it walks through a log, which batches belong to aborted transactions and which markers may go.

The cleaner never goes beyond the last stable offset, so every transaction that it meets is decided and the aborted ones are known
beforehand, from the transaction indexes. Records of an aborted transaction go at once, whatever their keys. A marker may go when
nothing of its transaction is left before it, which shows in whether the walk met a batch of the producer since its last marker.
The marker then goes by the rule of tombstones, so that readers that have seen such records still see how they ended.

An abort marker that follows batches which no index names means that an index, which has no checksum, is wrong: the batches passed
for committed, and would take the place of older records for good. There the cleaning ends, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.log.errors import CorruptRecord
from ottla.log.markers import read_marker
from ottla.log.txn_index import AbortedTransaction
from ottla.wire.batch import BatchHeader
from ottla.wire.primitives import Buffer


class CleanedTransactions:
    """Follows one walk in offset order. `aborted` are the transactions that overlap it; those whose marker stays gather in
    `kept`."""

    __slots__ = ("_aborted", "_aborting", "_committing", "_next", "_seen", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda transaction: transaction.first_offset)
        self._next = 0
        self._aborting: dict[int, AbortedTransaction] = {}  # by producer id: those that begin at or before this offset
        self._seen: set[int] = set()  # the producers in `_aborting` of which the walk has met a batch
        self._committing: set[int] = set()  # producers with batches that belong to no known aborted transaction
        self.kept: list[AbortedTransaction] = []

    def _begin_upto(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            transaction = self._aborted[self._next]
            self._aborting.setdefault(transaction.producer_id, transaction)
            self._next += 1

    def on_batch(self, header: BatchHeader) -> bool:
        """Takes note of the next batch of records; returns whether it belongs to an aborted transaction."""
        self._begin_upto(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborting:
            self._seen.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, batch: Buffer) -> bool:
        """Takes note of the next control batch; returns whether nothing is left for which it would be needed. Raises
        CorruptRecord if it does not decode, or aborts batches that no transaction index names."""
        self._begin_upto(header.last_offset)
        if header.records_count == 0:  # an earlier cleaning emptied it
            return True
        try:
            marker = read_marker(batch)
        except ValueError as error:
            raise CorruptRecord(f"the marker at offset {header.base_offset} does not decode: {error}") from error
        if marker is None:
            return False
        if not marker.aborted:
            found = header.producer_id in self._committing
            self._committing.discard(header.producer_id)
            return not found
        transaction = self._aborting.pop(header.producer_id, None)
        if transaction is None and header.producer_id in self._committing:
            raise CorruptRecord(
                f"offset {header.base_offset} aborts a transaction of producer {header.producer_id} that is in no transaction "
                "index; stop the broker and look with ottla log verify"
            )
        if transaction is None or header.producer_id not in self._seen:
            return True
        self._seen.discard(header.producer_id)
        self.kept.append(transaction)
        return False
