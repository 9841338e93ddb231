"""Adding partitions to topics: the rules, as functions of the image.

A request whose timeout is over, or for too many partitions, is refused as a whole: every topic in it gets the same error. Topics
that are named twice do not count for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from ottla.server.metadata import placement
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.image import MetadataImage, TopicImage
from ottla.server.metadata.operation import NO_LIMIT, Permits, Refused, check_size, check_time
from ottla.server.metadata.partition_limit import NewPartitionsInParts, PartitionLimit
from ottla.server.metadata.topics import partition_records
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.primitives import WireStruct


class Addition(NewPartitionsInParts[CreatePartitionsTopic, CreatePartitionsTopicResult]):
    """CreatePartitions, each topic on its own."""

    def __init__(
        self,
        image: MetadataImage,
        settings: ControllerSettings,
        random: Random,
        request: CreatePartitionsRequest,
        permits: Permits = NO_LIMIT,
    ) -> None:
        by_name = {topic.name: topic for topic in request.topics}
        super().__init__(by_name.values(), image, settings, permits, validate_only=request.validate_only)
        self._random = random
        self._times = Counter(topic.name for topic in request.topics)
        try:
            _check_whole(image, [topic for topic in request.topics if self._times[topic.name] == 1], request.timeout_ms)
        except Refused as refused:
            self.results = [self.refuse(topic, refused.code, refused.message) for topic in request.topics]
            self._topics.clear()

    def answer(self) -> CreatePartitionsResponse:
        """Returns the answer once the operation is over."""
        return CreatePartitionsResponse(results=self.results)

    def refuse(self, topic: CreatePartitionsTopic, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
        return CreatePartitionsTopicResult(topic.name, code, message)

    def plan_topic(self, topic: CreatePartitionsTopic) -> tuple[Sequence[WireStruct], CreatePartitionsTopicResult]:
        if self._times[topic.name] > 1:
            raise Refused(ErrorCode.INVALID_REQUEST, "The request names this topic more than once.")
        made = _create(self._image, self._settings, self._random, topic, self.take, self._limit)
        return made, CreatePartitionsTopicResult(topic.name)


def _check_whole(image: MetadataImage, topics: list[CreatePartitionsTopic], timeout_ms: int) -> None:
    """Checks what concerns the request as a whole, whatever its topics are. Raises Refused with 7 REQUEST_TIMED_OUT or 44
    POLICY_VIOLATION."""
    if topics:
        check_time(timeout_ms)
        known = [(topic.count, image.topics[topic.name]) for topic in topics if topic.name in image.topics]
        check_size(sum(max(count - len(found.partitions), 0) for count, found in known))


def _create(
    image: MetadataImage,
    settings: ControllerSettings,
    random: Random,
    topic: CreatePartitionsTopic,
    take: Callable[[int], None],
    limit: PartitionLimit,
) -> list[WireStruct]:
    """Returns the records of one topic. Raises Refused with 3 UNKNOWN_TOPIC_OR_PARTITION, 37 INVALID_PARTITIONS, 38
    INVALID_REPLICATION_FACTOR, 39 INVALID_REPLICA_ASSIGNMENT, 44 POLICY_VIOLATION or 89 THROTTLING_QUOTA_EXCEEDED."""
    found = image.topics.get(topic.name)
    if found is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(found.partitions)
    if topic.count <= have:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{topic.name}' has {have} partition(s); the new number, {topic.count}, must be larger.",
        )
    added = topic.count - have
    if topic.assignments is not None and len(topic.assignments) != added:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{added} partition(s) are added and {len(topic.assignments)} assigned."
        )
    take(added)
    replicas = _replicas(image, random, found, topic, added)
    limit.take(topic.name, replicas)
    return [*partition_records(image, settings, found.topic_id, dict(enumerate(replicas, start=have)))]


def _replicas(
    image: MetadataImage, random: Random, found: TopicImage, topic: CreatePartitionsTopic, added: int
) -> list[tuple[int, ...]]:
    factor = len(found.partitions[0].replicas)
    if topic.assignments is None:
        return placement.place(image.brokers, added, factor, random)
    for assignment in topic.assignments:
        placement.check_assignment(image.brokers, assignment.broker_ids, factor)
    return [tuple(assignment.broker_ids) for assignment in topic.assignments]
