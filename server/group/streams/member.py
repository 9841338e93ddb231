"""A `StreamsMember` is one member of a streams group, a thread of the application, as its records describe it. It is immutable.

STABLE --new target takes something away--> UNREVOKED_TASKS --all given up--> (next target)
   ^  |                                                                           |
   |  '--another member still has a new task--> UNRELEASED_TASKS <----------------'
   '---------------------all are free--------------'
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from ottla.server.group.modern.epochs import LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.server.group.streams.tasks import NONE, NOTHING_HELD, HeldTasks
from ottla.wire.messages.internal.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from ottla.wire.messages.internal.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue


class MemberState(enum.IntEnum):
    """The states of a member. The values are those of StreamsGroupCurrentMemberAssignmentValue."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class Endpoint(NamedTuple):
    """The address where a process answers interactive queries."""

    host: str
    port: int


class StreamsMember(NamedTuple):
    """A member of a streams group (see the module's docstring). `epoch` is that of the target assignment that the member has
    reached, `previous_epoch` the one before it, which the member still sends if the answer with the new one was lost.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = NONE
    held: HeldTasks = NOTHING_HELD
    to_revoke: HeldTasks = NOTHING_HELD

    def at_epoch(self, epoch: int) -> StreamsMember:
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def left_temporarily(self) -> StreamsMember:
        """Returns a static member as it is after it left to come back later. It keeps its tasks, from epoch 0 on, so that commits
        of the client that still runs them count.
        """
        active = {name: dict.fromkeys(partitions, 0) for name, partitions in self.held.active.items()}
        return self._replace(epoch=LEAVING_STATIC_EPOCH, held=self.held._replace(active=active), to_revoke=NOTHING_HELD)

    # Records

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        endpoint = value.user_endpoint
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        known = value.state in MemberState._value2member_map_
        return self._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            held=_held(value.member_epoch, value.active_tasks, value.standby_tasks, value.warmup_tasks),
            to_revoke=_held(
                value.member_epoch,
                value.active_tasks_pending_revocation,
                value.standby_tasks_pending_revocation,
                value.warmup_tasks_pending_revocation,
            ),
        )

    def without_assignment(self) -> StreamsMember:
        """Returns the member after the tombstone of its assignment; the tombstone of the member itself comes next."""
        return self._replace(epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, held=NOTHING_HELD, to_revoke=NOTHING_HELD)


def _held(member_epoch: int, active: list[TaskIds], standby: list[TaskIds], warmup: list[TaskIds]) -> HeldTasks:
    return HeldTasks(
        {tasks.subtopology_id: dict(zip(tasks.partitions, _epochs(tasks, member_epoch), strict=True)) for tasks in active},
        {tasks.subtopology_id: frozenset(tasks.partitions) for tasks in standby},
        {tasks.subtopology_id: frozenset(tasks.partitions) for tasks in warmup},
    )


def _epochs(tasks: TaskIds, member_epoch: int) -> list[int]:
    """Returns the epoch of each task. Kafka before 4.3 wrote none; the member's own epoch counts then."""
    epochs = tasks.assignment_epochs
    return epochs if epochs is not None and len(epochs) == len(tasks.partitions) else [member_epoch] * len(tasks.partitions)
