"""OffsetDelete v0: a group forgets its offsets of some partitions (KIP-496).

- A partition without an offset is deleted as well as any other; a partition that does not exist is not, whatever the group has
  of it. Partitions named twice are answered twice.
- A consumer group keeps the offsets of topics that its members read (86 GROUP_SUBSCRIBED_TO_TOPIC), and of all topics while
  nobody can tell which those are. Members of any other kind of group keep all of its offsets (68 NON_EMPTY_GROUP).
- Partitions that are refused for not existing come first in the answer. Once there are any, a topic named twice has one entry.
- Errors, of a partition: 3 UNKNOWN_TOPIC_OR_PARTITION, 86. Of the whole request, with no topics: 24 INVALID_GROUP_ID (the group
  ""), 68, 69 GROUP_ID_NOT_FOUND, and 14/15/16 of the coordinator.
"""

from __future__ import annotations

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


def handle(body: OffsetDeleteRequest, request: Request) -> OffsetDeleteResponse:
    missing, present = _split(body, request)
    try:
        codes = request.broker.groups.member_shard(body.group_id).delete_offsets(body.group_id, present)
    except GroupError as error:
        return OffsetDeleteResponse(error.code)
    deleted = [_topic(name, indexes, code) for (name, indexes), code in zip(present, codes, strict=True)]
    return OffsetDeleteResponse(topics=_merged(missing, deleted) if missing else deleted)


def _split(body: OffsetDeleteRequest, request: Request) -> tuple[list[OffsetDeleteResponseTopic], list[tuple[str, list[int]]]]:
    """The answers for partitions that do not exist, and those that do."""
    missing: list[OffsetDeleteResponseTopic] = []
    present: list[tuple[str, list[int]]] = []
    for topic in body.topics:
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


def _merged(*answers: list[OffsetDeleteResponseTopic]) -> list[OffsetDeleteResponseTopic]:
    """One entry a topic, in the order in which they first come."""
    by_name: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in (topic for answer in answers for topic in answer):
        if topic.name in by_name:
            by_name[topic.name].partitions = [*by_name[topic.name].partitions, *topic.partitions]
        else:
            by_name[topic.name] = topic
    return list(by_name.values())
