"""One heartbeat of a member of a streams group: everything that it does to the group, as records and an answer.

A heartbeat may be a join (epoch 0), which brings the topology, a sign of life with or without what the member owns now, or a
goodbye (-1; -2 for a static member that means to return). The steps of all but the goodbye, in this order:

1. who it is: a new member, a known one, or a static member that takes another's place; an epoch that does not fit is fenced;
2. what it says of itself: any change there asks for another assignment (of a static member only what matters to one);
3. its topology against the group's, and the group's against the topics, if those have changed;
4. the group's epoch, if any of this or the settings ask for another assignment;
5. the target assignment, if it is behind the epoch and neither the first delay nor the interval forbids it yet;
6. the member's own way to its target (reconcile.py).

Errors: 25 UNKNOWN_MEMBER_ID, 42 INVALID_REQUEST, 69 GROUP_ID_NOT_FOUND (no group, or one of another kind), 81
GROUP_MAX_SIZE_REACHED, 82 FENCED_INSTANCE_ID, 110 FENCED_MEMBER_EPOCH, 111 UNRELEASED_INSTANCE_ID, 130 STREAMS_INVALID_TOPOLOGY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.server.group.cluster import Cluster
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.server.group.modern.topics import Topics
from ottla.server.group.records import GroupRecord
from ottla.server.group.requests import Client
from ottla.server.group.streams import records
from ottla.server.group.streams.answers import topology_value
from ottla.server.group.streams.group import StreamsGroup, TaskOffsets
from ottla.server.group.streams.member import Endpoint, StreamsMember
from ottla.server.group.streams.reconcile import reconcile
from ottla.server.group.streams.streams_group_config import StreamsGroupConfig
from ottla.server.group.streams.target import Membership, make_target, may_assign, target_records
from ottla.server.group.streams.tasks import NO_TASKS, NONE, Tasks, contained
from ottla.server.group.streams.topology import ConfiguredTopology, Problem, Status, configure, required_topics
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.streams_group_topology_value import StreamsGroupTopologyValue
from ottla.wire.messages.streams_group_heartbeat import RequestTaskIds, StreamsGroupHeartbeatRequest, TaskOffset

NO_TOPOLOGY_EPOCH = -1


class HeartbeatContext(NamedTuple):
    """What a heartbeat sees beside its group. `first_delay(group_id, delay_ms)`: is the group's first assignment still put off?
    A group without members begins to put it off (delay above 0).
    """

    cluster: Cluster
    topics: Topics
    settings: StreamsGroupConfig
    now_ms: int
    first_delay: Callable[[str, int], bool]


class Outcome(NamedTuple):
    """What a heartbeat comes to. `member` is as it is going to be, `former` as it was."""

    records: list[GroupRecord]
    group: StreamsGroup
    member: StreamsMember
    former: StreamsMember
    replaced: StreamsMember | None
    topology: ConfiguredTopology
    problems: list[Problem]


class Heartbeat:
    """`group` is the one that the records will be replayed into, or for a new group one that is thrown away then."""

    def __init__(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
        version: int,
        context: HeartbeatContext,
        records_before: Sequence[GroupRecord] = (),
    ) -> None:
        self._group = group
        self._request = request
        self._client = client
        self._version = version
        self._context = context
        self._records: list[GroupRecord] = list(records_before)
        self._problems: list[Problem] = []
        self._joins = request.member_epoch == JOINING_EPOCH
        self._assignment = context.settings.assignment(group.group_id)

    def run(self) -> Outcome:
        """GroupError: see the module; nothing is to be written."""
        group, request = self._group, self._request
        if self._joins:
            self._admit_one_more()
        member, replaced = self._identify()
        updated = self._updated(member)
        recompute = self._note_member(member, updated)
        topology = self._topology(updated)
        metadata_hash, configured, changed = self._look_at_topics(topology)
        recompute |= changed
        if configured.is_ready:
            self._check_tasks(configured)
        self._note_offsets(updated.member_id)
        validated = topology.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
        recompute |= validated != group.metadata.validated_topology_epoch
        recompute |= self._assignment.as_recorded() != dict(group.metadata.assignment_configs)
        epoch = group.epoch
        if recompute:
            epoch += 1
            metadata = group.metadata._replace(
                epoch=epoch,
                metadata_hash=metadata_hash,
                validated_topology_epoch=validated,
                assignment_configs=self._assignment.as_recorded(),
            )
            self._records.append(records.metadata_record(group.group_id, metadata))
            group.refreshed(self._context.now_ms, epoch)
        delay_ms = self._context.settings.initial_rebalance_delay_ms(group.group_id) if group.is_empty else 0
        target_epoch, target = self._target(updated, epoch, configured, delay_ms)
        reconciled = self._reconciled(updated, target_epoch, target)
        if request.shutdown_application and group.shutdown_requested_by is None:
            group.shutdown_requested_by = request.member_id
        self._report_problems(configured, reconciled)
        return Outcome(self._records, group, reconciled, member, replaced, configured, self._problems)

    # Who it is

    def _admit_one_more(self) -> None:
        group, request = self._group, self._request
        if request.instance_id is not None and request.instance_id in group.static_members:
            return
        most = self._context.settings.max_size()
        if len(group.members) >= most and request.member_id not in group.members:
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {most} members already, as many as it may have.")

    def _identify(self) -> tuple[StreamsMember, StreamsMember | None]:
        """The member as it is, and the static member whose place it takes."""
        group, request = self._group, self._request
        member_id, instance_id = request.member_id, request.instance_id
        if instance_id is None:
            member = group.members.get(member_id, StreamsMember(member_id)) if self._joins else group.member(member_id)
            self._check_epoch(member)
            return member, None
        existing = group.static_member(instance_id)
        if self._joins:
            if existing is None:
                return group.members.get(member_id, StreamsMember(member_id)), None
            return self._take_over(existing), existing if existing.member_id != member_id else None
        existing = known_static(group, instance_id, member_id)
        self._check_epoch(existing)
        return existing, None

    def _take_over(self, existing: StreamsMember) -> StreamsMember:
        group, request = self._group, self._request
        if existing.epoch != LEAVING_STATIC_EPOCH:
            raise GroupError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Member {existing.member_id} has instance id {request.instance_id} and has not left.",
            )
        member = existing._replace(member_id=request.member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
        self._records += [
            *records.member_tombstones(group.group_id, existing.member_id),
            records.member_record(group.group_id, member),
            records.target_record(group.group_id, member.member_id, group.target_of(existing.member_id)),
            records.current_record(group.group_id, member),
        ]
        return member

    def _check_epoch(self, member: StreamsMember) -> None:
        """The member's own epoch, or the one before it, where the answer with the last one may have been lost."""
        epoch = self._request.member_epoch
        if epoch in (JOINING_EPOCH, member.epoch):
            return
        if epoch == member.previous_epoch and epoch < member.epoch:
            owned = self._owned()
            if owned is not None and contained(owned, member.held):
                return
        raise GroupError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member is in epoch {member.epoch}, not in {epoch}: it has to give up its tasks and join again.",
        )

    # What it says of itself

    def _updated(self, member: StreamsMember) -> StreamsMember:
        request = self._request
        reported: dict[str, object] = {"client_id": self._client.client_id, "client_host": self._client.host}
        for name in ("instance_id", "rack_id", "process_id"):
            if getattr(request, name) is not None:
                reported[name] = getattr(request, name)
        if request.rebalance_timeout_ms != -1:
            reported["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        if request.topology is not None:
            reported["topology_epoch"] = request.topology.epoch
        if request.client_tags is not None:
            reported["client_tags"] = {tag.key: tag.value for tag in request.client_tags}
        endpoint = request.user_endpoint
        if endpoint is not None:
            reported["endpoint"] = Endpoint(endpoint.host, endpoint.port)
        elif self._joins:
            reported["endpoint"] = None
        return member._replace(**reported)  # type: ignore[arg-type]  # of the fields' own types

    def _note_member(self, member: StreamsMember, updated: StreamsMember) -> bool:
        """Does what it says ask for another assignment?"""
        if updated == member:
            return False
        self._records.append(records.member_record(self._group.group_id, updated))
        if self._request.instance_id is None:
            return True
        return (updated.topology_epoch, updated.rack_id, updated.client_tags, updated.process_id) != (
            member.topology_epoch,
            member.rack_id,
            member.client_tags,
            member.process_id,
        )

    def _note_offsets(self, member_id: str) -> None:
        request, known = self._request, self._group.task_offsets.get(self._request.member_id, TaskOffsets())
        if request.task_offsets is None and request.task_end_offsets is None:
            return
        self._group.task_offsets[member_id] = TaskOffsets(
            known.offsets if request.task_offsets is None else _nested(request.task_offsets),
            known.end_offsets if request.task_end_offsets is None else _nested(request.task_end_offsets),
        )

    # Topology and topics

    def _topology(self, updated: StreamsMember) -> StreamsGroupTopologyValue:
        """The group's, which may be the one that this member brings."""
        group, brought = self._group, self._request.topology
        known = group.topology
        if known is None:
            if brought is None:
                raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Group {group.group_id} has no topology.")
            topology = topology_value(brought)
            self._records.append(records.topology_record(group.group_id, topology))
            return topology
        if brought is not None and brought.epoch >= known.epoch and not same_topology(topology_value(brought), known):
            raise GroupError(ErrorCode.INVALID_REQUEST, "The group has another topology, and it cannot be changed.")
        if updated.topology_epoch < known.epoch:
            detail = f"The member has topology epoch {updated.topology_epoch}, the group {known.epoch} already."
            self._problems.append(Problem(Status.STALE_TOPOLOGY, detail))
        return known

    def _look_at_topics(self, topology: StreamsGroupTopologyValue) -> tuple[int, ConfiguredTopology, bool]:
        """The hash of its topics, the topology as they let it be, and whether another assignment follows from that."""
        group, context = self._group, self._context
        if group.topology is not None and group.configured is not None and not group.refresh_due(context.now_ms):
            return group.metadata.metadata_hash, group.configured, False
        metadata_hash = context.topics.hash_of(required_topics(topology))
        changed = metadata_hash != group.metadata.metadata_hash
        if changed or group.topology is None or group.configured is None:
            group.configured = configure(topology, context.cluster.topics)
        if not changed:
            group.refreshed(context.now_ms, group.epoch)
        return metadata_hash, group.configured, changed

    def _check_tasks(self, configured: ConfiguredTopology) -> None:
        request = self._request
        subtopologies = configured.subtopologies or {}
        for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
            for each in tasks or ():
                subtopology = subtopologies.get(each.subtopology_id)
                if subtopology is None or not all(0 <= partition < subtopology.tasks for partition in each.partitions):
                    raise GroupError(
                        ErrorCode.INVALID_REQUEST, f"Tasks {each.partitions} of subtopology {each.subtopology_id} do not exist."
                    )

    # Assignment

    def _target(self, updated: StreamsMember, epoch: int, configured: ConfiguredTopology, delay_ms: int) -> tuple[int, Tasks]:
        """The epoch that the member is to be led to, and what it is to have there."""
        group, context = self._group, self._context
        if context.first_delay(group.group_id, delay_ms):
            self._problems.append(Problem(Status.ASSIGNMENT_DELAYED, "The first assignment waits for more members."))
            return group.assignment_epoch, NO_TASKS
        if group.assignment_epoch >= epoch:
            return group.assignment_epoch, self._known_target(updated)
        if not may_assign(group, context.settings.assignment_interval_ms(group.group_id), context.now_ms):
            self._problems.append(Problem(Status.ASSIGNMENT_DELAYED, "The next assignment waits for its interval."))
            return group.assignment_epoch, self._known_target(updated)
        membership = Membership(group, updated)
        targets = make_target(membership, configured, group.task_offsets, self._assignment.standby_replicas)
        self._records += target_records(group.group_id, membership.targets, targets, epoch, context.now_ms)
        return epoch, targets.get(updated.member_id, NO_TASKS)

    def _known_target(self, updated: StreamsMember) -> Tasks:
        """A static member inherits what is meant for the former holder of its instance id."""
        member_id, instance_id = updated.member_id, updated.instance_id
        if instance_id is not None:
            member_id = self._group.static_members.get(instance_id, member_id)
        return self._group.target_of(member_id)

    def _reconciled(self, updated: StreamsMember, target_epoch: int, target: Tasks) -> StreamsMember:
        if updated.is_reconciled_to(target_epoch):
            return updated
        member = reconcile(updated, target_epoch, target, self._group.holders, self._owned())
        if member != updated:
            self._records.append(records.current_record(self._group.group_id, member))
        return member

    def _owned(self) -> Tasks | None:
        """What the member says that it has; None if it does not say."""
        request = self._request
        roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
        return None if None in roles else Tasks(*(_task_ids(role or ()) for role in roles))

    # What the member hears of the group

    def _report_problems(self, configured: ConfiguredTopology, member: StreamsMember) -> None:
        group = self._group
        if configured.problem is not None:
            self._problems.append(configured.problem)
        if group.shutdown_requested_by is not None:
            detail = f"Member {group.shutdown_requested_by} met a fatal error and wants the whole application to stop."
            self._problems.append(Problem(Status.SHUTDOWN_APPLICATION, detail))
        missing = [tag for tag in self._assignment.rack_tags if tag not in member.client_tags]
        if missing and self._version >= 1:
            detail = (
                f"The group spreads standby tasks over client tags that the member lacks: {', '.join(missing)} (client.tag.*)."
            )
            self._problems.append(Problem(Status.MISSING_CLIENT_TAGS, detail))


def known_static(group: StreamsGroup, instance_id: str, member_id: str) -> StreamsMember:
    """The static member that these ids name. GroupError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    member = group.static_member(instance_id)
    if member is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Nobody has instance id {instance_id}.")
    if member.member_id != member_id:
        raise GroupError(ErrorCode.FENCED_INSTANCE_ID, f"Member {member.member_id} has instance id {instance_id} now.")
    return member


def same_topology(left: StreamsGroupTopologyValue, right: StreamsGroupTopologyValue) -> bool:
    """The order of subtopologies does not matter."""
    by_id = [{each.subtopology_id: each for each in topology.subtopologies} for topology in (left, right)]
    return left.epoch == right.epoch and by_id[0] == by_id[1]


def _task_ids(tasks: Sequence[RequestTaskIds]) -> dict[str, frozenset[int]]:
    return {each.subtopology_id: frozenset(each.partitions) for each in tasks}


def _nested(offsets: Sequence[TaskOffset]) -> Mapping[str, Mapping[int, int]]:
    """GroupError INVALID_REQUEST for a task that is named twice."""
    nested: dict[str, dict[int, int]] = {}
    for each in offsets:
        partitions = nested.setdefault(each.subtopology_id, {})
        if each.partition in partitions:
            raise GroupError(
                ErrorCode.INVALID_REQUEST, f"Task {each.subtopology_id}_{each.partition} has two offsets in this request."
            )
        partitions[each.partition] = each.offset
    return nested or NONE
