"""Turns a cluster's answers into what `ottla group` shows: plain values in, rows and JSON out. Nothing is requested here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.commands.clients.partition import Partition
from ottla.commands.output import Cell, counted
from ottla.commands.topic_rows import numbers

if TYPE_CHECKING:
    from confluent_kafka.admin import ConsumerGroupDescription

LIST_COLUMNS: Final = ("Group", "State", "Type")
OFFSET_COLUMNS: Final = ("Group", "Topic", "Partition", "Committed", "End offset", "Lag", "Client id", "Host", "Member")
MEMBER_COLUMNS: Final = ("Group", "Member", "Instance id", "Client id", "Host", "Partitions", "Assigned", "Epoch", "Target")
RESET_COLUMNS: Final = ("Topic", "Partition", "Before", "After", "Lag after")

NO_SUCH_GROUP: Final = "there is no such group"
NEWER_STATES: Final = ("Assigning", "Reconciling", "NotReady")
"""The states of groups whose broker assigns, as brokers spell them; the last one is for streams groups."""
STATES: Final = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}
"""Kafka's names for states that librdkafka names differently; any other state is "Unknown"."""


class Coordinator(NamedTuple):
    broker: int
    host: str
    port: int


class Tasks(NamedTuple):
    """The tasks of a member of a streams group. Each is a number in a subtopology, which takes the place of the topic."""

    active: tuple[Partition, ...]
    standby: tuple[Partition, ...]
    warmup: tuple[Partition, ...]


@dataclass(frozen=True)
class MemberState:
    """A member. `epoch` and `target`, its target assignment, exist if the broker assigns; share groups have no targets."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[Partition, ...]
    epoch: int | None = None
    target: tuple[Partition, ...] | None = None
    tasks: Tasks | None = None

    @property
    def address(self) -> str:
        """Returns the host as a broker knows it: groups show it after a slash, as Java does."""
        return self.host.removeprefix("/")


@dataclass(frozen=True)
class OffsetState:
    """A partition that the group has committed or that a member reads. `end_offset` is the next offset to be written. In a share
    group `committed` is the first offset that it is not done with, and `broker_lag` what its broker counts: some later records
    may be done already.
    """

    partition: Partition
    committed: int | None
    end_offset: int | None
    member: MemberState | None = None
    broker_lag: int | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets left to read. It is negative if the topic was recreated since."""
        if self.broker_lag is not None:
            return self.broker_lag
        return None if self.committed is None or self.end_offset is None else self.end_offset - self.committed


@dataclass(frozen=True)
class GroupState:
    name: str
    state: str
    kind: str
    assignor: str
    coordinator: Coordinator | None
    members: tuple[MemberState, ...]
    offsets: tuple[OffsetState, ...]
    epoch: int | None = None
    target_epoch: int | None = None

    @property
    def total_lag(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(offset.lag or 0 for offset in self.offsets)


def state_name(state: Any) -> str:
    """Returns the name of a ConsumerGroupState of librdkafka."""
    return STATES.get(getattr(state, "name", ""), "Unknown")


def type_name(kind: Any) -> str:
    """Returns the name of a ConsumerGroupType of librdkafka."""
    return str(getattr(kind, "name", "unknown")).lower()


def group_state(described: ConsumerGroupDescription) -> GroupState:
    """Makes the state of a group of librdkafka's description, without offsets."""
    members = tuple(sorted(map(member_state, described.members), key=lambda member: (member.client_id, member.member_id)))
    node = described.coordinator
    return GroupState(
        described.group_id,
        state_name(described.state),
        type_name(described.type),
        described.partition_assignor,
        Coordinator(node.id, node.host, node.port) if node else None,
        members,
        (),
    )


def with_offsets(
    group: GroupState,
    committed: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    broker_lags: Mapping[Partition, int | None] = MappingProxyType({}),
) -> GroupState:
    """Returns the group with the answers of ListOffsets and of OffsetFetch, or of its counterpart for share groups."""
    readers = {partition: member for member in group.members for partition in member.partitions}
    offsets = tuple(
        OffsetState(partition, committed.get(partition), ends.get(partition), readers.get(partition), broker_lags.get(partition))
        for partition in sorted(committed.keys() | readers.keys())
    )
    return replace(group, offsets=offsets)


def member_state(member: Any) -> MemberState:
    """Makes the state of a member of librdkafka's MemberDescription."""
    assigned = member.assignment.topic_partitions if member.assignment else ()
    partitions = sorted(Partition(one.topic, one.partition) for one in assigned)
    return MemberState(member.member_id, member.group_instance_id or None, member.client_id, member.host, tuple(partitions))


def offset_rows(group: GroupState) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for offset in group.offsets:
        topic, number = offset.partition
        reader = offset.member
        by = (None, None, None) if reader is None else (reader.client_id, reader.host, reader.member_id)
        rows.append((group.name, topic, number, offset.committed, offset.end_offset, offset.lag, *by))
    return rows


def member_rows(group: GroupState) -> list[tuple[Cell, ...]]:
    return [
        (
            group.name,
            member.member_id,
            member.instance_id,
            member.client_id,
            member.host,
            len(member.partitions),
            assigned(member.partitions),
            member.epoch,
            assigned(member.target or ()),
        )
        for member in group.members
    ]


def assigned(partitions: Sequence[Partition]) -> str | None:
    """Returns the partitions in the form `flights:0,2 hotels:1`."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return " ".join(f"{topic}:{numbers(found)}" for topic, found in by_topic.items()) or None


def summary(group: GroupState) -> str:
    """Returns the line above a group's tables."""
    parts = [group.state, f"type {group.kind}", counted(len(group.members), "member"), f"lag {group.total_lag:,}"]
    if group.epoch is not None:
        parts.append(f"epoch {group.epoch} (target {group.target_epoch})")
    if group.assignor:
        parts.append(f"assignor {group.assignor}")
    if group.coordinator is not None:
        parts.append(f"coordinator {group.coordinator.host}:{group.coordinator.port} ({group.coordinator.broker})")
    return f"{group.name}: {', '.join(parts)}"


def as_object(group: GroupState) -> dict[str, Any]:
    """Returns the group as JSON; docs/commands.md describes it for users."""
    return {
        "group": group.name,
        "state": group.state,
        "type": group.kind,
        "assignor": group.assignor or None,
        "coordinator": None if group.coordinator is None else group.coordinator._asdict(),
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "lag": group.total_lag,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": places(member.partitions),
                "epoch": member.epoch,
                "target": None if member.target is None else places(member.target),
                "tasks": None
                if member.tasks is None
                else {name: tasks_of(each) for name, each in member.tasks._asdict().items()},
            }
            for member in group.members
        ],
        "offsets": [
            {
                "topic": offset.partition.topic,
                "partition": offset.partition.number,
                "committed": offset.committed,
                "end_offset": offset.end_offset,
                "lag": offset.lag,
                "member_id": None if offset.member is None else offset.member.member_id,
            }
            for offset in group.offsets
        ],
    }


def places(partitions: Iterable[Partition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": number} for topic, number in partitions]


def tasks_of(tasks: Iterable[Partition]) -> list[dict[str, Any]]:
    return [{"subtopology": subtopology, "partition": number} for subtopology, number in tasks]


def reset_rows(
    before: Mapping[Partition, int], after: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> list[tuple[Cell, ...]]:
    return [
        (partition.topic, partition.number, before.get(partition), after[partition], ends[partition] - after[partition])
        for partition in sorted(after)
    ]
