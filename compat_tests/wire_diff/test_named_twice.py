"""Requests that name the same thing again: what they look up is answered each time, in the order of the request."""

from __future__ import annotations

from typing import Any

from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.same import same_answer
from ottla.wire.messages import find_coordinator, offset_commit, offset_fetch
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest

TOPIC, BROKER = 2, 4


@same_answer("configs of a resource twice")
def test_configs(wire: Wire) -> Any:
    topic = wire.create("t", 1, retention_ms="1000")
    keys = ["retention.ms", "segment.bytes"]
    resources = [
        DescribeConfigsResource(TOPIC, topic, keys),
        DescribeConfigsResource(TOPIC, topic, keys[:1]),
        DescribeConfigsResource(TOPIC, topic, keys),
        DescribeConfigsResource(BROKER, "1", ["num.partitions"]),
        DescribeConfigsResource(BROKER, "+1", ["num.partitions"]),
        DescribeConfigsResource(BROKER, "1", ["num.partitions", "num.partitions"]),
    ]
    return [wire.call(DescribeConfigsRequest(resources, True, False), version) for version in (1, 4)]


@same_answer("producers of a partition again and again")
def test_producers(wire: Wire) -> Any:
    topic = wire.create("t", 2)
    producer_id = wire.new_producer_id()
    wire.labels["producer", producer_id] = "<producer>"
    wire.produce(topic, batch(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=0))
    topics = [TopicRequest(topic, [0, 0, 1, 0]), TopicRequest("nope", [0, 0]), TopicRequest(topic, [0])]
    answer = wire.call(DescribeProducersRequest(topics), 0)
    for state in (state for each in answer.topics for partition in each.partitions for state in partition.active_producers):
        state.last_timestamp = -1
    return answer


@same_answer("offsets of a group twice")
def test_offsets(wire: Wire) -> Any:
    topic, group = wire.create("t", 2), wire.name("g")
    committed = [offset_commit.OffsetCommitRequestPartition(0, 7, committed_metadata="m")]
    commit = offset_commit.OffsetCommitRequest(
        group, topics=[offset_commit.OffsetCommitRequestTopic(topic, partitions=committed)]
    )
    named = [offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=[0, 0, 1])] * 2
    groups = [offset_fetch.OffsetFetchRequestGroup(name, topics=topics) for name in (group, "nog") for topics in (None, named)]
    return wire.call(commit, 8), [wire.call(offset_fetch.OffsetFetchRequest(groups=groups * 2), version) for version in (8, 9)]


@same_answer("groups described twice")
def test_groups(wire: Wire) -> Any:
    names = ["nog", "", "nog", "nog", ""]
    return [
        *(wire.call(DescribeGroupsRequest(names, version >= 3), version) for version in (0, 5, 6)),
        wire.call(ConsumerGroupDescribeRequest(names, True), 1),
        wire.call(ShareGroupDescribeRequest(names, True), 1),
        wire.call(DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("nog", None)] * 3), 0),
        wire.call(DescribeTransactionsRequest(names), 0),
        wire.call(find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=names), 4),
    ]
