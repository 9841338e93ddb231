"""What `ottla group` shows, made of what a cluster answered: plain values in, rows and JSON out; nothing is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.commands.output import Cell
from ottla.commands.positions import Partition
from ottla.commands.topic_rows import counted, numbers

if TYPE_CHECKING:
    from confluent_kafka.admin import ConsumerGroupDescription

LIST_COLUMNS: Final = ("Group", "State", "Type")
OFFSET_COLUMNS: Final = ("Group", "Topic", "Partition", "Committed", "End offset", "Lag", "Client id", "Host", "Member")
MEMBER_COLUMNS: Final = ("Group", "Member", "Instance id", "Client id", "Host", "Partitions", "Assigned", "Epoch", "Target")
RESET_COLUMNS: Final = ("Topic", "Partition", "Before", "After", "Lag after")

NO_SUCH_GROUP: Final = "there is no such group"
NEWER_STATES: Final = ("Assigning", "Reconciling", "NotReady")
"""Of groups whose broker assigns, as brokers write them; the last of streams groups."""
STATES: Final = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}
"""Kafka's words for what librdkafka names in its own way; another state is "Unknown"."""


class Coordinator(NamedTuple):
    broker: int
    host: str
    port: int


class Tasks(NamedTuple):
    """Of a member of a streams group; each a number in a subtopology, which stands for the topic."""

    active: tuple[Partition, ...]
    standby: tuple[Partition, ...]
    warmup: tuple[Partition, ...]


@dataclass(frozen=True)
class MemberState:
    """`epoch` and `target`, what it shall have, are of groups whose broker assigns; share groups have no target to wait for."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[Partition, ...]
    epoch: int | None = None
    target: tuple[Partition, ...] | None = None
    tasks: Tasks | None = None


@dataclass(frozen=True)
class OffsetState:
    """A partition that the group has committed, or that a member reads. `end_offset` is the next to be written. Of a share group
    `committed` is the first offset that it is not done with, and `told_lag` what its broker counts: some behind it may be done.
    """

    partition: Partition
    committed: int | None
    end_offset: int | None
    member: MemberState | None = None
    told_lag: int | None = None

    @property
    def lag(self) -> int | None:
        """Offsets between: what is left to read. Below zero if the topic was made anew since."""
        if self.told_lag is not None:
            return self.told_lag
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
        """Of the partitions whose lag is known."""
        return sum(offset.lag or 0 for offset in self.offsets)


def state_name(state: Any) -> str:
    """Of a ConsumerGroupState of librdkafka."""
    return STATES.get(getattr(state, "name", ""), "Unknown")


def type_name(kind: Any) -> str:
    """Of a ConsumerGroupType."""
    return str(getattr(kind, "name", "unknown")).lower()


def group_state(described: ConsumerGroupDescription) -> GroupState:
    """One group as librdkafka describes it, without its offsets."""
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
    told_lags: Mapping[Partition, int | None] = MappingProxyType({}),
) -> GroupState:
    """The group with what OffsetFetch, or its like for share groups, and ListOffsets said."""
    readers = {partition: member for member in group.members for partition in member.partitions}
    offsets = tuple(
        OffsetState(partition, committed.get(partition), ends.get(partition), readers.get(partition), told_lags.get(partition))
        for partition in sorted(committed.keys() | readers.keys())
    )
    return replace(group, offsets=offsets)


def member_state(member: Any) -> MemberState:
    """Of a MemberDescription of librdkafka."""
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
    """`flights:0,2 hotels:1`"""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return " ".join(f"{topic}:{numbers(found)}" for topic, found in by_topic.items()) or None


def summary(group: GroupState) -> str:
    """The line above a group's tables."""
    parts = [group.state, f"type {group.kind}", counted(len(group.members), "member"), f"lag {group.total_lag:,}"]
    if group.epoch is not None:
        parts.append(f"epoch {group.epoch} (target {group.target_epoch})")
    if group.assignor:
        parts.append(f"assignor {group.assignor}")
    if group.coordinator is not None:
        parts.append(f"coordinator {group.coordinator.host}:{group.coordinator.port} ({group.coordinator.broker})")
    return f"{group.name}: {', '.join(parts)}"


def as_object(group: GroupState) -> dict[str, Any]:
    """The group in JSON; docs/commands.md is its description for users."""
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
