"""Creating and deleting topics: the rules, as functions of the image.

A CreateTopics whose timeout is over, or for too many partitions, is refused as a whole: every topic in it gets the same error.
Topics that are named twice do not count for that. Then each new topic is checked in this order, and the first failure is the
answer: name, collision, existence, null settings, settings, manual assignment, replication factor, partition count, placement.
The answers to these failures are the rows CT* of docs/kafka-behaviour.md (tests/server/metadata/test_topics.py); the codes are
Kafka's, the sentences ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

from ottla.log.config import TOPIC_SETTINGS
from ottla.server.base.randomness import random_uuid
from ottla.server.metadata import configs, placement
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.image import TOPIC, MetadataImage, TopicImage
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.metadata.operation import NO_LIMIT, PART_SIZE, InParts, Permits, Refused, check_name, check_size, check_time
from ottla.server.metadata.partition_limit import NewPartitionsInParts
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.primitives import ZERO_UUID, WireStruct, uuid_to_text

DEFAULT: Final = -1
"""The number of partitions or replicas that leaves the choice to the broker."""


class NewPartitions(NamedTuple):
    """The replicas of each new partition by its index, in order of index."""

    replicas: dict[int, tuple[int, ...]]

    @property
    def replication_factor(self) -> int:
        return len(self.replicas[0])


class Creation(NewPartitionsInParts[CreatableTopic, CreatableTopicResult]):
    """CreateTopics, each topic on its own."""

    def __init__(
        self,
        image: MetadataImage,
        settings: ControllerSettings,
        random: Random,
        request: CreateTopicsRequest,
        permits: Permits = NO_LIMIT,
    ) -> None:
        times = Counter(topic.name for topic in request.topics)
        named_once = (topic for topic in request.topics if times[topic.name] == 1)
        super().__init__(named_once, image, settings, permits, validate_only=request.validate_only)
        self._random = random
        self._repeated = [name for name, count in times.items() if count > 1]
        self._made: set[str] = set()
        """The names of the topics that this operation creates."""
        self._records = self._records_before = 0
        """The number of records that the operation has by now, and that it had before the present part."""
        self._described: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}
        """The descriptions in the answer of the settings of the present part's topics, by what these set themselves."""
        self._refusal: Refused | None = None
        """The reason why all topics are refused; None if they are not."""
        try:
            _check_whole([topic for topic in self._topics if topic.name != CLUSTER_METADATA], settings, request.timeout_ms)
        except Refused as refused:
            self._refuse_all(request, refused)

    def _refuse_all(self, request: CreateTopicsRequest, refused: Refused) -> None:
        self.results = [self.refuse(topic, refused.code, refused.message) for topic in request.topics]
        self._topics.clear()
        self._repeated = []

    def answer(self) -> CreateTopicsResponse:
        """Returns the answer once the operation is over."""
        repeated = [
            _failure(name, ErrorCode.INVALID_REQUEST, "The request names this topic more than once.") for name in self._repeated
        ]
        return CreateTopicsResponse(topics=self.results + repeated)

    def undo(self) -> None:
        self._made.difference_update(topic.name for topic in self._planned)
        self._records = self._records_before
        super().undo()

    def plan(self) -> list[WireStruct]:
        self._records_before = self._records
        self._described.clear()
        return super().plan()

    def refuse(self, topic: CreatableTopic, code: ErrorCode, message: str | None) -> CreatableTopicResult:
        return _failure(topic.name, code, message)

    def plan_topic(self, topic: CreatableTopic) -> tuple[Sequence[WireStruct], CreatableTopicResult]:
        """Returns the records of one topic (topic, settings, partitions, in Kafka's order) and the answer. Raises Refused."""
        image, settings = self._image, self._settings
        _check_new_name(image, topic.name, self._made)
        overrides = _overrides(topic)
        described = self._described_settings(overrides)
        partitions = _partitions(image, settings, self._random, topic)
        size = 1 + len(overrides) + len(partitions.replicas)
        check_size(size)
        topic_id = random_uuid(self._random)
        records: list[WireStruct] = [TopicRecord(topic.name, topic_id)]
        records += configs.records(TOPIC, topic.name, overrides)
        records += partition_records(image, settings, topic_id, partitions.replicas)
        check_size(self._records + size)
        self._limit.take(topic.name, partitions.replicas.values())
        self.take(len(partitions.replicas))
        self._records += size
        self._made.add(topic.name)
        return records, CreatableTopicResult(
            topic.name,
            topic_id,
            ErrorCode.NONE,
            None,
            num_partitions=len(partitions.replicas),
            replication_factor=partitions.replication_factor,
            configs=described,
        )

    def _described_settings(self, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
        """Checks what a topic sets itself, and returns what the answer says about its settings. Raises Refused."""
        key = tuple(overrides.items())
        found = self._described.get(key)
        if found is None:
            configs.check_lengths(overrides)
            configs.check_topic(self._settings, overrides)
            found = self._described[key] = [
                CreatableTopicConfigs(entry.name, entry.value, entry.read_only, entry.source, entry.sensitive)
                for entry in self._settings.sources(self._image).of_new_topic(TOPIC_SETTINGS, overrides)
            ]
        return found


def _check_whole(topics: list[CreatableTopic], settings: ControllerSettings, timeout_ms: int) -> None:
    """Checks what concerns the request as a whole, whatever its topics are. Raises Refused with 7 REQUEST_TIMED_OUT or 44
    POLICY_VIOLATION."""
    if topics:
        check_time(timeout_ms)
        check_size(sum(_count(topic, settings) for topic in topics))


def _count(topic: CreatableTopic, settings: ControllerSettings) -> int:
    """Returns how many partitions a topic asks for; a number that is not valid counts as 0."""
    if topic.assignments:
        return len(topic.assignments)
    return settings.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)


def _failure(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=code, error_message=message)


def _check_new_name(image: MetadataImage, name: str, made: Container[str]) -> None:
    """Checks the name of a topic that is to be created. Topics in `made`, which the same request creates, may have one like it,
    as in Kafka. Raises Refused."""
    if name == CLUSTER_METADATA:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{CLUSTER_METADATA} belongs to the controller and cannot be created.")
    check_name(name)
    if name in image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = next((each for each in image.named_like(name) if each not in made), None)
    if other is not None:
        why = f"'{name}' is too similar to the existing topic '{other}': in metrics, '.' and '_' are the same."
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise Refused(ErrorCode.INVALID_CONFIG, f"A topic's settings cannot be null: {', '.join(nulls)}.")
    return {config.name: config.value for config in topic.configs if config.value is not None}


def _partitions(image: MetadataImage, settings: ControllerSettings, random: Random, topic: CreatableTopic) -> NewPartitions:
    if topic.assignments:
        return _assigned(image, topic)
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor must be 1 or more, or -1 for the default.")
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        raise Refused(ErrorCode.INVALID_PARTITIONS, "The number of partitions must be 1 or more, or -1 for the default.")
    factor = settings.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    return NewPartitions(dict(enumerate(placement.place(image.brokers, _count(topic, settings), factor, random))))


def _assigned(image: MetadataImage, topic: CreatableTopic) -> NewPartitions:
    """Returns the partitions of a topic for which the client chose the replicas itself. Raises Refused with 42 INVALID_REQUEST or
    39 INVALID_REPLICA_ASSIGNMENT."""
    if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "With a manual assignment, the numbers of partitions and replicas must both be -1."
        )
    assigned: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        if assignment.partition_index in assigned:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {assignment.partition_index} is assigned more than once."
            )
        placement.check_assignment(image.brokers, assignment.broker_ids, factor)
        factor = len(assignment.broker_ids)
        assigned[assignment.partition_index] = tuple(assignment.broker_ids)
    if sorted(assigned) != list(range(len(assigned))):
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Assigned partitions must be numbered 0, 1, 2 without a gap.")
    return NewPartitions(dict(sorted(assigned.items())))


def partition_records(
    image: MetadataImage, settings: ControllerSettings, topic_id: bytes, partitions: dict[int, tuple[int, ...]]
) -> list[PartitionRecord]:
    """Returns the records of new partitions, each led by its first active replica. Raises Refused with 38
    INVALID_REPLICATION_FACTOR if no replica of one is active."""
    placed: dict[tuple[int, ...], tuple[list[int], list[int], list[bytes]]] = {}
    records = []
    for index, replicas in partitions.items():
        known = placed.get(replicas)
        if known is None:  # of 10,000 partitions, most have the same replicas as another one
            isr = [broker_id for broker_id in replicas if image.brokers[broker_id].active]
            if not isr:
                raise Refused(
                    ErrorCode.INVALID_REPLICATION_FACTOR, "No broker can lead the partition: all are fenced or stopping."
                )
            directories = [settings.directory_of(broker_id, image.brokers[broker_id].log_dirs) for broker_id in replicas]
            known = placed[replicas] = list(replicas), isr, directories
        listed, isr, directories = known
        partition = PartitionRecord(index, topic_id, listed, isr, leader=isr[0], leader_epoch=0, partition_epoch=0)
        partition.directories = directories
        records.append(partition)
    return records


class Deletion(InParts[tuple[TopicImage, int], DeletableTopicResult]):
    """DeleteTopics in the form of version 6, where `request.topics` has names or ids. A topic that is named twice is not
    deleted. Nothing is planned before `look_up` has run through."""

    def __init__(self, image: MetadataImage, request: DeleteTopicsRequest, permits: Permits = NO_LIMIT) -> None:
        super().__init__((), permits)
        self._image = image
        self._request = request
        self._refused: list[DeletableTopicResult] = []

    def look_up(self) -> Iterator[None]:
        """Finds the topics that the request names. Yields after each PART_SIZE of them, where others may come in between."""
        request = self._request
        states = Counter((state.name, state.topic_id) for state in request.topics)
        if any(times == 1 and (name is None) != (topic_id == ZERO_UUID) for (name, topic_id), times in states.items()):
            try:
                check_time(request.timeout_ms)
            except Refused as refused:
                self._refused = [DeletableTopicResult(state.name, state.topic_id, refused.code) for state in request.topics]
                return
        found: dict[str, tuple[TopicImage, int]] = {}  # name -> (topic, how often the request names it)
        for number, ((name, topic_id), times) in enumerate(states.items(), 1):
            if number % PART_SIZE == 0:
                yield
            try:
                if times > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, "The request names this topic more than once.")
                topic = _topic_named_by(self._image, DeleteTopicState(name, topic_id))
            except Refused as refused:
                self._refused.append(DeletableTopicResult(name, topic_id, refused.code, refused.message))
                continue
            found[topic.name] = topic, found.get(topic.name, (topic, 0))[1] + 1
        self._topics.extend(found.values())

    def answer(self) -> DeleteTopicsResponse:
        """Returns the answer once the operation is over."""
        return DeleteTopicsResponse(responses=self._refused + self.results)

    def refuse(self, topic: tuple[TopicImage, int], code: ErrorCode, message: str | None) -> DeletableTopicResult:
        return DeletableTopicResult(topic[0].name, topic[0].topic_id, code, message)

    def plan_topic(self, topic: tuple[TopicImage, int]) -> tuple[Sequence[WireStruct], DeletableTopicResult]:
        found, times = topic
        if times > 1:
            raise Refused(ErrorCode.INVALID_REQUEST, "The request names this topic by its name and by its id.")
        if found.topic_id not in self._image.topics_by_id:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{found.name}'.")
        self.take(len(found.partitions))
        self.size += len(found.partitions)
        return [RemoveTopicRecord(found.topic_id)], DeletableTopicResult(found.name, found.topic_id)


def _topic_named_by(image: MetadataImage, state: DeleteTopicState) -> TopicImage:
    """Returns the topic that an entry of the request names. Raises Refused with 42 INVALID_REQUEST, 3 UNKNOWN_TOPIC_OR_PARTITION
    or 100 UNKNOWN_TOPIC_ID."""
    if state.name is not None and state.topic_id != ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, "A topic is named by its name or by its id, not by both.")
    if state.name is None and state.topic_id == ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, "Neither the name nor the id of a topic is given.")
    if state.name is None:
        topic = image.topics_by_id.get(state.topic_id)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {uuid_to_text(state.topic_id)}.")
    else:
        topic = image.topics.get(state.name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{state.name}'.")
    return topic
