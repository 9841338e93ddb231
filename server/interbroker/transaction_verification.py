"""`VerificationChannel` asks a transaction's coordinator, on this broker or another, about its partitions (KIP-890).

A broker that is to append a transactional batch asks whether the partition belongs to the transaction, or has it added, by
AddPartitionsToTxn v4 or later. The coordinator is the leader of the transactional id's partition of `__transaction_state`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.server.base.answers import map_answer, recover_answer
from ottla.server.base.errors import known_code
from ottla.server.metadata.names import TRANSACTION_STATE
from ottla.server.peers.outcomes import PeerError
from ottla.server.txn.verification import verify_here
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from ottla.server.base.promise import Promise
    from ottla.server.interbroker.other_brokers import OtherBrokers
    from ottla.server.txn.coordinator import TransactionCoordinator
    from ottla.server.txn.state import TopicPartition
    from ottla.server.txn.verification import Codes

logger = logging.getLogger("ottla.server.txn")

BATCHED_SINCE: Final = 4
"""The first version that brokers send to each other."""
_UNCLEAR: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The error that a producer gets for an answer that says nothing about its partition: it asks again."""


class VerificationChannel:
    """Asks coordinators; it is a `Verifier` (server/txn/verification.py). `coordinator` returns that of this broker."""

    def __init__(self, others: OtherBrokers, coordinator: Callable[[], TransactionCoordinator]) -> None:
        self._others = others
        self._coordinator = coordinator

    def __call__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Codes | Promise[Codes]:
        coordinator = self._coordinator()
        if not coordinator.has_topic:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leader = self._others.leader(TRANSACTION_STATE, coordinator.partition_for(transactional_id))
        if leader == self._others.node_id:
            return verify_here(self._coordinator, transactional_id, producer_id, producer_epoch, partitions, add=add)
        if leader is None or leader < 0:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        topics: dict[str, list[int]] = {}
        for name, partition in partitions:
            topics.setdefault(name, []).append(partition)
        request = AddPartitionsToTxnRequest(
            [
                AddPartitionsToTxnTransaction(
                    transactional_id,
                    producer_id,
                    producer_epoch,
                    verify_only=not add,
                    topics=[AddPartitionsToTxnTopic(*each) for each in topics.items()],
                )
            ]
        )
        answer = self._others.ask(leader, request, min_version=BATCHED_SINCE)
        codes = map_answer(answer, partial(_codes, partitions))
        return recover_answer(codes, PeerError, lambda error: _unreachable(error, leader, partitions))


def _codes(partitions: Sequence[TopicPartition], response: AddPartitionsToTxnResponse) -> Codes:
    """Returns the code of each partition. One that the answer does not have is not verified yet."""
    whole = known_code(response.error_code, _UNCLEAR)
    if whole is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        logger.error("the coordinator may not be asked about transactions: this broker has no right to CLUSTER_ACTION there")
        return dict.fromkeys(partitions, ErrorCode.INVALID_TXN_STATE)  # the producer has the rights that it needs
    if whole is not ErrorCode.NONE:
        return dict.fromkeys(partitions, whole)
    codes = dict.fromkeys(partitions, _UNCLEAR)
    for transaction in response.results_by_transaction:
        for topic in transaction.topic_results:
            for partition in topic.results_by_partition:
                codes[topic.name, partition.partition_index] = known_code(partition.partition_error_code, _UNCLEAR)
    return codes


def _unreachable(error: PeerError, leader: int, partitions: Sequence[TopicPartition]) -> Codes:
    logger.info("the coordinator on broker %d did not say whether partitions belong to a transaction: %s", leader, error)
    return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
