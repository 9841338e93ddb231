"""Converts between streams groups and the messages of StreamsGroupHeartbeat, and decides whether streams groups are enabled."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ottla.server.base.turns import Steps
from ottla.server.group.cluster import Cluster
from ottla.server.group.kind import Kind
from ottla.server.group.streams.group import StreamsGroup
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.tasks import TaskIds
from ottla.server.group.streams.topology import ConfiguredTopology, Problem
from ottla.server.metadata.feature_levels import STREAMS_VERSION
from ottla.wire.messages.internal import streams_group_topology_value as record
from ottla.wire.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    ResponseEndpoint,
    ResponseTaskIds,
    Status,
    TopicInfo,
    TopicPartition,
    Topology,
)

NOT_SERVED: Final = "Streams groups need the feature streams.version, and 'streams' in group.coordinator.rebalance.protocols."


def is_served(features: Mapping[str, int], settings: Mapping[str, Any]) -> bool:
    """Returns whether a broker with these finalized features and settings has streams groups."""
    return bool(features.get(STREAMS_VERSION)) and Kind.STREAMS.value in settings["group.coordinator.rebalance.protocols"]


def topology_value(topology: Topology) -> Steps[record.StreamsGroupTopologyValue]:
    """Makes steps that return a topology as the group's record has it, in the same order."""
    subtopologies = []
    for subtopology in topology.subtopologies:
        subtopologies.append(
            record.Subtopology(
                subtopology.subtopology_id,
                subtopology.source_topics,
                subtopology.source_topic_regex,
                [_topic_info(topic) for topic in subtopology.state_changelog_topics],
                subtopology.repartition_sink_topics,
                [_topic_info(topic) for topic in subtopology.repartition_source_topics],
                [
                    record.CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
                    for group in subtopology.copartition_groups
                ],
            )
        )
        yield None
    return record.StreamsGroupTopologyValue(topology.epoch, subtopologies)


def _topic_info(topic: TopicInfo) -> record.TopicInfo:
    configs = [record.TopicConfig(config.key, config.value) for config in topic.topic_configs]
    return record.TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def statuses(problems: Sequence[Problem]) -> list[Status]:
    return [Status(problem.status, problem.detail) for problem in problems]


def task_ids(tasks: TaskIds | Mapping[str, Mapping[int, int]]) -> list[ResponseTaskIds]:
    return [ResponseTaskIds(name, sorted(partitions)) for name, partitions in sorted(tasks.items())]


def endpoints(
    group: StreamsGroup, updated: StreamsMember, replaced: StreamsMember | None, topology: ConfiguredTopology, cluster: Cluster
) -> Steps[list[EndpointToPartitions]]:
    """Makes steps that return, for interactive queries, the endpoints of the application's processes with the partitions that
    each has. The members are those of now, whenever the steps are taken.
    """
    gone = {updated.member_id, None if replaced is None else replaced.member_id}
    members = [*(member for member in group.members.values() if member.member_id not in gone), updated]
    return _endpoints(members, _Inputs(topology, cluster))


def _endpoints(members: Sequence[StreamsMember], inputs: _Inputs) -> Steps[list[EndpointToPartitions]]:
    found = []
    for member in members:
        if member.endpoint is not None:
            active = yield from _partitions(member.held.active, inputs)
            copies = yield from _partitions(_copies(member), inputs)
            found.append(EndpointToPartitions(ResponseEndpoint(*member.endpoint), active, copies))
    return found


def _copies(member: StreamsMember) -> TaskIds:
    standby, warmup = member.held.standby, member.held.warmup
    return {
        name: frozenset(standby.get(name, frozenset())) | frozenset(warmup.get(name, frozenset()))
        for name in {**standby, **warmup}
    }


def _partitions(tasks: Mapping[str, Collection[int]], inputs: _Inputs) -> Steps[list[TopicPartition]]:
    """Makes steps that return the partitions of topics that tasks read. A topic may have fewer partitions than its subtopology
    has tasks. The work is that of what is listed: a topic that has none of the partitions is not looked at.
    """
    found = []
    for name, partitions in tasks.items():
        if not partitions:
            continue
        ordered = sorted(partitions)
        for topic, count in inputs.with_partition(name, ordered[0]):
            found.append(TopicPartition(topic, ordered[: bisect_left(ordered, count)]))
            yield None
        yield None
    return found


class _Inputs:
    """The topics that subtopologies read, with their numbers of partitions, found by the latter."""

    def __init__(self, topology: ConfiguredTopology, cluster: Cluster) -> None:
        self._subtopologies = topology.subtopologies or {}
        self._cluster = cluster
        self._sorted: dict[str, tuple[list[tuple[str, int]], list[int], list[int]]] = {}
        """By subtopology: the topics in the topology's order, their indexes by rising number of partitions, and these numbers."""

    def with_partition(self, subtopology: str, partition: int) -> list[tuple[str, int]]:
        """Returns the topics of a subtopology that have this partition, and their numbers of partitions, in the topology's
        order.
        """
        if subtopology not in self._subtopologies:
            return []
        if subtopology not in self._sorted:
            topics = self._cluster.topics
            read = [
                (name, len(topics[name].partitions) if name in topics else 0) for name in self._subtopologies[subtopology].inputs
            ]
            rising = sorted(range(len(read)), key=lambda index: read[index][1])
            self._sorted[subtopology] = read, rising, [read[index][1] for index in rising]
        read, rising, counts = self._sorted[subtopology]
        return [read[index] for index in sorted(rising[bisect_right(counts, partition) :])]
