"""Adding partitions to topics, and electing leaders when brokers come: the rules, as functions of the image."""

from __future__ import annotations

from collections import Counter
from random import Random

from ottla.server.metadata import placement
from ottla.server.metadata.image import RECOVERED, MetadataImage, PartitionImage, TopicImage
from ottla.server.metadata.operation import Outcome, Refused, check_size
from ottla.server.metadata.settings import BrokerSettings
from ottla.server.metadata.topics import partition_records
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.primitives import WireStruct


def create(
    image: MetadataImage, settings: BrokerSettings, random: Random, request: CreatePartitionsRequest
) -> Outcome[CreatePartitionsResponse]:
    """CreatePartitions. Each topic on its own; the records of those that succeed, none where `validate_only`."""
    times = Counter(topic.name for topic in request.topics)
    records: list[WireStruct] = []
    results: list[CreatePartitionsTopicResult] = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if times[topic.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "The request names this topic more than once.")
            made = _create(image, settings, random, topic)
            check_size(len(records) + len(made))
        except Refused as refused:
            results.append(CreatePartitionsTopicResult(topic.name, refused.code, refused.message))
            continue
        records += made
        results.append(CreatePartitionsTopicResult(topic.name))
    return Outcome([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _create(image: MetadataImage, settings: BrokerSettings, random: Random, topic: CreatePartitionsTopic) -> list[WireStruct]:
    """Refused: 3 UNKNOWN_TOPIC_OR_PARTITION, 37 INVALID_PARTITIONS, 38, 39, 44."""
    found = image.topics.get(topic.name)
    if found is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(found.partitions)
    if topic.count <= have:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS, f"Topic '{topic.name}' has {have} partition(s); {topic.count} would not be an increase."
        )
    added = topic.count - have
    check_size(added)
    replicas = _replicas(image, random, found, topic, added)
    return [*partition_records(image, settings, found.topic_id, dict(enumerate(replicas, start=have)))]


def _replicas(
    image: MetadataImage, random: Random, found: TopicImage, topic: CreatePartitionsTopic, added: int
) -> list[tuple[int, ...]]:
    factor = len(found.partitions[0].replicas)
    if topic.assignments is None:
        return placement.place(image.brokers, added, factor, random)
    if len(topic.assignments) != added:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{added} partition(s) are added and {len(topic.assignments)} assigned."
        )
    for assignment in topic.assignments:
        placement.check_assignment(image.brokers, assignment.broker_ids, factor)
    return [tuple(assignment.broker_ids) for assignment in topic.assignments]


def elections(image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
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
