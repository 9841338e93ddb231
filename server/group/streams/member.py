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

from ottla.server.group.modern.epochs import LEAVING_STATIC_EPOCH
from ottla.server.group.streams.tasks import NONE, NOTHING_HELD, HeldTasks


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
