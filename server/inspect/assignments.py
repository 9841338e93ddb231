"""Assignments of the members of a group, whatever the group's kind: partitions by topic, or tasks by subtopology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.server.group.classic.group import CONSUMER_PROTOCOL_TYPE
from ottla.server.group.consumer.embedded import read_assignment
from ottla.server.group.kind import Kind
from ottla.wire.frame import MALFORMED

if TYPE_CHECKING:
    from ottla.server.group.group import Group
    from ottla.server.group.streams.group import StreamsGroup
    from ottla.server.metadata.image import MetadataImage

ByTopic = dict[str, list[int]]


def by_name(image: MetadataImage, held: Mapping[bytes, Iterable[int]]) -> ByTopic:
    """Returns partitions by the names of their topics, where `held` has their ids. Topics that are gone are left out."""
    topics = image.topics_by_id
    return {topics[topic_id].name: sorted(held[topic_id]) for topic_id in held if topic_id in topics}


def decode_assignment(data: bytes) -> ByTopic | None:
    """Returns the partitions in a ConsumerProtocolAssignment of any version; None if these bytes are none, for only clients know
    what they sent each other."""
    try:
        assignment = read_assignment(data)
    except MALFORMED:
        return None
    return {each.topic: sorted(each.partitions) for each in assignment.assigned_partitions}


def assigned_partitions(image: MetadataImage, group: Group) -> set[tuple[str, int]]:
    """Returns the partitions that the members of a group read now."""
    found: set[tuple[str, int]] = set()
    for member in group.members.values():
        parts = _member_partitions(image, group, member)
        found.update((topic, partition) for topic, partitions in parts.items() for partition in partitions)
    return found


def _member_partitions(image: MetadataImage, group: Any, member: Any) -> ByTopic:
    match group.kind:
        case Kind.CLASSIC:
            known = group.protocol_type == CONSUMER_PROTOCOL_TYPE
            return (decode_assignment(member.assignment) if known else None) or {}
        case Kind.STREAMS:
            return _task_partitions(group, member.held.active)
        case _:
            return by_name(image, member.assigned)


def _task_partitions(group: StreamsGroup, active: Mapping[str, Iterable[int]]) -> ByTopic:
    """Returns the partitions that tasks read: a task has its number in each source topic of its subtopology."""
    found: ByTopic = {}
    for each in group.topology.subtopologies if group.topology is not None else ():
        for topic in (*each.source_topics, *(internal.name for internal in each.repartition_source_topics)):
            found[topic] = sorted(active.get(each.subtopology_id, ()))
    return found
