"""DescribeShareGroupOffsets v0-1 says where share groups start in partitions and how much is left there (KIP-932; v1 KIP-1226).

- Null topics ask for all partitions in which the group has state; a list asks for those that it names, whether or not the group
  exists.
- The start offset is -1 if the group has none: if there is no state, no such topic or partition, or the state cannot be read now.
- v1 adds the lag: the number of records from the start offset to the high watermark, without those that are finished; -1 if
  either is unknown. The leader of the partition may be another broker, which is asked.
- If the feature share.version is 0, every group is answered 35 UNSUPPORTED_VERSION. When all partitions are asked for, a group
  may also be answered 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR of its coordinator,
  with a message. The error of a partition says why its high watermark is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.server.base.answers import chain_answer, map_answer, recover_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, all_kept, one_kept, take_steps
from ottla.server.group.errors import GroupError
from ottla.server.group.share.protocol import ShareProtocol
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.share.group_state import is_enabled
from ottla.server.share_state.coordinator import Summary
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from ottla.server.interbroker.latest_offsets import Latest

TRAITS = Traits(Inside(Need(Operation.DESCRIBE, Resource.GROUP), Need(Operation.DESCRIBE, Resource.TOPIC)), long_answer=True)

UNKNOWN: Final = -1
_LAST_INT64: Final = 2**63 - 1


def handle(
    body: DescribeShareGroupOffsetsRequest, request: Request
) -> DescribeShareGroupOffsetsResponse | Promise[DescribeShareGroupOffsetsResponse]:
    def answer() -> Steps[DescribeShareGroupOffsetsResponse]:
        whole: dict[str, DescribeShareGroupOffsetsResponseGroup] = {}
        """Groups that were asked for as a whole, which takes few bytes."""
        groups = []
        for group in body.groups:
            if group.topics is not None or group.group_id not in whole:
                described = yield from _describe(group, request)
                if group.topics is None:
                    whole[group.group_id] = described
            else:
                described = whole[group.group_id]
            groups.append(described)
            yield None
        return DescribeShareGroupOffsetsResponse(groups=request.broker.long_answers.bounded(groups))

    return take_steps(answer(), request.broker.clock)


def _describe(group: DescribeShareGroupOffsetsRequestGroup, request: Request) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
    if not is_enabled(request.broker.metadata):
        return DescribeShareGroupOffsetsResponseGroup(group.group_id, [], ErrorCode.UNSUPPORTED_VERSION)
    if group.topics is not None:
        described = yield from _describe_topics(group.group_id, group.topics, request)
        return _described(group.group_id, described, request)
    try:
        shard = request.broker.groups.shard(group.group_id)
        found = shard.protocol(ShareProtocol).initialized_partitions(group.group_id)
    except GroupError as error:
        return DescribeShareGroupOffsetsResponseGroup(group.group_id, [], error.code, error.message)
    outcome = shard.outcome()
    topics = request.broker.metadata.topics_by_id
    there = {topics[topic_id].name: sorted(partitions) for topic_id, partitions in found.items() if topic_id in topics}
    described = []
    for name, partitions in there.items():
        described.append((yield from _topic(group.group_id, name, partitions, request)))
    code = yield from one_kept(outcome)
    if code:
        return DescribeShareGroupOffsetsResponseGroup(group.group_id, [], code)
    return _described(group.group_id, described, request)


def _described(
    group_id: str, topics: list[DescribeShareGroupOffsetsResponseTopic], request: Request
) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id, request.broker.long_answers.shared(topics))


def _describe_topics(
    group_id: str, topics: Iterable[DescribeShareGroupOffsetsRequestTopic], request: Request
) -> Steps[list[DescribeShareGroupOffsetsResponseTopic]]:
    """Describes the topics that were asked for. One that is named twice is answered once, unless it does not exist."""
    there: dict[str, list[int]] = {}
    missing = []
    for topic in topics:
        if topic.topic_name in request.broker.metadata.topics:
            there.setdefault(topic.topic_name, []).extend(topic.partitions)
        else:
            unknown = [DescribeShareGroupOffsetsResponsePartition(partition, UNKNOWN) for partition in topic.partitions]
            missing.append(DescribeShareGroupOffsetsResponseTopic(topic.topic_name, partitions=unknown))
        yield None
    described = []
    for name, partitions in there.items():
        described.append((yield from _topic(group_id, name, partitions, request)))
    return described + missing


def _topic(
    group_id: str, name: str, partitions: Iterable[int], request: Request
) -> Steps[DescribeShareGroupOffsetsResponseTopic]:
    topic = request.broker.metadata.topics.get(name)
    topic_id = topic.topic_id if topic is not None else ZERO_UUID  # it has been deleted since the first turn
    asked = []
    for partition in dict.fromkeys(partitions):
        asked.append(_partition(group_id, name, topic_id, partition, request))
        yield None
    return DescribeShareGroupOffsetsResponseTopic(name, topic_id, (yield from all_kept(asked)))


def _partition(
    group_id: str, name: str, topic_id: bytes, partition: int, request: Request
) -> DescribeShareGroupOffsetsResponsePartition | Promise[DescribeShareGroupOffsetsResponsePartition]:
    def unknown(_: ShareStateError) -> DescribeShareGroupOffsetsResponsePartition:
        return DescribeShareGroupOffsetsResponsePartition(partition, UNKNOWN)

    try:
        found = request.broker.share_persister().read_summary(group_id, topic_id, partition)
    except ShareStateError as error:
        return unknown(error)
    described = chain_answer(found, lambda summary: _with_lag(name, partition, summary, request))
    return recover_answer(described, ShareStateError, unknown)


def _with_lag(
    name: str, partition: int, found: Summary, request: Request
) -> DescribeShareGroupOffsetsResponsePartition | Promise[DescribeShareGroupOffsetsResponsePartition]:
    if UNKNOWN in (found.start_offset, found.delivery_complete_count):
        return DescribeShareGroupOffsetsResponsePartition(partition, found.start_offset, found.leader_epoch)
    replica = request.broker.replicas.get(name, partition)
    if replica is not None and replica.is_leader:
        return _lagging(partition, found, replica.log.high_watermark)
    others = request.broker.latest_offsets()
    if others is None:
        missing = replica is None
        code = request.broker.replicas.why_missing(name, partition) if missing else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return _refused(partition, code)

    def described(latest: Latest) -> DescribeShareGroupOffsetsResponsePartition:
        return _refused(partition, latest.code) if latest.code else _lagging(partition, found, latest.offset)

    return map_answer(others.ask(name, partition), described)


def _refused(partition: int, code: ErrorCode) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(partition, error_code=code, error_message=code.name)


def _lagging(partition: int, found: Summary, high_watermark: int) -> DescribeShareGroupOffsetsResponsePartition:
    lag = high_watermark - found.start_offset - found.delivery_complete_count
    lag = min(max(lag, -_LAST_INT64 - 1), _LAST_INT64)  # the start may be any number, since nothing checks what is written
    return DescribeShareGroupOffsetsResponsePartition(partition, found.start_offset, found.leader_epoch, lag)
