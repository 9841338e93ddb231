"""One member of a streams group: a thread of the application, as its records describe it. Immutable.

STABLE --new target takes something away--> UNREVOKED_TASKS --all given up--> (next target)
   ^  |                                                                           |
   |  '--a new task is still held by another--> UNRELEASED_TASKS <----------------'
   '---------------------all are free--------------'
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from ottla.server.group.modern.epochs import LEAVING_STATIC_EPOCH
from ottla.server.group.streams.tasks import NONE, NOTHING_HELD, HeldTasks


class MemberState(enum.IntEnum):
    """The values are those of StreamsGroupCurrentMemberAssignmentValue."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class Endpoint(NamedTuple):
    """Where a process answers interactive queries."""

    host: str
    port: int


class StreamsMember(NamedTuple):
    """See the module. `epoch` is the target assignment that the member has come to, `previous_epoch` the one before it, which a
    member still names when the answer that told it of the last one was lost.
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

    def left_for_a_while(self) -> StreamsMember:
        """A static member that means to come back: its tasks wait for it, and commits of whoever still runs them count."""
        active = {name: dict.fromkeys(partitions, 0) for name, partitions in self.held.active.items()}
        return self._replace(epoch=LEAVING_STATIC_EPOCH, held=self.held._replace(active=active), to_revoke=NOTHING_HELD)
