"""Elections at the start and the stop of the only broker: the rules, as functions of the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.server.metadata.image import NO_LEADER, RECOVERED, MetadataImage, PartitionImage, TopicImage

if TYPE_CHECKING:
    from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord


def everything_is_here(topic: str, index: int, directory_id: bytes) -> bool:
    """Returns True, for a broker that has every log directory that it ever had."""
    return True


def elect(
    image: MetadataImage, broker_id: int, is_here: Callable[[str, int, bytes], bool] = everything_is_here
) -> list[PartitionChangeRecord]:
    """Returns what changes when `broker_id`, the only broker, starts: a new leader epoch for every partition that it can lead.

    Kafka needs two steps, a fence that takes the leader away and an election, so its epoch rises by two. One is enough for
    clients and followers to see that a leader has restarted and may have lost the unflushed end of its log. A partition whose
    in-sync and eligible replicas are all on other brokers waits for these without a leader, and so does one whose log directory
    is gone: `is_here` says whether it is there, by topic, partition and the id of the directory that the metadata names.
    """
    records = []
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if not _can_lead(partition, broker_id):
                continue
            directory_id = partition.directory_of(broker_id)
            if directory_id is not None and not is_here(topic.name, index, directory_id):
                if partition.leader == broker_id:
                    records.append(_resignation(topic, index))
                continue
            records.append(_election(topic, index, partition, broker_id))
    return records


def resign(image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
    """Returns what changes when `broker_id` stops: what it led has no leader. It stays in sync, and will be elected when it is
    back."""
    return [
        _resignation(topic, index)
        for topic in image.topics.values()
        for index, partition in topic.partitions.items()
        if partition.leader == broker_id
    ]


def _resignation(topic: TopicImage, index: int) -> PartitionChangeRecord:
    from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord

    return PartitionChangeRecord(index, topic.topic_id, leader=NO_LEADER)


def _can_lead(partition: PartitionImage, broker_id: int) -> bool:
    """Returns whether this replica has all that was committed, or, as the last resort (KIP-966), had it when the last in-sync
    replica went."""
    if broker_id in partition.isr or broker_id in partition.elr:
        return True
    return not partition.isr and broker_id in partition.last_known_elr


def _election(topic: TopicImage, index: int, partition: PartitionImage, broker_id: int) -> PartitionChangeRecord:
    """Returns the record that makes `broker_id` leader and takes it out of the eligible leader replicas."""
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
