"""OffsetFetch v1-10 says how far groups have read, by their committed offsets.

- A partition, topic or group without a committed offset is answered with offset -1, empty metadata and no error.
- In v2 null topics ask for everything that is committed. v5 adds leader epochs. v7 adds `require_stable`: 88
  UNSTABLE_OFFSET_COMMIT for a partition with a commit in an open transaction. v8 takes several groups, each with its own error
  code. v9 adds member and epoch, which have no meaning for classic groups. v10 names topics by id: 100 UNKNOWN_TOPIC_ID for one
  that does not exist; if all are asked for, such topics are left out.
- Errors of each group: 25 UNKNOWN_MEMBER_ID, 113 STALE_MEMBER_EPOCH, 22 ILLEGAL_GENERATION, and the coordinator's 14
  COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR. In v1 the partitions carry them, because it
  has no other place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, all_kept, one_kept, take_steps
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Committer
from ottla.server.group.shard import GroupShard
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.primitives import ZERO_UUID

TRAITS = Traits(Inside(Need(Operation.DESCRIBE, Resource.GROUP), Need(Operation.DESCRIBE, Resource.TOPIC)), long_answer=True)

PARTITIONS_A_STEP: Final = 100
"""So many partitions of one topic are looked up before others may come first: about 0.2 ms."""
_Fetched = OffsetFetchResponseGroup | Promise[OffsetFetchResponseGroup]


def handle(body: OffsetFetchRequest, request: Request) -> OffsetFetchResponse | Promise[OffsetFetchResponse]:
    answer = _fetch_groups(body, request) if request.api_version >= 8 else _fetch_one_group(body, request)
    return take_steps(answer, request.broker.clock)


def _fetch_groups(body: OffsetFetchRequest, request: Request) -> Steps[OffsetFetchResponse]:
    """Fetches several groups, each whole one once."""
    whole: dict[tuple[str, str | None, int], _Fetched] = {}
    groups: list[_Fetched] = []
    for group in body.groups:
        key = _whole(group)
        fetched = None if key is None else whole.get(key)
        if fetched is None:
            fetched = yield from _fetch(group, request, require_stable=body.require_stable)
            if key is not None:
                whole[key] = fetched
        groups.append(fetched)
        yield None
    return OffsetFetchResponse(groups=request.broker.long_answers.bounded((yield from all_kept(groups))))


def _fetch_one_group(body: OffsetFetchRequest, request: Request) -> Steps[OffsetFetchResponse]:
    topics = None
    if body.topics is not None:
        topics = [OffsetFetchRequestTopics(topic.name, ZERO_UUID, topic.partition_indexes) for topic in body.topics]
    wanted = OffsetFetchRequestGroup(body.group_id, topics=topics)
    fetched = yield from _fetch(wanted, request, require_stable=body.require_stable)
    group = yield from one_kept(fetched)
    return _answer_of_one(group, topics, request)


def _whole(group: OffsetFetchRequestGroup) -> tuple[str, str | None, int] | None:
    """Returns what the answer follows from if all that a group has committed is asked for, which takes few bytes; else None."""
    return (group.group_id, group.member_id, group.member_epoch) if group.topics is None else None


def _answer_of_one(
    group: OffsetFetchResponseGroup, topics: Sequence[OffsetFetchRequestTopics] | None, request: Request
) -> OffsetFetchResponse:
    """Returns the answer to a version that asks for one group."""
    if group.error_code and request.api_version < 2:
        group.topics = [_refused_topic(topic, group.error_code) for topic in topics or ()]
    long_answers = request.broker.long_answers
    return OffsetFetchResponse(
        topics=long_answers.bounded(
            OffsetFetchResponseTopic(
                topic.name,
                long_answers.bounded(
                    OffsetFetchResponsePartition(
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.metadata,
                        each.error_code,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in group.topics
        ),
        error_code=group.error_code,
    )


def _fetch(body: OffsetFetchRequestGroup, request: Request, *, require_stable: bool) -> Steps[_Fetched]:
    """Answers for one group, or promises to."""
    group_id = body.group_id
    try:
        shard = request.broker.groups.shard(group_id)
        if body.member_id is not None or body.member_epoch >= 0:
            shard.admit_fetch(group_id, Committer(body.member_id or "", None, body.member_epoch, request.api_version))
    except GroupError as error:
        return OffsetFetchResponseGroup(group_id, error_code=error.code)
    by_id = request.api_version >= 10
    wanted = _all_committed(shard, group_id, by_id, request) if body.topics is None else body.topics
    long_answers = request.broker.long_answers
    answers = []
    for topic in wanted:
        name, topic_id = topic.name, topic.topic_id
        image = request.broker.metadata.topics_by_id.get(topic_id) if by_id else request.broker.metadata.topics.get(name)
        if image is not None:
            name, topic_id = image.name, image.topic_id
        elif by_id:
            answers.append(_refused_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(_fetch_one(shard, group_id, name, topic_id, index, require_stable=require_stable))
            if len(partitions) % PARTITIONS_A_STEP == 0:
                yield None
        answers.append(OffsetFetchResponseTopics(name, topic_id, long_answers.bounded(partitions)))
        yield None
    try:
        here = request.broker.groups.shard(group_id) is shard
    except GroupError as error:
        return OffsetFetchResponseGroup(group_id, error_code=error.code)
    if not here:  # while this paused, the shard went and came back: what it did not find then may be there
        return OffsetFetchResponseGroup(group_id, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    topics = long_answers.shared(answers) if body.topics is None else long_answers.bounded(answers)
    fetched = OffsetFetchResponseGroup(group_id, topics)
    # also where replication takes too long: consumers of the classic protocol take no other code here for a reason to try again
    return shard.answer_or(fetched, lambda _: OffsetFetchResponseGroup(group_id, error_code=ErrorCode.NOT_COORDINATOR))


def _all_committed(shard: GroupShard, group_id: str, by_id: bool, request: Request) -> Sequence[OffsetFetchRequestTopics]:
    known = request.broker.metadata.topics
    return [
        OffsetFetchRequestTopics(name, known[name].topic_id if name in known else ZERO_UUID, list(partitions))
        for name, partitions in shard.offsets.of_group(group_id).items()
        if name in known or not by_id
    ]


def _fetch_one(
    shard: GroupShard, group_id: str, topic: str, topic_id: bytes, partition: int, *, require_stable: bool
) -> OffsetFetchResponsePartitions:
    if require_stable and shard.offsets.is_unstable(group_id, topic, partition):
        return OffsetFetchResponsePartitions(partition, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = shard.offsets.get(group_id, topic, topic_id, partition)
    if committed is None:
        return OffsetFetchResponsePartitions(partition, -1, -1, "", ErrorCode.NONE)
    return OffsetFetchResponsePartitions(partition, committed.offset, committed.leader_epoch, committed.metadata, ErrorCode.NONE)


def _refused_topic(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic.name,
        topic.topic_id,
        [OffsetFetchResponsePartitions(index, -1, -1, "", code) for index in topic.partition_indexes],
    )
