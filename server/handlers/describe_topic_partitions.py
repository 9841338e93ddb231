"""DescribeTopicPartitions v0 lists topics and their partitions page by page, with eligible leader replicas (KIP-966).

- An empty list asks for all topics. Each topic is answered once, in the order of the names; unknown ones stand among the others.
- A page has at least one partition, and ends after `response_partition_limit` partitions or after
  `max.request.partition.size.limit`, whichever is less. `next_cursor` says where the next page begins; the client sends it as
  `cursor`, with the same topics. Topics before the cursor are left out. If the cursor is past the last partition of its topic,
  the page begins with the next topic.
- A partition whose leader has no address on the client's listener has leader -1, and no error.
- Errors of a topic: 3 UNKNOWN_TOPIC_OR_PARTITION, 17 INVALID_TOPIC_EXCEPTION. 42 INVALID_REQUEST for every topic of the request,
  in its order, if the cursor's topic is not among them or its partition is negative. When all topics are asked for, nothing can
  carry that error, and the answer is empty.
- Kafka 4.4 answers -1 for every topic if one has no name, and fails on cursors near 2**31; neither is imitated.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.server.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.server.metadata.names import INTERNAL_TOPICS, invalid_reason
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.operations import TOPIC_OPERATIONS
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
)

TRAITS = Traits(Inside(Need(Operation.DESCRIBE, Resource.TOPIC)))


def handle(body: DescribeTopicPartitionsRequest, request: Request) -> DescribeTopicPartitionsResponse:
    image, cursor = request.broker.metadata, body.cursor
    asked = [topic.name for topic in body.topics]
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        code = ErrorCode.INVALID_REQUEST
        return DescribeTopicPartitionsResponse(topics=[DescribeTopicPartitionsResponseTopic(code, name) for name in asked])
    names = set(asked) or image.topics.keys()
    if cursor is not None:
        names = {name for name in names if _sort_key(name) >= _sort_key(cursor.topic_name)}
    limit: int = request.broker.config.values["max.request.partition.size.limit"]
    return _make_page(sorted(names, key=_sort_key), cursor, max(1, min(limit, body.response_partition_limit)), request)


def _sort_key(name: str) -> bytes:
    """Returns what to sort names by: Kafka compares strings by their UTF-16 units."""
    return name.encode("utf-16-be")


def _make_page(
    names: Iterable[str], cursor: RequestCursor | None, limit: int, request: Request
) -> DescribeTopicPartitionsResponse:
    """Returns one page. The first of `names` is that of the cursor's topic, if it exists."""
    view = _View(request.broker.metadata, request.session.listener)
    answer = DescribeTopicPartitionsResponse()
    for name in names:
        if not limit:
            answer.next_cursor = ResponseCursor(name, 0)
            break
        topic = view.image.topics.get(name)
        if topic is None:
            invalid = invalid_reason(name) is not None
            code = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            missing = DescribeTopicPartitionsResponseTopic(code, name, is_internal=name in INTERNAL_TOPICS)
            missing.topic_authorized_operations = TOPIC_OPERATIONS
            answer.topics.append(missing)
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(first + limit, len(topic.partitions))
        answer.topics.append(view.topic(topic, range(first, end)))
        limit -= max(0, end - first)
        if end < len(topic.partitions):
            answer.next_cursor = ResponseCursor(name, end)
            break
    return answer


class _View:
    """Shows the metadata image as clients of one listener see it."""

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self.image = image
        self._reachable = {
            broker.broker_id for broker in image.brokers.values() if not broker.fenced and listener in broker.endpoints
        }

    def topic(self, topic: TopicImage, indexes: range) -> DescribeTopicPartitionsResponseTopic:
        return DescribeTopicPartitionsResponseTopic(
            ErrorCode.NONE,
            topic.name,
            topic.topic_id,
            topic.name in INTERNAL_TOPICS,
            [self._partition(index, topic.partitions[index]) for index in indexes],
            TOPIC_OPERATIONS,
        )

    def _partition(self, index: int, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
        brokers = self.image.brokers
        return DescribeTopicPartitionsResponsePartition(
            ErrorCode.NONE,
            index,
            partition.leader if partition.leader in self._reachable else -1,
            partition.leader_epoch,
            list(partition.replicas),
            list(partition.isr),
            list(partition.elr),
            list(partition.last_known_elr),
            [replica for replica in partition.replicas if replica not in brokers or brokers[replica].fenced],
        )
