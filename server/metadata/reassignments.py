"""Reassignments of partitions in a cluster of one broker, as functions of the image: nothing can move, so they make no records.

The broker's own id is the only possible target, and a partition that it holds is where it is to be. What a data directory brought
along from a larger cluster stays as it is, with the moves that were under way there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.server.base.turns import Steps, in_runs
from ottla.server.metadata.image import MetadataImage, TopicImage
from ottla.server.metadata.names import MAX_LENGTH
from ottla.server.metadata.operation import check_time
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

PARTITIONS_A_STEP: Final = 100
"""So many partitions are looked at before others may come first."""


def alter(image: MetadataImage, request: AlterPartitionReassignmentsRequest) -> Steps[AlterPartitionReassignmentsResponse]:
    """Makes steps that answer each partition of a request by itself. They raise Refused with 7 REQUEST_TIMED_OUT."""
    if request.topics:
        check_time(request.timeout_ms)
    responses = []
    for topic in request.topics:
        answers = []
        yield None
        for partition in topic.partitions:
            answers.append(_alter_partition(image, topic.name, partition))
            yield None  # after each, because it may name any number of replicas
        responses.append(ReassignableTopicResponse(topic.name, answers))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if responses else "",  # as in Kafka, which answers "" if there are no partitions
        responses=responses,
    )


def _alter_partition(image: MetadataImage, topic: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
    index, replicas = asked.partition_index, asked.replicas
    partition = image.partition(topic, index)
    code, text = ErrorCode.NONE, None
    if partition is None:
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {index} of topic '{topic[:MAX_LENGTH]}'."
    elif replicas is None:
        code, text = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    elif (wrong := _find_fault(image, replicas)) is not None:
        code, text = ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong
    elif sorted(partition.replicas) != sorted(replicas):
        text = f"The replicas on {list(partition.replicas)} cannot be moved from here."
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    return ReassignablePartitionResponse(index, code, text)


def _find_fault(image: MetadataImage, replicas: list[int]) -> str | None:
    if not replicas:
        return "A partition needs a replica."
    if len(set(replicas)) != len(replicas):
        return f"{replicas} names a broker twice."
    unknown = [broker for broker in replicas if broker not in image.brokers]
    return f"There are no brokers {unknown}." if unknown else None


def find_moving(image: MetadataImage, request: ListPartitionReassignmentsRequest) -> Steps[ListPartitionReassignmentsResponse]:
    """Makes steps that return those of the named partitions, or of all, whose metadata names replicas to add or to remove."""
    wanted: Iterable[tuple[str, Sequence[int] | None]]
    if request.topics is None:
        wanted = [(name, None) for name in image.topics]
    else:
        wanted = [(each.name, each.partition_indexes) for each in request.topics]
    found = []
    for name, named in wanted:
        topic = image.topics.get(name)
        yield None
        if topic is None:
            continue
        moving: list[OngoingPartitionReassignment] = []
        for run in in_runs(list(topic.partitions) if named is None else named, PARTITIONS_A_STEP):
            moving += _moving(topic, run)
            yield None
        if moving:
            found.append(OngoingTopicReassignment(name, moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=found)


def _moving(topic: TopicImage, indexes: Sequence[int]) -> list[OngoingPartitionReassignment]:
    found = ((index, topic.partitions[index]) for index in indexes if index in topic.partitions)
    return [
        OngoingPartitionReassignment(index, list(image.replicas), list(image.adding_replicas), list(image.removing_replicas))
        for index, image in found
        if image.adding_replicas or image.removing_replicas
    ]
