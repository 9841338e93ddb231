"""Who leads after a start: the rule, as a function of the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.metadata.image import RECOVERED, MetadataImage, PartitionImage, TopicImage

if TYPE_CHECKING:
    from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord


def elect(image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
    """What changes when `broker_id`, the only broker, starts: a new leader epoch for every partition that it can lead.

    Kafka gets there in two steps, a fence that takes the leader away and an election, and its epoch goes up by two; one is enough
    for clients and followers to see that a leader started anew and may have lost its log's unflushed end. A partition whose
    in-sync and eligible replicas are all elsewhere keeps waiting for them.
    """
    return [
        _election(topic, index, partition, broker_id)
        for topic in image.topics.values()
        for index, partition in topic.partitions.items()
        if _can_lead(partition, broker_id)
    ]


def _can_lead(partition: PartitionImage, broker_id: int) -> bool:
    """Is all that was committed on this replica? Or, the last resort (KIP-966), was it when the last of them went?"""
    if broker_id in partition.isr or broker_id in partition.elr:
        return True
    return not partition.isr and broker_id in partition.last_known_elr


def _election(topic: TopicImage, index: int, partition: PartitionImage, broker_id: int) -> PartitionChangeRecord:
    """`broker_id` leads, and so is no longer among those that could."""
    from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord

    record = PartitionChangeRecord(index, topic.topic_id, leader=broker_id)
    if partition.leader_recovery_state != RECOVERED:
        record.leader_recovery_state = RECOVERED
    if broker_id not in partition.isr:
        record.isr = [*partition.isr, broker_id]
    if partition.elr:
        record.eligible_leader_replicas = [replica for replica in partition.elr if replica != broker_id]
    if partition.last_known_elr:
        record.last_known_elr = []
    return record
