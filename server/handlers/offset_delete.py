"""OffsetDelete v0 makes a group forget its offsets of some partitions (KIP-496).

- Deleting the offset of a partition that has none succeeds. A partition that does not exist is refused, whatever offset the group
  has for it. Partitions that are named twice are answered twice.
- A consumer group keeps the offsets of topics that its members read (86 GROUP_SUBSCRIBED_TO_TOPIC), and those of all topics while
  nobody can tell which these are. Any other kind of group with members keeps all of its offsets (68 NON_EMPTY_GROUP).
- Partitions that do not exist come first in the answer. If there are any, a topic that is named twice has one entry.
- Errors of a partition: 3 UNKNOWN_TOPIC_OR_PARTITION, 86 GROUP_SUBSCRIBED_TO_TOPIC. Errors of the whole request, without topics:
  24 INVALID_GROUP_ID for "", 68 NON_EMPTY_GROUP, 69 GROUP_ID_NOT_FOUND, and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15
  COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
"""

from __future__ import annotations

from ottla.server.base.answers import chain_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.group.errors import GroupError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

TRAITS = Traits(Inside(Need(Operation.DELETE, Resource.GROUP), Need(Operation.READ, Resource.TOPIC)))


TOPICS_A_STEP = 100
"""So many topics of a request are looked at before others may come first."""

_Present = list[tuple[str, list[int]]]
_Answers = list[OffsetDeleteResponseTopic]


def handle(body: OffsetDeleteRequest, request: Request) -> OffsetDeleteResponse | Promise[OffsetDeleteResponse]:
    return chain_answer(take_steps(_split(body, request), request.broker.clock), lambda split: _delete(*split, body, request))


def _delete(
    missing: _Answers, present: _Present, body: OffsetDeleteRequest, request: Request
) -> OffsetDeleteResponse | Promise[OffsetDeleteResponse]:
    try:
        shard = request.broker.groups.member_shard(body.group_id)
        codes = shard.delete_offsets(body.group_id, present)
    except GroupError as error:
        return OffsetDeleteResponse(error.code)
    deleted = [_topic(name, indexes, code) for (name, indexes), code in zip(present, codes, strict=True)]
    return shard.answer_or(OffsetDeleteResponse(topics=_merge(missing, deleted) if missing else deleted), OffsetDeleteResponse)


def _split(body: OffsetDeleteRequest, request: Request) -> Steps[tuple[_Answers, _Present]]:
    """Makes steps that return the answers for partitions that do not exist, and the partitions that do exist, by topic."""
    missing: _Answers = []
    present: _Present = []
    for at, topic in enumerate(body.topics):
        if at and at % TOPICS_A_STEP == 0:
            yield None
        image = request.broker.metadata.topics.get(topic.name)
        exists = image.partitions if image is not None else {}
        indexes = [partition.partition_index for partition in topic.partitions]
        known = [index for index in indexes if index in exists]
        unknown = [index for index in indexes if index not in exists]
        if known:
            present.append((topic.name, known))
        if unknown:
            missing.append(_topic(topic.name, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return missing, present


def _topic(name: str, indexes: list[int], code: ErrorCode) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(name, [OffsetDeleteResponsePartition(index, code) for index in indexes])


def _merge(*answers: list[OffsetDeleteResponseTopic]) -> list[OffsetDeleteResponseTopic]:
    """Returns one entry for each topic, in the order in which topics first appear."""
    by_name: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in (topic for answer in answers for topic in answer):
        if topic.name in by_name:
            by_name[topic.name].partitions += topic.partitions
        else:
            by_name[topic.name] = topic
    return list(by_name.values())
