"""DescribeProducers v0 lists the idempotent and transactional producers that partitions remember (KIP-664).

- Every replica answers, a follower with what it has copied. A producer is remembered until it has been silent for
  producer.id.expiration.ms.
- `last_sequence` is -1 before the first batch of an epoch, `current_txn_start_offset` is -1 without an open transaction, and
  `coordinator_epoch` is -1 as long as no transaction has ended here.
- Partitions and topics that are named twice are answered twice.
- Errors of each partition: 3 UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER, 17 INVALID_TOPIC_EXCEPTION, 56
  KAFKA_STORAGE_ERROR. Those that concern the whole topic come with a message.
"""

from __future__ import annotations

from ottla.log.disk.checkpoint import TopicPartition
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.metadata.names import invalid_reason
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)

TRAITS = Traits(Inside(Need(Operation.READ, Resource.TOPIC)), long_answer=True)


def handle(body: DescribeProducersRequest, request: Request) -> DescribeProducersResponse | Promise[DescribeProducersResponse]:
    return take_steps(_describe(body, request), request.broker.clock)


def _describe(body: DescribeProducersRequest, request: Request) -> Steps[DescribeProducersResponse]:
    known: dict[TopicPartition, PartitionResponse] = {}
    topics = []
    for topic in body.topics:
        topics.append((yield from _topic(topic, known, request)))
        yield None
    return DescribeProducersResponse(topics=request.broker.long_answers.bounded(topics))


def _topic(topic: TopicRequest, known: dict[TopicPartition, PartitionResponse], request: Request) -> Steps[TopicResponse]:
    """Answers for one topic; `known` are the partitions that the request named before."""
    code, message = ErrorCode.NONE, invalid_reason(topic.name)
    if message is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif topic.name not in request.broker.metadata.topics:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{topic.name}'."
    answers = []
    for index in topic.partition_indexes:
        answer = known.get((topic.name, index))
        if answer is None:
            refused = code is not ErrorCode.NONE
            answer = PartitionResponse(index, code, message) if refused else _partition(topic.name, index, request)
            known[topic.name, index] = answer
        answers.append(answer)
        yield None
    return TopicResponse(topic.name, request.broker.long_answers.bounded(answers))


def _partition(topic: str, index: int, request: Request) -> PartitionResponse:
    replica = request.broker.replicas.get(topic, index)
    if replica is None:
        return PartitionResponse(index, request.broker.replicas.why_missing(topic, index))
    if replica.log.directory.failed is not None:
        return PartitionResponse(index, ErrorCode.KAFKA_STORAGE_ERROR)
    return PartitionResponse(
        index,
        active_producers=request.broker.long_answers.shared(
            ProducerState(
                state.producer_id,
                state.producer_epoch,
                state.last_sequence,
                state.last_timestamp_ms,
                state.coordinator_epoch,
                state.txn_first_offset,
            )
            for state in replica.log.producers.in_kafkas_order()
        ),
    )
