"""Guards of the APIs about the records of partitions. What is refused is answered 29 TOPIC_AUTHORIZATION_FAILED, partition by
partition, whether or not the topic exists; Produce by id is answered 100 UNKNOWN_TOPIC_ID for one that does not.

Fetch is no such API: its handler asks itself, because its sessions outlive a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from ottla.server.base.errors import CloseConnection
from ottla.server.base.turns import Steps
from ottla.server.guards.ask import (
    TEXTS,
    TOPIC,
    TRANSACTION,
    change_answer,
    in_turns,
    make_each,
    select,
    topic_name,
    without,
)
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.server.security.rights import Operation
from ottla.wire.batch import HEADER_SIZE, TRANSACTIONAL_BIT
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
    TopicResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_FEW_TOPICS: Final = 10
_ATTRIBUTES_AT: Final = 22  # of the low byte, in a batch
_NO_OFFSET: Final = -1
_NOBODY: Final = 0
"""The acks of a client that wants no answer."""


def count_known(writable: Mapping[str, bool], body: ProduceRequest) -> int:
    """Returns how many topics a Produce is to, if nothing need be decided: they are few, by name, without a transactional id, and
    it is known (Rights.writable) that the client may write to all of them. Otherwise 0."""
    topics = body.topic_data
    if body.transactional_id is not None or len(topics) > _FEW_TOPICS:
        return 0
    for topic in topics:
        name = topic.name
        if not name or not writable.get(name):
            return 0
    return len(topics)


def _copy_records(body: ProduceRequest) -> None:
    for topic in body.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = bytes(data.records)


@partial(in_turns, on_pause=_copy_records)
def produce(ask: Ask, handle: Handle, body: ProduceRequest, request: Request) -> Steps[Any]:
    """Asks for WRITE on each topic, and for WRITE on the transactional id if there is one and a batch is transactional: what is
    in the batches counts, and those without an id are refused, whoever asks. A client that wants no answer is disconnected."""
    topics = body.topic_data
    code, refused = TOPIC, list[TopicProduceData]()
    transaction = body.transactional_id
    is_transactional = transaction is not None and _has_transactional_batches(topics)
    if transaction is not None and is_transactional and not ask.transaction(Operation.WRITE, transaction):
        code, refused = TRANSACTION, topics
    else:
        refused = yield from select(topics, lambda topic: _may_not_write(topic, ask, request))
    if not refused:
        return handle(body, request)
    if transaction is None and _has_transactional_batches(topics):
        code, refused = TRANSACTION, topics  # as the handler does; what is refused is never passed on, whatever it makes of it
    body.topic_data = without(topics, refused)
    responses = yield from make_each(refused, lambda topic: _refused_topic(topic, code))

    def add(answer: ProduceResponse | None) -> ProduceResponse:
        request.failed = True
        if body.acks == _NOBODY:
            raise CloseConnection(f"acks is 0, and it may not write to {len(refused)} of the topics")
        if answer is None:
            return ProduceResponse(responses)
        answer.responses += responses
        return answer

    return change_answer(handle(body, request) if body.topic_data else None, add)


def _may_not_write(topic: TopicProduceData, ask: Ask, request: Request) -> bool:
    name = topic.name or topic_name("", topic.topic_id, request)
    return name is not None and not ask.topic(Operation.WRITE, name)


def _has_transactional_batches(topics: Iterable[TopicProduceData]) -> bool:
    batches = (data.records for topic in topics for data in topic.partition_data if data.records is not None)
    return any(len(batch) >= HEADER_SIZE and batch[_ATTRIBUTES_AT] & TRANSACTIONAL_BIT for batch in batches)


def _refused_topic(topic: TopicProduceData, code: ErrorCode) -> TopicProduceResponse:
    nothing = _NO_OFFSET, _NO_OFFSET, _NO_OFFSET
    answers = [PartitionProduceResponse(data.index, code, *nothing) for data in topic.partition_data]
    return TopicProduceResponse(topic.name, topic.topic_id, answers)


@in_turns
def list_offsets(ask: Ask, handle: Handle, body: ListOffsetsRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE on each topic."""
    refused = yield from select(body.topics, lambda topic: not ask.topic(Operation.DESCRIBE, topic.name))
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)
    responses = yield from make_each(refused, _refused_list_offsets)

    def add(answer: ListOffsetsResponse) -> ListOffsetsResponse:
        answer.topics += responses
        return answer

    return change_answer(handle(body, request), add)


def _refused_list_offsets(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    nothing = _NO_OFFSET, _NO_OFFSET
    partitions = [ListOffsetsPartitionResponse(partition.partition_index, TOPIC, *nothing) for partition in topic.partitions]
    return ListOffsetsTopicResponse(topic.name, partitions)


@in_turns
def offset_for_leader_epoch(ask: Ask, handle: Handle, body: OffsetForLeaderEpochRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE on each topic, or CLUSTER_ACTION, which other brokers have."""
    if ask.cluster(Operation.CLUSTER_ACTION, quiet=True):
        return handle(body, request)
    refused = yield from select(body.topics, lambda topic: not ask.topic(Operation.DESCRIBE, topic.topic))
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)
    responses = yield from make_each(refused, _refused_epochs)

    def add(answer: OffsetForLeaderEpochResponse) -> OffsetForLeaderEpochResponse:
        answer.topics += responses
        return answer

    return change_answer(handle(body, request), add)


def _refused_epochs(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    ends = [EpochEndOffset(TOPIC, partition.partition, -1, _NO_OFFSET) for partition in topic.partitions]
    return OffsetForLeaderTopicResult(topic.topic, ends)


@in_turns
def delete_records(ask: Ask, handle: Handle, body: DeleteRecordsRequest, request: Request) -> Steps[Any]:
    """Asks for DELETE on each topic."""
    refused = yield from select(body.topics, lambda topic: not ask.topic(Operation.DELETE, topic.name))
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)
    responses = yield from make_each(refused, _refused_deletions)

    def add(answer: DeleteRecordsResponse) -> DeleteRecordsResponse:
        answer.topics += responses
        return answer

    return change_answer(handle(body, request), add)


def _refused_deletions(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    results = [DeleteRecordsPartitionResult(partition.partition_index, _NO_OFFSET, TOPIC) for partition in topic.partitions]
    return DeleteRecordsTopicResult(topic.name, results)


@in_turns
def describe_producers(ask: Ask, handle: Handle, body: DescribeProducersRequest, request: Request) -> Steps[Any]:
    """Asks for READ on each topic."""
    refused = yield from select(body.topics, lambda topic: not ask.topic(Operation.READ, topic.name))
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)
    long_answers = request.broker.long_answers

    def refuse(topic: TopicRequest) -> TopicResponse:
        partitions = [PartitionResponse(index, TOPIC, TEXTS[TOPIC]) for index in topic.partition_indexes]
        return TopicResponse(topic.name, long_answers.bounded(partitions))

    responses = yield from make_each(refused, refuse)

    def add(answer: DescribeProducersResponse) -> DescribeProducersResponse:
        answer.topics += responses
        return answer

    return change_answer(handle(body, request), add)
