"""Guards of the APIs about the records of partitions. What is refused is answered 29 TOPIC_AUTHORIZATION_FAILED, partition by
partition, whether or not the topic exists; Produce by id is answered 100 UNKNOWN_TOPIC_ID for one that does not.

Fetch is no such API: its handler asks itself, because its sessions outlive a request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ottla.server.base.errors import CloseConnection
from ottla.server.guards.ask import TEXTS, TOPIC, TRANSACTION, mend, topic_name, without
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
    DeleteRecordsTopicResult,
)
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_ATTRIBUTES_AT: Final = 22  # of the low byte, in a batch
_NO_OFFSET: Final = -1
_NOBODY: Final = 0
"""The acks of a client that wants no answer."""


def produce(ask: Ask, handle: Handle, body: ProduceRequest, request: Request) -> Any:
    """WRITE on each topic. WRITE on the transactional id if there is one and a batch is transactional: what is in the batches
    counts, and those without an id are refused, whoever asks. A client that wants no answer is disconnected."""
    topics = body.topic_data
    code, refused = TOPIC, list[TopicProduceData]()
    transaction = body.transactional_id
    is_transactional = transaction is not None and _has_transactional_batches(topics)
    if transaction is not None and is_transactional and not ask.transaction(Operation.WRITE, transaction):
        code, refused = TRANSACTION, topics
    else:
        for topic in topics:
            name = topic.name or topic_name("", topic.topic_id, request)
            if name is not None and not ask.topic(Operation.WRITE, name):
                refused.append(topic)
    if not refused:
        return handle(body, request)
    if transaction is None and _has_transactional_batches(topics):
        code, refused = TRANSACTION, topics  # as the handler does; what is refused is never passed on, whatever it makes of it
    body.topic_data = without(topics, refused)
    responses = [_refused_topic(topic, code) for topic in refused]

    def add(answer: ProduceResponse | None) -> ProduceResponse:
        request.failed = True
        if body.acks == _NOBODY:
            raise CloseConnection(f"acks is 0, and it may not write to {len(refused)} of the topics")
        if answer is None:
            return ProduceResponse(responses)
        answer.responses += responses
        return answer

    return mend(handle(body, request) if body.topic_data else None, add)


def _has_transactional_batches(topics: Iterable[TopicProduceData]) -> bool:
    batches = (data.records for topic in topics for data in topic.partition_data if data.records is not None)
    return any(len(batch) >= HEADER_SIZE and batch[_ATTRIBUTES_AT] & TRANSACTIONAL_BIT for batch in batches)


def _refused_topic(topic: TopicProduceData, code: ErrorCode) -> TopicProduceResponse:
    nothing = _NO_OFFSET, _NO_OFFSET, _NO_OFFSET
    answers = [PartitionProduceResponse(data.index, code, *nothing) for data in topic.partition_data]
    return TopicProduceResponse(topic.name, topic.topic_id, answers)


def list_offsets(ask: Ask, handle: Handle, body: ListOffsetsRequest, request: Request) -> Any:
    """DESCRIBE on each topic."""
    refused = [topic for topic in body.topics if not ask.topic(Operation.DESCRIBE, topic.name)]
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)

    def add(answer: ListOffsetsResponse) -> ListOffsetsResponse:
        for topic in refused:
            partitions = [
                ListOffsetsPartitionResponse(each.partition_index, TOPIC, _NO_OFFSET, _NO_OFFSET) for each in topic.partitions
            ]
            answer.topics.append(ListOffsetsTopicResponse(topic.name, partitions))
        return answer

    return mend(handle(body, request), add)


def offset_for_leader_epoch(ask: Ask, handle: Handle, body: OffsetForLeaderEpochRequest, request: Request) -> Any:
    """DESCRIBE on each topic, or CLUSTER_ACTION, which other brokers have."""
    if ask.cluster(Operation.CLUSTER_ACTION, quiet=True):
        return handle(body, request)
    refused = [topic for topic in body.topics if not ask.topic(Operation.DESCRIBE, topic.topic)]
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)

    def add(answer: OffsetForLeaderEpochResponse) -> OffsetForLeaderEpochResponse:
        for topic in refused:
            ends = [EpochEndOffset(TOPIC, each.partition, -1, _NO_OFFSET) for each in topic.partitions]
            answer.topics.append(OffsetForLeaderTopicResult(topic.topic, ends))
        return answer

    return mend(handle(body, request), add)


def delete_records(ask: Ask, handle: Handle, body: DeleteRecordsRequest, request: Request) -> Any:
    """DELETE on each topic."""
    refused = [topic for topic in body.topics if not ask.topic(Operation.DELETE, topic.name)]
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)

    def add(answer: DeleteRecordsResponse) -> DeleteRecordsResponse:
        for topic in refused:
            results = [DeleteRecordsPartitionResult(each.partition_index, _NO_OFFSET, TOPIC) for each in topic.partitions]
            answer.topics.append(DeleteRecordsTopicResult(topic.name, results))
        return answer

    return mend(handle(body, request), add)


def describe_producers(ask: Ask, handle: Handle, body: DescribeProducersRequest, request: Request) -> Any:
    """READ on each topic."""
    refused = [topic for topic in body.topics if not ask.topic(Operation.READ, topic.name)]
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)
    long_answers = request.broker.long_answers

    def add(answer: DescribeProducersResponse) -> DescribeProducersResponse:
        for topic in refused:
            partitions = [PartitionResponse(index, TOPIC, TEXTS[TOPIC]) for index in topic.partition_indexes]
            answer.topics.append(TopicResponse(topic.name, long_answers.bounded(partitions)))
        return answer

    return mend(handle(body, request), add)
