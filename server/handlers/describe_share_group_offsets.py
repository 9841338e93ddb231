"""DescribeShareGroupOffsets v0-1: where share groups begin in partitions, and how much is left there (KIP-932; v1 KIP-1226).

- Topics null: all partitions in which the group has state. Otherwise those that are asked for, whether or not the group exists.
- The start offset is -1 where the group has none: no state, no such topic or partition, a state that cannot be read now.
- v1 lag: records from the start offset to the high watermark, less those that are done with; -1 where either is unknown.
- With the feature share.version at 0: 35 UNSUPPORTED_VERSION of each group. Other errors of a group, with a text: 14/15/16 of its
  coordinator, when all is asked for. Of a partition: why its high watermark is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.server.context import RequestContext
from ottla.server.group.errors import GroupError
from ottla.server.group.share.protocol import ShareProtocol
from ottla.server.share_groups import is_enabled
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

UNKNOWN: Final = -1


def handle(request: DescribeShareGroupOffsetsRequest, ctx: RequestContext) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_describe(group, ctx) for group in request.groups])


def _describe(group: DescribeShareGroupOffsetsRequestGroup, ctx: RequestContext) -> DescribeShareGroupOffsetsResponseGroup:
    if not is_enabled(ctx.broker):
        return DescribeShareGroupOffsetsResponseGroup(group.group_id, [], ErrorCode.UNSUPPORTED_VERSION)
    if group.topics is not None:
        asked = [_topic(group.group_id, topic.topic_name, topic.partitions, ctx) for topic in group.topics]
        return DescribeShareGroupOffsetsResponseGroup(group.group_id, asked)
    try:
        found = ctx.broker.groups.shard(group.group_id).protocol(ShareProtocol).initialized_partitions(group.group_id)
    except GroupError as error:
        return DescribeShareGroupOffsetsResponseGroup(group.group_id, [], error.code, error.message)
    topics = ctx.broker.metadata.topics_by_id
    there = {topics[topic_id].name: sorted(partitions) for topic_id, partitions in found.items() if topic_id in topics}
    return DescribeShareGroupOffsetsResponseGroup(group.group_id, [_topic(group.group_id, *each, ctx) for each in there.items()])


def _topic(group_id: str, name: str, partitions: Iterable[int], ctx: RequestContext) -> DescribeShareGroupOffsetsResponseTopic:
    topic = ctx.broker.metadata.topics.get(name)
    if topic is None:
        unknown = [DescribeShareGroupOffsetsResponsePartition(partition, UNKNOWN) for partition in partitions]
        return DescribeShareGroupOffsetsResponseTopic(name, partitions=unknown)
    found = [_partition(group_id, name, topic.topic_id, partition, ctx) for partition in dict.fromkeys(partitions)]
    return DescribeShareGroupOffsetsResponseTopic(name, topic.topic_id, found)


def _partition(
    group_id: str, name: str, topic_id: bytes, partition: int, ctx: RequestContext
) -> DescribeShareGroupOffsetsResponsePartition:
    try:
        found = ctx.broker.share_coordinator().read_summary(group_id, topic_id, partition, -1)
    except ShareStateError:
        return DescribeShareGroupOffsetsResponsePartition(partition, UNKNOWN)
    if UNKNOWN in (found.start_offset, found.delivery_complete_count):
        return DescribeShareGroupOffsetsResponsePartition(partition, found.start_offset, found.leader_epoch)
    replica = ctx.broker.replicas.get(name, partition)
    if replica is None or not replica.is_leader:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if replica else ctx.broker.replicas.why_missing(name, partition)
        return DescribeShareGroupOffsetsResponsePartition(partition, error_code=code, error_message=code.name)
    lag = replica.log.high_watermark - found.start_offset - found.delivery_complete_count
    return DescribeShareGroupOffsetsResponsePartition(partition, found.start_offset, found.leader_epoch, lag)
