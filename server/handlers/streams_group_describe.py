"""StreamsGroupDescribe v0-1 describes streams groups: epochs, topology, and the tasks that members have and will have (KIP-1071).

- The topology's internal topics have their final numbers of partitions once all of its topics exist, and until then those that
  the application gave (0: the broker works it out).
- v1 adds the name of the assignor, and a description of the topology on request; its status is 1 NOT_STORED, because no
  descriptions are kept here (KIP-1331).
- Without the feature streams.version, or without the protocol in `group.coordinator.rebalance.protocols`, every group is answered
  35 UNSUPPORTED_VERSION.
- The authorized operations, if the client asks for them, are all that exist for groups, because there is no authorizer.
- Errors of each group: 69 GROUP_ID_NOT_FOUND, also for a group of another kind; 24 INVALID_GROUP_ID for ""; and the coordinator's
  14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, all_kept, take_steps
from ottla.server.group.errors import GroupError
from ottla.server.group.streams.answers import NOT_SERVED, is_served
from ottla.server.group.streams.group import TaskOffsets
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.protocol import StreamsProtocol
from ottla.server.group.streams.tasks import NO_TASKS, Tasks
from ottla.server.group.streams.topology import ConfiguredTopology, InternalTopic
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.operations import GROUP_OPERATIONS
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal import streams_group_topology_value as recorded
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

TRAITS = Traits(Inside(Need(Operation.DESCRIBE, Resource.GROUP), Need(Operation.DESCRIBE, Resource.TOPIC)), long_answer=True)

NOT_STORED: Final = 1
"""The status of a topology description that the client asked for and that the broker does not keep."""


def handle(
    body: StreamsGroupDescribeRequest, request: Request
) -> StreamsGroupDescribeResponse | Promise[StreamsGroupDescribeResponse]:
    if not is_served(request.broker.metadata.features, request.broker.config.values):
        code = ErrorCode.UNSUPPORTED_VERSION
        return StreamsGroupDescribeResponse(groups=[DescribedGroup(code, NOT_SERVED, group_id) for group_id in body.group_ids])

    def answer() -> Steps[StreamsGroupDescribeResponse]:
        each_once: dict[str, DescribedGroup | Promise[DescribedGroup]] = {}
        for group_id in body.group_ids:
            if group_id not in each_once:
                each_once[group_id] = yield from _describe(group_id, request)
            yield None
        described = yield from all_kept(each_once[group_id] for group_id in body.group_ids)
        for each in described:
            if each.error_code:
                continue
            if body.include_authorized_operations:
                each.authorized_operations = GROUP_OPERATIONS
            if body.include_topology_description:
                each.topology_description_status = NOT_STORED
        return StreamsGroupDescribeResponse(groups=request.broker.long_answers.bounded(described))

    return take_steps(answer(), request.broker.clock)


def _describe(group_id: str, request: Request) -> Steps[DescribedGroup | Promise[DescribedGroup]]:
    """Makes steps that describe a group as it is at the first of them."""
    try:
        shard = request.broker.groups.member_shard(group_id)
        protocol = shard.protocol(StreamsProtocol)
        group = protocol.group(group_id)
    except GroupError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=protocol.settings.assignor(group_id),
    )
    targets, offsets, members = dict(group.targets), dict(group.task_offsets), []
    listed = list(group.members.values())
    described.topology = yield from _topology(group.topology, group.configured)
    for member in listed:
        target = targets.get(member.member_id, NO_TASKS)
        members.append((yield from _member(member, target, offsets.get(member.member_id, TaskOffsets()))))
        yield None
    described.members = request.broker.long_answers.shared(members)
    return shard.answer_or(described, lambda code: DescribedGroup(group_id=group_id, error_code=code))


# Topology


def _topology(
    topology: recorded.StreamsGroupTopologyValue | None, configured: ConfiguredTopology | None
) -> Steps[Topology | None]:
    subtopologies = []
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        for name, known in configured.subtopologies.items():
            subtopologies.append(
                Subtopology(
                    name,
                    sorted(known.source_topics),
                    sorted(known.repartition_sinks),
                    _internal_topics(known.changelogs),
                    _internal_topics(known.repartition_sources),
                )
            )
            yield None
        return Topology(configured.epoch, subtopologies)
    if topology is None:
        return None
    for each in sorted(topology.subtopologies, key=lambda each: each.subtopology_id):
        subtopologies.append(
            Subtopology(
                each.subtopology_id,
                sorted(each.source_topics),
                sorted(each.repartition_sink_topics),
                _recorded_topics(each.state_changelog_topics),
                _recorded_topics(each.repartition_source_topics),
            )
        )
        yield None
    return Topology(topology.epoch, subtopologies)


def _internal_topics(topics: Mapping[str, InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(name, topics[name].partitions, topics[name].replication_factor, _pairs(topics[name].configs))
        for name in sorted(topics)
    ]


def _recorded_topics(topics: Iterable[recorded.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(topic.name, topic.partitions, topic.replication_factor, [KeyValue(c.key, c.value) for c in topic.topic_configs])
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


# Members


def _member(member: StreamsMember, target: Tasks, reported: TaskOffsets) -> Steps[Member]:
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else Endpoint(*member.endpoint),
        client_tags=_pairs(member.client_tags),
        task_offsets=(yield from _offsets(reported.offsets)),
        task_end_offsets=(yield from _offsets(reported.end_offsets)),
        assignment=(yield from _assignment(member.held.as_tasks())),
        target_assignment=(yield from _assignment(target)),
    )


def _assignment(tasks: Tasks) -> Steps[Assignment]:
    roles: list[list[TaskIds]] = []
    for role in tasks:
        listed = []
        for name in sorted(role):
            listed.append(TaskIds(name, sorted(role[name])))
            yield None
        roles.append(listed)
    return Assignment(*roles)


def _offsets(offsets: Mapping[str, Mapping[int, int]]) -> Steps[list[TaskOffset]]:
    listed = []
    for name in sorted(offsets):
        for partition in sorted(offsets[name]):
            listed.append(TaskOffset(name, partition, offsets[name][partition]))
            yield None
    return listed


def _pairs(values: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key, value) for key, value in values.items()]
