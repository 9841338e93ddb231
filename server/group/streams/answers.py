"""What members are told, in the messages of StreamsGroupHeartbeat; a topology from there to its record; whether that is on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.server.group.cluster import Cluster
from ottla.server.group.kind import Kind
from ottla.server.group.streams.group import StreamsGroup
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.tasks import TaskIds
from ottla.server.group.streams.topology import ConfiguredTopology, Problem
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

SERVED: Final = "Streams groups need the feature streams.version, and 'streams' in group.coordinator.rebalance.protocols."


def is_served(features: Mapping[str, int], settings: Mapping[str, Any]) -> bool:
    """Does a broker of these finalized features and settings have streams groups?"""
    return bool(features.get("streams.version")) and Kind.STREAMS.value in settings["group.coordinator.rebalance.protocols"]


def topology_value(topology: Topology) -> record.StreamsGroupTopologyValue:
    """As the group's record is to have it: nothing is reordered."""
    return record.StreamsGroupTopologyValue(
        topology.epoch,
        [
            record.Subtopology(
                each.subtopology_id,
                each.source_topics,
                each.source_topic_regex,
                [_topic_info(topic) for topic in each.state_changelog_topics],
                each.repartition_sink_topics,
                [_topic_info(topic) for topic in each.repartition_source_topics],
                [
                    record.CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _topic_info(topic: TopicInfo) -> record.TopicInfo:
    configs = [record.TopicConfig(each.key, each.value) for each in topic.topic_configs]
    return record.TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def statuses(problems: Sequence[Problem]) -> list[Status]:
    return [Status(problem.status, problem.detail) for problem in problems]


def task_ids(tasks: TaskIds | Mapping[str, Mapping[int, int]]) -> list[ResponseTaskIds]:
    return [ResponseTaskIds(name, sorted(partitions)) for name, partitions in sorted(tasks.items())]


def endpoints(
    group: StreamsGroup, updated: StreamsMember, replaced: StreamsMember | None, topology: ConfiguredTopology, cluster: Cluster
) -> list[EndpointToPartitions]:
    """For interactive queries: which partitions the processes of the application have, at the addresses that they gave."""
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
    """The partitions of topics that tasks read. A topic may have fewer partitions than its subtopology has tasks."""
    subtopologies = topology.subtopologies or {}
    found = []
    for name, partitions in tasks.items():
        for topic in subtopologies[name].inputs if name in subtopologies else ():
            count = len(cluster.topics[topic].partitions) if topic in cluster.topics else 0
            listed = sorted(partition for partition in partitions if partition < count)
            if listed:
                found.append(TopicPartition(topic, listed))
    return found
