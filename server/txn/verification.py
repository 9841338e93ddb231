"""Verifies that transactional batches may be appended: their partitions have to be in the producer's transaction (KIP-890).

A batch that arrives late, after its transaction was ended, would otherwise begin a transaction in its partition that is never
ended. So the leader asks the transaction's coordinator unless its own log shows that the transaction is under way there. With
transactions version 2 the same request adds the partition to the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.server.base.promise import Promise
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.state import EPOCH_BUMP_SINCE, TopicPartition
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.partitions.replicas import Replicas
    from ottla.server.txn.coordinator import TransactionCoordinator

TRANSIENT: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The coordinator's errors that may soon be gone."""


class Entry(NamedTuple):
    """A transactional batch that is to be appended to a partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int


def refused_entries(
    replicas: Replicas,
    coordinator: Callable[[], TransactionCoordinator],
    transactional_id: str,
    entries: Sequence[Entry],
    *,
    add: bool,
    generic_error: bool,
) -> dict[TopicPartition, ErrorCode]:
    """Returns which of these batches, all of one producer, may not be appended, with their error codes. `coordinator` is called
    only if the coordinator has to be asked.

    With `add` their partitions are added to the transaction (transactions version 2); otherwise they have to be in it already.
    `generic_error` means that the client knows TRANSACTION_ABORTABLE; older clients get INVALID_TXN_STATE.
    """
    entries = [entry for entry in entries if not _is_under_way(replicas, entry)]
    if not entries:
        return {}
    _, producer_id, producer_epoch = entries[0]
    partitions = [entry.partition for entry in entries]
    asked = coordinator()
    if not asked.has_topic:
        return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    codes: dict[TopicPartition, ErrorCode]
    try:
        if add:
            waits = asked.add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, client_version=EPOCH_BUMP_SINCE
            )
            return {} if waits is None else _not_replicated_yet(partitions)
        verified = asked.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)
        codes = _not_replicated_yet(partitions) if isinstance(verified, Promise) else verified
    except TransactionError as error:
        codes = dict.fromkeys(partitions, error.code_for(knows_fencing=False))
    return {partition: _code_for_client(code, generic_error) for partition, code in codes.items() if code}


def _not_replicated_yet(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Returns the code for batches that cannot wait until the coordinator's answer is replicated: the producer sends
    them again.
    """
    return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)


def _is_under_way(replicas: Replicas, entry: Entry) -> bool:
    """Returns whether the partition's log has an open transaction of this very producer and epoch, so that the coordinator need
    not be asked.
    """
    replica = replicas.get(*entry.partition)
    state = replica.log.producers.get(entry.producer_id) if replica is not None else None
    return state is not None and state.has_open_transaction and state.producer_epoch == entry.producer_epoch


def _code_for_client(code: ErrorCode, generic_error: bool) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and not generic_error:
        return ErrorCode.INVALID_TXN_STATE
    return code
