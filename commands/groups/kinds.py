"""Facts about groups that librdkafka does not show, requested over connections of our own.

That is everything about share groups and streams groups, and the epochs and target assignments of groups with the consumer
protocol (KIP-848). A broker lists the groups that it coordinates, so a listing says which broker to ask for the rest. A streams
member has tasks, each a number in a subtopology; its partitions are those with that number of the topics that the subtopology
reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.commands.clients import client, direct
from ottla.commands.clients.brokers import Brokers, by_broker, check
from ottla.commands.clients.partition import Partition
from ottla.commands.groups.rows import NO_SUCH_GROUP, Coordinator, GroupState, MemberState, Tasks, state_name, type_name
from ottla.commands.output import Failure
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import alter_share_group_offsets, describe_share_group_offsets
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
OURS_ALONE: Final = frozenset((SHARE, STREAMS))
"""The kinds of groups that librdkafka does not show."""

_REQUESTS: Final[Mapping[str, Any]] = {
    CONSUMER: ConsumerGroupDescribeRequest,
    SHARE: ShareGroupDescribeRequest,
    STREAMS: StreamsGroupDescribeRequest,
}


class Listed(NamedTuple):
    """A group in a listing. `broker` is its coordinator, None if only librdkafka listed the group."""

    name: str
    state: str
    kind: str
    broker: int | None


def as_listed(one: Any, broker: int) -> Listed:
    """Returns a group of a broker's answer to ListGroups, which coordinates it."""
    return Listed(one.group_id, one.group_state or "Unknown", one.group_type.lower() or CLASSIC, broker)


class Held(NamedTuple):
    """A share group's place in a partition: the first offset that it is not done with, and its lag, None if unknown."""

    start: int
    lag: int | None


def _words(one: Any) -> str:
    """Explains the error code in an answer."""
    return NO_SUCH_GROUP if one.error_code == ErrorCode.GROUP_ID_NOT_FOUND else direct.words(one.error_code, one.error_message)


def listing(
    cluster: client.Cluster, ours: AdminClient, brokers: Brokers, notes: dict[str, None]
) -> tuple[dict[str, Listed], dict[str, str]]:
    """Returns the cluster's groups by name, and an error for each broker that did not answer, under "list of broker N"."""
    answer: Any = cluster.result(ours.list_consumer_groups(request_timeout=cluster.timeout_s))
    errors = {f"list of broker {at}": client.explain(error.args[0]) for at, error in enumerate(answer.errors or ())}
    groups = {one.group_id: Listed(one.group_id, state_name(one.state), type_name(one.type), None) for one in answer.valid or ()}
    try:
        groups |= listed(brokers)
    except Failure as failure:  # for one, if the cluster is reached in a way that only librdkafka knows
        notes[f"share groups and streams groups are not known: {failure}"] = None
    return groups, errors


def listed(brokers: Brokers) -> dict[str, Listed]:
    """Returns every group of the cluster. Raises Failure, also if a broker does not report types of groups (before Kafka 3.8)."""
    found: dict[str, Listed] = {}
    for broker in sorted(brokers.metadata.brokers):
        answer = brokers.at(broker).call(ListGroupsRequest())
        check(answer.error_code)
        for one in answer.groups:
            found[one.group_id] = as_listed(one, broker)
    return found


def described(brokers: Brokers, groups: Iterable[Listed]) -> tuple[dict[str, GroupState], dict[str, str]]:
    """Describes groups of the newer kinds, without their offsets; returns the errors by group, too. Raises Failure."""
    asked: dict[tuple[int, str], list[str]] = {}
    for group in groups:
        asked.setdefault((_broker(group), group.kind), []).append(group.name)
    found: dict[str, GroupState] = {}
    wrong: dict[str, str] = {}
    for (broker, kind), names in asked.items():
        for one in brokers.at(broker).call(_REQUESTS[kind](names)).groups:
            if one.error_code:
                wrong[one.group_id] = _words(one)
            else:
                found[one.group_id] = _state(brokers, broker, kind, one)
    return found, wrong


def _broker(group: Listed) -> int:
    assert group.broker is not None, f"{group} is not of a listing of ours"
    return group.broker


def _state(brokers: Brokers, broker: int, kind: str, one: Any) -> GroupState:
    place = brokers.metadata.brokers[broker]
    read = _topics_read(one) if kind == STREAMS else {}
    members = [_member(brokers, kind, each, read) for each in one.members]
    return GroupState(
        one.group_id,
        one.group_state,
        kind,
        one.assignor_name or "",
        Coordinator(broker, str(place.host), place.port),
        tuple(sorted(members, key=lambda member: (member.client_id, member.member_id))),
        (),
        epoch=one.group_epoch,
        target_epoch=one.assignment_epoch,
    )


def _member(brokers: Brokers, kind: str, one: Any, read: Mapping[str, Sequence[str]]) -> MemberState:
    tasks: Tasks | None = None
    shall_have: tuple[Partition, ...] | None
    if kind == STREAMS:
        has, shall_have = (_partitions_of(brokers, side.active_tasks, read) for side in (one.assignment, one.target_assignment))
        tasks = Tasks(
            *(_tasks(side) for side in (one.assignment.active_tasks, one.assignment.standby_tasks, one.assignment.warmup_tasks))
        )
    else:
        has = _partitions(one.assignment)
        shall_have = None if kind == SHARE else _partitions(one.target_assignment)
    instance = getattr(one, "instance_id", None)
    return MemberState(
        one.member_id, instance, one.client_id, one.client_host, has, epoch=one.member_epoch, target=shall_have, tasks=tasks
    )


def _partitions(assignment: Any) -> tuple[Partition, ...]:
    return tuple(
        sorted(Partition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions)
    )


def _topics_read(group: Any) -> dict[str, list[str]]:
    """Returns the topics that each subtopology reads; empty until a member has sent a topology."""
    if group.topology is None:
        return {}
    return {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in group.topology.subtopologies or ()
    }


def _partitions_of(brokers: Brokers, tasks: Iterable[Any], read: Mapping[str, Sequence[str]]) -> tuple[Partition, ...]:
    return tuple(
        sorted(
            Partition(topic, number)
            for task in tasks
            for topic in read.get(task.subtopology_id, ())
            for number in task.partitions
            if number < brokers.partitions(topic)
        )
    )


def _tasks(tasks: Iterable[Any]) -> tuple[Partition, ...]:
    """Returns the tasks, in the form of partitions: a subtopology and a number."""
    return tuple(sorted(Partition(task.subtopology_id, number) for task in tasks for number in task.partitions))


# Offsets of share groups


def share_offsets(brokers: Brokers, groups: Iterable[Listed]) -> tuple[dict[str, dict[Partition, Held]], dict[str, str]]:
    """Returns where share groups are in the partitions that they have begun to read, and the errors by group. Raises Failure."""
    found: dict[str, dict[Partition, Held]] = {}
    wrong: dict[str, str] = {}
    for broker, names in by_broker((_broker(group), group.name) for group in groups).items():
        make = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup
        request = describe_share_group_offsets.DescribeShareGroupOffsetsRequest([make(name, None) for name in names])
        for one in brokers.at(broker).call(request).groups:
            if one.error_code:
                wrong[one.group_id] = _words(one)
            else:
                found[one.group_id] = {
                    Partition(topic.topic_name, each.partition_index): Held(each.start_offset, None if each.lag < 0 else each.lag)
                    for topic in one.topics
                    for each in topic.partitions
                    if each.error_code == ErrorCode.NONE and each.start_offset >= 0
                }
    return found, wrong


def alter_share_offsets(brokers: Brokers, group: Listed, after: Mapping[Partition, int]) -> None:
    """Alters the offsets of a share group. Raises Failure if the group or, as the first such error, a partition is refused."""
    topics: dict[str, list[Any]] = {}
    for partition, offset in after.items():
        entry = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition.number, offset)
        topics.setdefault(partition.topic, []).append(entry)
    asked = [alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(*topic) for topic in topics.items()]
    answer = brokers.at(_broker(group)).call(alter_share_group_offsets.AlterShareGroupOffsetsRequest(group.name, asked))
    check(answer.error_code, answer.error_message)
    for topic in answer.responses:
        for one in topic.partitions:
            if one.error_code:
                raise Failure(f"{Partition(topic.topic_name, one.partition_index)}: {_words(one)}")
