"""A `Heartbeat` is one heartbeat of a member of a streams group: everything that it changes in the group, as records and an
answer.

With a heartbeat a member joins (epoch 0) and sends the topology, gives a sign of life, with or without the tasks that it has, or
leaves (-1, or -2 for a static member that will return; protocol.py handles these). All but a leaving member take these steps:

1. find the member: a new one, a known one, or a static member that replaces another; a wrong epoch is fenced;
2. update the member: a change requires another assignment (for a static member only a change that affects the assignment);
3. compare its topology with the group's and, if topics have changed, the group's topology with the topics;
4. raise the group's epoch if any of this, or the settings, require another assignment;
5. make a target assignment if it is behind the epoch and neither the first delay nor the interval forbids it, or have it made in
   the background if that is much (target.py);
6. lead the member towards its target (reconcile.py).

Errors: 25 UNKNOWN_MEMBER_ID, 42 INVALID_REQUEST, 69 GROUP_ID_NOT_FOUND (no group, or one of another kind), 81
GROUP_MAX_SIZE_REACHED, 82 FENCED_INSTANCE_ID, 110 FENCED_MEMBER_EPOCH, 111 UNRELEASED_INSTANCE_ID, 130 STREAMS_INVALID_TOPOLOGY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.server.base.turns import at_once
from ottla.server.group.cluster import Cluster
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.server.group.modern.topics import Topics
from ottla.server.group.records import GroupRecord
from ottla.server.group.requests import Client
from ottla.server.group.streams import records
from ottla.server.group.streams.ahead import Ahead, Offsets, value_of
from ottla.server.group.streams.group import MOST_OFFSETS, StreamsGroup, TaskOffsets
from ottla.server.group.streams.member import Endpoint, StreamsMember
from ottla.server.group.streams.reconcile import reconcile
from ottla.server.group.streams.streams_group_config import StreamsGroupConfig
from ottla.server.group.streams.target import Membership, is_small, make_target, may_assign, target_records
from ottla.server.group.streams.tasks import NO_TASKS, NONE, Tasks, contained
from ottla.server.group.streams.topology import ConfiguredTopology, Problem, Status, required_topics
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.streams_group_topology_value import StreamsGroupTopologyValue
from ottla.wire.messages.streams_group_heartbeat import RequestTaskIds, StreamsGroupHeartbeatRequest

NO_TOPOLOGY_EPOCH = -1


class HeartbeatContext(NamedTuple):
    """The parts that a heartbeat uses besides its group. `first_delay(group_id, delay_ms)` returns whether the group's first
    assignment is still delayed; the delay of a group without members begins with that call if `delay_ms` is above 0.
    `is_assigning(group_id)` returns whether a target is made in the background.
    """

    cluster: Cluster
    topics: Topics
    settings: StreamsGroupConfig
    now_ms: int
    first_delay: Callable[[str, int], bool]
    is_assigning: Callable[[str], bool]


class Outcome(NamedTuple):
    """The outcome of a heartbeat. `member` is the member as it will be, `former` as it was. With `makes_target`, the records hold
    a new target; with `assign_with`, one has to be begun with so many standby replicas, once they are written.
    """

    records: list[GroupRecord]
    group: StreamsGroup
    member: StreamsMember
    former: StreamsMember
    replaced: StreamsMember | None
    topology: ConfiguredTopology
    problems: list[Problem]
    makes_target: bool
    assign_with: int | None


class Heartbeat:
    """A heartbeat. `group` is the one that the records will be replayed into or, for a new group, one that is discarded then."""

    def __init__(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
        version: int,
        context: HeartbeatContext,
        ahead: Ahead,
        records_before: Sequence[GroupRecord] = (),
    ) -> None:
        self._group = group
        self._request = request
        self._client = client
        self._version = version
        self._context = context
        self._ahead = ahead
        self._records: list[GroupRecord] = list(records_before)
        self._problems: list[Problem] = []
        self._joins = request.member_epoch == JOINING_EPOCH
        self._assignment = context.settings.assignment(group.group_id)
        self._makes_target = False
        self._assign_with: int | None = None

    def run(self) -> Outcome:
        """Returns the outcome. If it raises GroupError (see the module's docstring), nothing must be written."""
        group, request = self._group, self._request
        if self._joins:
            self._admit_one_more()
        member, replaced = self._identify()
        updated = self._update_member(member)
        recompute = self._note_member(member, updated)
        topology = self._topology(updated)
        metadata_hash, configured, changed = self._look_at_topics(topology)
        recompute |= changed
        if configured.is_ready:
            self._check_tasks(configured)
        self._note_offsets(updated.member_id, configured)
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
        reconciled = self._reconcile(updated, target_epoch, target)
        if request.shutdown_application and group.shutdown_requested_by is None:
            group.shutdown_requested_by = request.member_id
        self._report_problems(configured, reconciled)
        return Outcome(
            self._records,
            group,
            reconciled,
            member,
            replaced,
            configured,
            self._problems,
            self._makes_target,
            self._assign_with,
        )

    # Finding the member

    def _admit_one_more(self) -> None:
        group, request = self._group, self._request
        if request.instance_id is not None and request.instance_id in group.static_members:
            return
        most = self._context.settings.max_size()
        if len(group.members) >= most and request.member_id not in group.members:
            raise GroupError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {most} members already, the most that it may have."
            )

    def _identify(self) -> tuple[StreamsMember, StreamsMember | None]:
        """Returns the member as it is, and the static member that it replaces, if any."""
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
                f"Instance id {request.instance_id} is in use by member {existing.member_id}, which has not left.",
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
        """Checks that the epoch is the member's, or the one before it if the answer with the new one may have been lost. Raises
        GroupError FENCED_MEMBER_EPOCH.
        """
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

    # Updating the member

    def _update_member(self, member: StreamsMember) -> StreamsMember:
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
        """Records the member if it has changed. Returns whether that requires another assignment."""
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

    def _note_offsets(self, member_id: str, configured: ConfiguredTopology) -> None:
        """Keeps the offsets that the member reports, of the tasks that there are."""
        offsets, end_offsets = value_of(self._ahead.offsets), value_of(self._ahead.end_offsets)
        if offsets is None and end_offsets is None:
            return
        kept = self._group.task_offsets
        known = kept.pop(member_id, TaskOffsets())
        tasks = {name: subtopology.tasks for name, subtopology in (configured.subtopologies or {}).items()}
        reported = TaskOffsets(
            known.offsets if offsets is None else _existing(offsets, tasks),
            known.end_offsets if end_offsets is None else _existing(end_offsets, tasks),
        )
        if reported.number + sum(each.number for each in kept.values()) <= MOST_OFFSETS:
            kept[member_id] = reported

    # Topology and topics

    def _topology(self, updated: StreamsMember) -> StreamsGroupTopologyValue:
        """Returns the group's topology, which may be the one that this member sends."""
        group, brought = self._group, self._request.topology
        known = group.topology
        if known is None:
            if brought is None:
                message = f"Group {group.group_id} has no topology: the member has to join again, and bring one."
                raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH, message)
            topology = self._brought()
            self._records.append(records.topology_record(group.group_id, topology))
            return topology
        if brought is not None and brought.epoch >= known.epoch and not same_topology(self._brought(), known):
            raise GroupError(ErrorCode.INVALID_REQUEST, "The group has another topology, which cannot be changed.")
        if updated.topology_epoch < known.epoch:
            detail = f"The member has topology epoch {updated.topology_epoch}, but the group has {known.epoch} already."
            self._problems.append(Problem(Status.STALE_TOPOLOGY, detail))
        return known

    def _brought(self) -> StreamsGroupTopologyValue:
        assert self._ahead.topology is not None
        return self._ahead.topology

    def _look_at_topics(self, topology: StreamsGroupTopologyValue) -> tuple[int, ConfiguredTopology, bool]:
        """Returns the hash of the group's topics, the topology as configured for them, and whether a change of them requires
        another assignment.
        """
        group, context = self._group, self._context
        if group.topology is not None and group.configured is not None and not group.refresh_due(context.now_ms):
            return group.metadata.metadata_hash, group.configured, False
        metadata_hash = context.topics.hash_of(required_topics(topology))
        changed = metadata_hash != group.metadata.metadata_hash
        if changed or group.topology is None or group.configured is None:
            group.configured = self._ahead.configured(topology, metadata_hash, context.cluster)
        if not changed:
            group.refreshed(context.now_ms, group.epoch)
        return metadata_hash, group.configured, changed

    def _check_tasks(self, configured: ConfiguredTopology) -> None:
        request = self._request
        subtopologies = configured.subtopologies or {}
        for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
            for owned in tasks or ():
                subtopology = subtopologies.get(owned.subtopology_id)
                if subtopology is None or not all(0 <= partition < subtopology.tasks for partition in owned.partitions):
                    raise GroupError(
                        ErrorCode.INVALID_REQUEST, f"Tasks {owned.partitions} of subtopology {owned.subtopology_id} do not exist."
                    )

    # Assignment

    def _target(self, updated: StreamsMember, epoch: int, configured: ConfiguredTopology, delay_ms: int) -> tuple[int, Tasks]:
        """Returns the epoch and the tasks that the member is led to. If a new target assignment is due, makes it, or leaves it to
        the background.
        """
        group, context, replicas = self._group, self._context, self._assignment.standby_replicas
        if context.first_delay(group.group_id, delay_ms):
            self._problems.append(Problem(Status.ASSIGNMENT_DELAYED, "The first assignment waits for more members."))
            return group.assignment_epoch, NO_TASKS
        if group.assignment_epoch >= epoch:
            return group.assignment_epoch, self._known_target(updated)
        if not may_assign(group, context.settings.assignment_interval_ms(group.group_id), context.now_ms):
            self._problems.append(Problem(Status.ASSIGNMENT_DELAYED, "The next assignment waits for its interval."))
            return group.assignment_epoch, self._known_target(updated)
        if context.is_assigning(group.group_id) or not is_small(group, configured, replicas):
            self._assign_with = None if context.is_assigning(group.group_id) else replicas
            self._problems.append(Problem(Status.ASSIGNMENT_DELAYED, "The assignment is being made."))
            return group.assignment_epoch, self._known_target(updated)
        membership = Membership(group, updated)
        targets = at_once(make_target(membership, configured, group.task_offsets, replicas))
        self._records += target_records(group.group_id, membership.targets, targets, epoch, context.now_ms)
        self._makes_target = True
        return epoch, targets.get(updated.member_id, NO_TASKS)

    def _known_target(self, updated: StreamsMember) -> Tasks:
        """Returns the member's present target. A static member inherits that of the former member with its instance id."""
        member_id, instance_id = updated.member_id, updated.instance_id
        if instance_id is not None:
            member_id = self._group.static_members.get(instance_id, member_id)
        return self._group.target_of(member_id)

    def _reconcile(self, updated: StreamsMember, target_epoch: int, target: Tasks) -> StreamsMember:
        if updated.is_reconciled_to(target_epoch):
            return updated
        member = reconcile(updated, target_epoch, target, self._group.holders, self._owned())
        if member != updated:
            self._records.append(records.current_record(self._group.group_id, member))
        return member

    def _owned(self) -> Tasks | None:
        """Returns the tasks that the member reports to have, or None if it does not report them."""
        request = self._request
        roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
        return None if None in roles else Tasks(*(_task_ids(role or ()) for role in roles))

    # Statuses in the answer

    def _report_problems(self, configured: ConfiguredTopology, member: StreamsMember) -> None:
        group = self._group
        if configured.problem is not None:
            self._problems.append(configured.problem)
        if group.shutdown_requested_by is not None:
            detail = f"The whole application stops: member {group.shutdown_requested_by} failed and asked for it."
            self._problems.append(Problem(Status.SHUTDOWN_APPLICATION, detail))
        missing = [tag for tag in self._assignment.rack_tags if tag not in member.client_tags]
        if missing and self._version >= 1:
            detail = (
                "streams.rack.aware.assignment.tags of the group names client tags (client.tag.*) that the member lacks: "
                f"{', '.join(missing)}."
            )
            self._problems.append(Problem(Status.MISSING_CLIENT_TAGS, detail))


def known_static(group: StreamsGroup, instance_id: str, member_id: str) -> StreamsMember:
    """Returns the static member with these two ids. Raises GroupError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    member = group.static_member(instance_id)
    if member is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"No member has the instance id {instance_id}.")
    if member.member_id != member_id:
        raise GroupError(ErrorCode.FENCED_INSTANCE_ID, f"Instance id {instance_id} is now in use by member {member.member_id}.")
    return member


def same_topology(left: StreamsGroupTopologyValue, right: StreamsGroupTopologyValue) -> bool:
    """Returns whether two topologies are the same. The order of subtopologies does not matter."""
    by_id = [{known.subtopology_id: known for known in topology.subtopologies} for topology in (left, right)]
    return left.epoch == right.epoch and by_id[0] == by_id[1]


def _task_ids(tasks: Sequence[RequestTaskIds]) -> dict[str, frozenset[int]]:
    return {owned.subtopology_id: frozenset(owned.partitions) for owned in tasks}


def _existing(offsets: Offsets, tasks: Mapping[str, int]) -> Offsets:
    """Returns the offsets of tasks that exist; `tasks` says how many each subtopology has."""
    known = {
        name: {partition: offset for partition, offset in offsets[name].items() if 0 <= partition < count}
        for name, count in tasks.items()
        if name in offsets
    }
    return {name: partitions for name, partitions in known.items() if partitions} or NONE
