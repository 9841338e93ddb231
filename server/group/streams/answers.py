"""Converts between streams groups and the messages of StreamsGroupHeartbeat, and decides whether streams groups are enabled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

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


def topology_value(topology: Topology) -> record.StreamsGroupTopologyValue:
    """Returns a topology as the group's record has it, in the same order."""
    return record.StreamsGroupTopologyValue(
        topology.epoch,
        [
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
            for subtopology in topology.subtopologies
        ],
    )


def _topic_info(topic: TopicInfo) -> record.TopicInfo:
    configs = [record.TopicConfig(config.key, config.value) for config in topic.topic_configs]
    return record.TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def statuses(problems: Sequence[Problem]) -> list[Status]:
    return [Status(problem.status, problem.detail) for problem in problems]


def task_ids(tasks: TaskIds | Mapping[str, Mapping[int, int]]) -> list[ResponseTaskIds]:
    return [ResponseTaskIds(name, sorted(partitions)) for name, partitions in sorted(tasks.items())]


def endpoints(
    group: StreamsGroup, updated: StreamsMember, replaced: StreamsMember | None, topology: ConfiguredTopology, cluster: Cluster
) -> list[EndpointToPartitions]:
    """Returns, for interactive queries, the endpoints of the application's processes with the partitions that each has."""
    gone = {updated.member_id, None if replaced is None else replaced.member_id}
    members = [*(member for member in group.members.values() if member.member_id not in gone), updated]
    return [
        EndpointToPartitions(
            ResponseEndpoint(*member.endpoint),
            _partitions({name: frozenset(partitions) for name, partitions in member.held.active.items()}, topology, cluster),
            _partitions(_copies(member), topology, cluster),
        )
        for member in members
        if member.endpoint is not None
    ]


def _copies(member: StreamsMember) -> TaskIds:
    standby, warmup = member.held.standby, member.held.warmup
    return {
        name: frozenset(standby.get(name, frozenset())) | frozenset(warmup.get(name, frozenset()))
        for name in {**standby, **warmup}
    }


def _partitions(tasks: TaskIds, topology: ConfiguredTopology, cluster: Cluster) -> list[TopicPartition]:
    """Returns the partitions of topics that tasks read. A topic may have fewer partitions than its subtopology has tasks."""
    subtopologies = topology.subtopologies or {}
    found = []
    for name, partitions in tasks.items():
        for topic in subtopologies[name].inputs if name in subtopologies else ():
            count = len(cluster.topics[topic].partitions) if topic in cluster.topics else 0
            listed = sorted(partition for partition in partitions if partition < count)
            if listed:
                found.append(TopicPartition(topic, listed))
    return found
