"""`Proposals`: takes what leaders propose about in-sync replicas to the controllers (AlterPartition v3, KIP-497, KIP-903).

batching.py gathers them and sends them until they are answered. What is answered about one partition goes to who proposed it,
errors included (server/replication/isr.py says what they mean).

A leader that was elected though it was not in sync (unclean.leader.election.enable) calls the partition recovered with the first
proposal (KIP-704), as Kafka's does: it has nothing to recover from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.server.metadata.image import RECOVERED
from ottla.server.metadata.isr_changes import Answered, IsrChange, IsrChanges, IsrOutcome
from ottla.server.quorum.batching import Name, PartitionBatches
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)

_EXPECTED: Final = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INELIGIBLE_REPLICA,
    )
)
"""The errors of a partition that are to be expected, so that the next request needs no pause."""


class _Proposal(NamedTuple):
    change: IsrChange
    answered: Answered


class Proposals(PartitionBatches[_Proposal], IsrChanges):
    """The proposals that are not answered yet; see the module's docstring."""

    max_partitions = 1_000  # which takes about a turn to make and to settle
    retry_seconds = 0.05  # as long as Kafka's
    min_version = 3  # the first in which the replicas have broker epochs
    subject = "new in-sync replicas"

    def propose(self, change: IsrChange, answered: Answered) -> None:
        """See IsrChanges."""
        self.gather([((change.topic_id, change.partition), _Proposal(change, answered))])

    def request(self, broker_epoch: int, batch: Mapping[Name, _Proposal]) -> AlterPartitionRequest:
        """See PartitionBatches."""
        return AlterPartitionRequest(self._node_id, broker_epoch, _by_topic(batch))

    def settle(self, answer: AlterPartitionResponse, batch: dict[Name, _Proposal]) -> bool:
        """See PartitionBatches. Each answer is passed to who made the proposal, whatever it says."""
        expected = True
        for topic in answer.topics:
            for data in topic.partitions:
                proposal = batch.pop((topic.topic_id, data.partition_index), None)
                if proposal is not None:
                    expected &= data.error_code in _EXPECTED
                    proposal.answered(IsrOutcome(data.error_code, data.leader_epoch, data.partition_epoch, tuple(data.isr)))
        return expected


def _by_topic(batch: Mapping[Name, _Proposal]) -> list[RequestTopicData]:
    topics: dict[bytes, list[RequestPartitionData]] = {}
    for (topic_id, index), (change, _) in batch.items():
        isr = [BrokerState(broker_id, epoch) for broker_id, epoch in change.isr]
        partition = RequestPartitionData(
            index,
            change.leader_epoch,
            new_isr_with_epochs=isr,
            leader_recovery_state=RECOVERED,
            partition_epoch=change.partition_epoch,
        )
        topics.setdefault(topic_id, []).append(partition)
    return [RequestTopicData(topic_id, partitions) for topic_id, partitions in topics.items()]
