"""What the cleaner knows of transactions while it walks through a log: which batches were aborted, which markers may go.

The cleaner never goes beyond the last stable offset, so every transaction that it meets is decided and the aborted ones are
known beforehand, from the transaction indexes. Records of an aborted transaction go at once, whatever their keys. A marker may
go when nothing of its transaction is left before it: that is seen on the way, by whether any batch of the producer came by since
its last marker. It then goes by the rule of tombstones, so that readers who have seen such records still meet their end.

An abort marker of batches that no index knows of says that an index is wrong, and it has no checksum: the batches passed for
committed, and would take the place of older records for good. There the cleaning ends, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.log.errors import CorruptRecord
from ottla.log.markers import read_marker
from ottla.log.txn_index import AbortedTransaction
from ottla.wire.batch import BatchHeader
from ottla.wire.primitives import Buffer


class CleanedTransactions:
    """One walk, in offset order. `aborted` are those that overlap it; those whose marker stays gather in `kept`."""

    __slots__ = ("_aborted", "_aborting", "_committing", "_next", "_seen", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda transaction: transaction.first_offset)
        self._next = 0
        self._aborting: dict[int, AbortedTransaction] = {}  # by producer id: begun at or before this place
        self._seen: set[int] = set()  # producers of those of which a batch came by
        self._committing: set[int] = set()  # producers with batches that no abort is known of
        self.kept: list[AbortedTransaction] = []

    def _begin_upto(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            transaction = self._aborted[self._next]
            self._aborting.setdefault(transaction.producer_id, transaction)
            self._next += 1

    def on_batch(self, header: BatchHeader) -> bool:
        """A batch of records comes by. True if it belongs to an aborted transaction."""
        self._begin_upto(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborting:
            self._seen.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, batch: Buffer) -> bool:
        """A control batch comes by. True if nothing is left that it would be needed for. CorruptRecord: see above."""
        self._begin_upto(header.last_offset)
        if header.records_count == 0:  # it was emptied before
            return True
        marker = read_marker(batch)
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
