"""A `ConsumerMember` is one member of a consumer group, as its records describe it. It is never changed: an update is another
object (`dataclasses.replace`).

A member's partitions are `{topic id: {partition: epoch}}`, where the epoch is that of the member when it was assigned the
partition: a commit with an older epoch is from before that assignment (KIP-1251). A member has not reached the target as long as
its state is not STABLE or its epoch is not the target's; reconcile.py has the steps.

A member has two records: ConsumerGroupMemberMetadata is what it sent about itself, ConsumerGroupCurrentMemberAssignment is its
assignment and epoch. A member of the classic protocol in a consumer group has `classic`, which holds what it needs to become a
classic member again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.server.group.modern.java_order import hash_order, partition_order, string_hash, string_key, uuid_hash
from ottla.server.group.requests import MemberProtocol
from ottla.wire.messages.internal.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.wire.messages.internal.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)

Held = Mapping[bytes, Mapping[int, int]]
"""The partitions of a member: topic id -> partition -> epoch of its assignment, without empty topics."""


class MemberState(enum.IntEnum):
    """The states of a member. The values are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member has to give up partitions before it may go on to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member is in the target's epoch, and waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """The state was written by a broker that knows more states than this one."""


class ClassicMetadata(NamedTuple):
    """The additional metadata of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]

    @property
    def protocol_names(self) -> frozenset[str]:
        """Returns the names of the protocols, each once. A client may have named one twice, which Kafka counts as two members
        that support it: it refuses others who do, and may let in one with whom nothing is in common."""
        return frozenset(protocol.name for protocol in self.protocols)


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group (see the module's docstring). `epoch` is 0 for a member that joins, and -2 for a static one
    that has left temporarily.
    """

    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """The topic names that it subscribed to, whether or not they exist."""
    regex: str = ""
    assignor: str | None = None
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)
    """The partitions that were taken from the member and that it has not given up yet."""
    classic: ClassicMetadata | None = None

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def has_same_partitions(self, other: ConsumerMember) -> bool:
        """Returns whether the other has the same partitions in the same epoch, as after a record of something else."""
        return self.assigned is other.assigned and self.revoking is other.revoking and self.epoch == other.epoch

    def moved_to(self, epoch: int, state: MemberState, assigned: Held, revoking: Held) -> ConsumerMember:
        """Returns the member one step further. It keeps the former epoch, since the answer with the new one may get lost."""
        return replace(
            self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking
        )  # fmt: skip

    def away(self) -> ConsumerMember:
        """Returns a static member as it is after it left temporarily. The client that comes back under its instance id gets its
        partitions, from epoch 0 on, so that its commits count in any epoch.
        """
        kept = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in self.assigned.items()}
        return replace(self, epoch=LEAVING_STATIC_EPOCH, assigned=kept, revoking={})

    # Records

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics, key=string_key),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=None
            if self.classic is None
            else ClassicMemberMetadata(
                self.classic.session_timeout_ms,
                [ClassicProtocol(protocol.name, protocol.metadata) for protocol in self.classic.protocols],
            ),
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicMetadata(
                classic.session_timeout_ms,
                tuple(MemberProtocol(protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
            ),
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state.value,
            assigned_partitions=_to_record(self.assigned),
            partitions_pending_revocation=_to_record(self.revoking),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if value.state in set(MemberState) else MemberState.UNKNOWN,
            assigned=_from_record(value.assigned_partitions, value.member_epoch),
            revoking=_from_record(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> ConsumerMember:
        """Returns the member after the tombstone of its assignment; the tombstone of the member itself comes next."""
        return replace(self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned={}, revoking={})


def _to_record(held: Held) -> list[TopicPartitions]:
    parts = []
    for topic_id in hash_order(held, uuid_hash):
        ordered = partition_order(held[topic_id])
        parts.append(TopicPartitions(topic_id, ordered, [held[topic_id][index] for index in ordered]))
    return parts


def _from_record(parts: Iterable[TopicPartitions], member_epoch: int) -> Held:
    """Reads partitions from a record. Records of versions before assignment epochs have none; the member's epoch counts then, or
    0 for one that has left temporarily.
    """
    held: dict[bytes, dict[int, int]] = {}
    for part in parts:
        epochs = part.assignment_epochs
        if not epochs or len(epochs) != len(part.partitions):
            epochs = [max(member_epoch, 0)] * len(part.partitions)
        if part.partitions:
            held[bytes(part.topic_id)] = dict(zip(part.partitions, epochs, strict=True))
    return held


def member_order(member_ids: Iterable[str]) -> list[str]:
    """Returns members in the order in which Kafka iterates over them."""
    return hash_order(member_ids, string_hash)
