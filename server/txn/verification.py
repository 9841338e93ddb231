"""Verifies that transactional batches may be appended: their partitions have to be in the producer's transaction (KIP-890).

A batch that arrives late, after its transaction was ended, would otherwise begin a transaction in its partition that is never
ended. So the leader asks the transaction's coordinator unless its own log shows that the transaction is under way there. With
transactions version 2 the same request adds the partition to the transaction.

The answer may take a while, if the coordinator is on another broker or replicates first. A transaction may end meanwhile, and its
marker reach the partition; then what the coordinator said is void, and the batch is refused like one that comes too late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.log.producers import NO_OFFSET
from ottla.server.base.answers import map_answer, recover_answer
from ottla.server.base.promise import Promise
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.state import EPOCH_BUMP_SINCE, TopicPartition
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.log.producers import ProducerState
    from ottla.server.partitions.replicas import Replicas
    from ottla.server.txn.coordinator import TransactionCoordinator

TRANSIENT: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The codes that may soon be gone: the coordinator's own, and NETWORK_EXCEPTION if another broker was asked in vain."""

Codes = dict[TopicPartition, ErrorCode]
"""The error code that a coordinator has for each partition."""


class Verifier(Protocol):
    """A function that asks a transaction's coordinator."""

    def __call__(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition], *, add: bool
    ) -> Codes | Promise[Codes]:
        """Has the coordinator add the partitions to the transaction, or only look whether they are in it. Returns the error code
        of each partition, or a promise of them; the promise never fails.
        """
        ...


class Entry(NamedTuple):
    """A transactional batch that is to be appended to a partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int


def verify_here(
    coordinator: Callable[[], TransactionCoordinator],
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Sequence[TopicPartition],
    *,
    add: bool,
) -> Codes | Promise[Codes]:
    """Asks the coordinator of this broker; with its first argument bound it is a `Verifier`."""
    asked = coordinator()
    if not asked.has_topic:
        return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def refused(error: TransactionError) -> Codes:
        return dict.fromkeys(partitions, error.code_for(knows_fencing=False))

    codes: Codes | Promise[Codes]
    try:
        if add:
            added = asked.add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, client_version=EPOCH_BUMP_SINCE
            )
            codes = map_answer(added, lambda _: dict.fromkeys(partitions, ErrorCode.NONE))
        else:
            codes = asked.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)
    except TransactionError as error:
        return refused(error)
    return recover_answer(codes, TransactionError, refused)


def refused_entries(
    replicas: Replicas, verify: Verifier, transactional_id: str, entries: Sequence[Entry], *, add: bool, generic_error: bool
) -> Codes | Promise[Codes]:
    """Returns which of these batches, all of one producer, may not be appended, with their error codes; or a promise of that.
    Nobody is asked about batches whose transaction is under way in their partition.

    With `add` their partitions are added to the transaction (transactions version 2); otherwise they have to be in it already.
    `generic_error` means that the client knows TRANSACTION_ABORTABLE; older clients get INVALID_TXN_STATE.
    """
    partitions = [entry.partition for entry in entries if not _is_under_way(replicas, entry)]
    if not partitions:
        return {}
    _, producer_id, producer_epoch = entries[0]
    codes = verify(transactional_id, producer_id, producer_epoch, partitions, add=add)
    if isinstance(codes, Promise):
        markers = [_last_marker(replicas, entry) for entry in entries]
        codes = map_answer(codes, partial(_void_if_ended, replicas, entries, markers, bumps=add))
    return map_answer(codes, lambda each: _refused(each, generic_error))


def _producer(replicas: Replicas, entry: Entry) -> ProducerState | None:
    """Returns what the partition's log knows of the producer; None if nothing, or if the partition is not here."""
    replica = replicas.get(*entry.partition)
    return replica.log.producers.get(entry.producer_id) if replica is not None else None


def _is_under_way(replicas: Replicas, entry: Entry) -> bool:
    """Returns whether the partition's log has an open transaction of this very producer and epoch, so that the coordinator need
    not be asked.
    """
    state = _producer(replicas, entry)
    return state is not None and state.has_open_transaction and state.producer_epoch == entry.producer_epoch


def _last_marker(replicas: Replicas, entry: Entry) -> int:
    """Returns the offset of the producer's last marker in the partition, -1 if none is known."""
    state = _producer(replicas, entry)
    return NO_OFFSET if state is None else state.last_marker_offset


def _void_if_ended(replicas: Replicas, entries: Sequence[Entry], before: Sequence[int], codes: Codes, *, bumps: bool) -> Codes:
    """Returns the codes with INVALID_TXN_STATE for the partitions where the producer's transaction has ended since it was asked
    about. A refusal stands: the marker may be that of the transaction before, for which the coordinator has the producer wait.

    With `bumps` (transactions version 2) a marker has a higher epoch than the transaction that it ends. One with the batch's own
    epoch ended the transaction before: its EndTxn was answered before the marker was written, and the producer went on.
    """
    ended = {
        entry.partition: ErrorCode.INVALID_TXN_STATE
        for entry, marker in zip(entries, before, strict=True)
        if not codes.get(entry.partition) and _has_ended(replicas, entry, marker, bumps)
    }
    return {**codes, **ended}


def _has_ended(replicas: Replicas, entry: Entry, marker: int, bumps: bool) -> bool:
    """Returns whether a marker that ends the entry's transaction has come to the partition, where the last one was `marker`."""
    state = _producer(replicas, entry)
    if state is None or state.last_marker_offset == marker:
        return False
    return not bumps or state.producer_epoch > entry.producer_epoch


def _refused(codes: Codes, generic_error: bool) -> Codes:
    return {partition: _code_for_client(code, generic_error) for partition, code in codes.items() if code}


def _code_for_client(code: ErrorCode, generic_error: bool) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and not generic_error:
        return ErrorCode.INVALID_TXN_STATE
    return code
