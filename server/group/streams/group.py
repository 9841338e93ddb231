"""A `StreamsGroup` is one streams group: the content of its records, what its members reported, and what can be derived from
them.

    epoch              counts the changes that require another assignment: of members, topics and settings
    assignment epoch   the epoch that the target assignment was made for; it is lower than the first while a new one is due
    member epochs      how far each member has got towards its target

    EMPTY: there are no members.  NOT_READY: topics are missing or do not fit.  ASSIGNING: the target is behind the group.
    RECONCILING: a member is behind the target.  STABLE: no member is.

Only `replay` changes the persistent state. As in Kafka, these are in memory only: the topology as last compared with the topics,
the offsets that members reported, the member that requested a shutdown of the application, and the endpoints' epoch. A group that
was just loaded or created gets them with its next heartbeat.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, ClassVar, Final, NamedTuple

from ottla.server.group.kind import Kind
from ottla.server.group.modern.epochs import DUE_NOW, FIRST_EPOCH, LOOK_AGAIN_MS
from ottla.server.group.modern.group import ModernGroup
from ottla.server.group.records import GroupRecord, ProtocolRecord
from ottla.server.group.streams import records
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.reconcile import Holders
from ottla.server.group.streams.tasks import NO_TASKS, NONE, Tasks
from ottla.server.group.streams.topology import ConfiguredTopology, required_topics, subtopologies_by_source
from ottla.wire.messages.internal.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.wire.messages.internal.streams_group_topology_value import StreamsGroupTopologyValue

PROTOCOL_TYPE: Final = "streams"
MOST_OFFSETS: Final = 200_000
"""The most offsets of tasks that are kept of a group's members. An assignment considers them; it can do without."""


class StreamsState(enum.Enum):
    """The states of a group. The values are the names that clients see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class TaskOffsets(NamedTuple):
    """The offsets of the state on a member's disk, as last reported: their sums by subtopology and partition, and those of the
    end offsets.
    """

    offsets: Mapping[str, Mapping[int, int]] = NONE
    end_offsets: Mapping[str, Mapping[int, int]] = NONE

    @property
    def number(self) -> int:
        """Returns the number of all offsets."""
        return sum(len(partitions) for offsets in self for partitions in offsets.values())


class StreamsGroup(ModernGroup[StreamsMember]):
    """A streams group (see the module's docstring)."""

    kind: ClassVar[Kind] = Kind.STREAMS
    metadata_key: ClassVar[type] = StreamsGroupMetadataKey

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.protocol_type = PROTOCOL_TYPE
        self.metadata = records.GroupMetadata(epoch=FIRST_EPOCH)
        self.topology: StreamsGroupTopologyValue | None = None
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, Tasks] = {}
        # These are in no record.
        self.configured: ConfiguredTopology | None = None
        self.task_offsets: dict[str, TaskOffsets] = {}
        self.shutdown_requested_by: str | None = None
        self.endpoint_epoch = 0
        self._refresh_at_ms = DUE_NOW
        self._refresh_epoch = 0
        self._sources: dict[str, str] = {}  # topic -> subtopology that reads it
        self._required: set[str] = set()
        self._active: dict[str, dict[int, str]] = {}  # subtopology -> partition -> process that runs it
        self._standby: dict[str, dict[int, set[str]]] = {}
        self._warmup: dict[str, dict[int, set[str]]] = {}

    # Methods of every group

    @property
    def epoch(self) -> int:
        return self.metadata.epoch

    @property
    def state(self) -> StreamsState:
        if not self.members:
            return StreamsState.EMPTY
        if self.topology is None or self.topology.epoch != self.metadata.validated_topology_epoch:
            return StreamsState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsState.STABLE
        return StreamsState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    def is_subscribed(self, topic: str) -> bool:
        return bool(self.members) and topic in self._sources

    def tombstones(self) -> Sequence[GroupRecord]:
        return records.group_tombstones(self.group_id, self.members)

    # Members

    def static_member(self, instance_id: str) -> StreamsMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def present(self, member: StreamsMember) -> StreamsMember | None:
        there = super().present(member)
        return self.static_member(member.instance_id) if there is None and member.instance_id is not None else there

    @property
    def holders(self) -> Holders:
        return Holders(self._active, self._standby, self._warmup)

    def task_epoch(self, member: StreamsMember, topic: str, partition: int) -> int | None:
        """Returns the epoch since which the member has the task that reads the partition, even if it has to give it up; None if
        it does not have it.
        """
        subtopology = self._sources.get(topic, "")
        for held in (member.held, member.to_revoke):
            epoch = held.active.get(subtopology, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def forget_offsets_of_non_members(self) -> None:
        """Drops the offsets of a member whose first heartbeat could not be written, since nothing else would ever remove them."""
        for member_id in self.task_offsets.keys() - self.members.keys():
            del self.task_offsets[member_id]

    # Checking topics

    def needs_any(self, topics: Set[str]) -> bool:
        """Returns whether the application reads one of these topics, or keeps its state in it."""
        return not self._required.isdisjoint(topics)

    def refresh_due(self, now_ms: int) -> bool:
        """Returns whether the group's topics must be checked. They also must if the epoch of the last check was not written."""
        return now_ms >= self._refresh_at_ms or self.epoch < self._refresh_epoch

    def refreshed(self, now_ms: int, epoch: int) -> None:
        self._refresh_at_ms, self._refresh_epoch = now_ms + LOOK_AGAIN_MS, epoch

    def refresh_soon(self) -> None:
        self._refresh_at_ms, self._refresh_epoch = DUE_NOW, 0

    # Replay

    def replay(self, record: ProtocolRecord) -> None:
        _REPLAY[type(record.key).__name__](self, record.key, record.value)

    def _replay_metadata(self, key: Any, value: Any) -> None:
        if value is not None:
            self.metadata = records.read_metadata(value)

    def _replay_topology(self, key: Any, value: StreamsGroupTopologyValue | None) -> None:
        self.topology = value
        self._sources = {} if value is None else subtopologies_by_source(value)
        self._required = set() if value is None else required_topics(value)

    def _replay_target(self, key: Any, value: Any) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = records.read_target(value)

    def _new_member(self, member_id: str) -> StreamsMember:
        return StreamsMember(member_id)

    def _put(self, member: StreamsMember) -> None:
        self._forget(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        process = member.process_id
        for held in (member.held, member.to_revoke):
            for name, epochs in held.active.items():
                self._active.setdefault(name, {}).update(dict.fromkeys(epochs, process))
            for tasks, holders in ((held.standby, self._standby), (held.warmup, self._warmup)):
                for name, partitions in tasks.items():
                    copies = holders.setdefault(name, {})
                    for partition in partitions:
                        copies.setdefault(partition, set()).add(process)

    def _drop(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._forget(member)
        self.task_offsets.pop(member_id, None)
        if not self.members:
            self.shutdown_requested_by = None

    def _forget(self, member: StreamsMember | None) -> None:
        """Removes what was derived from a member that is about to change or to be removed."""
        if member is None:
            return
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        process = member.process_id
        for held in (member.held, member.to_revoke):
            for name, epochs in held.active.items():
                running = self._active.get(name, {})
                for partition in epochs:
                    if running.get(partition) == process:
                        del running[partition]
            for tasks, holders in ((held.standby, self._standby), (held.warmup, self._warmup)):
                for name, partitions in tasks.items():
                    copies = holders.get(name, {})
                    for partition in partitions:
                        copies.get(partition, set()).discard(process)

    def removal_records(self, member: StreamsMember) -> list[GroupRecord]:
        """Returns the records that remove a member. The others get its tasks with their next heartbeats."""
        gone: list[GroupRecord] = [*records.member_tombstones(self.group_id, member.member_id)]
        gone.append(records.metadata_record(self.group_id, self.metadata._replace(epoch=self.epoch + 1)))
        if len(self.members) == 1:
            gone.append(records.target_epoch_record(self.group_id, self.epoch + 1, 0))
        return gone

    def target_of(self, member_id: str) -> Tasks:
        return self.targets.get(member_id, NO_TASKS)


_REPLAY: Final[dict[str, Callable[[StreamsGroup, Any, Any], None]]] = {
    "StreamsGroupMetadataKey": StreamsGroup._replay_metadata,
    "StreamsGroupTopologyKey": StreamsGroup._replay_topology,
    "StreamsGroupMemberMetadataKey": StreamsGroup._replay_member,
    "StreamsGroupTargetAssignmentMemberKey": StreamsGroup._replay_target,
    "StreamsGroupTargetAssignmentMetadataKey": StreamsGroup._replay_target_epoch,
    "StreamsGroupCurrentMemberAssignmentKey": StreamsGroup._replay_current,
}
