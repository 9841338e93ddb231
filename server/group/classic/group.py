"""One group of the classic protocol: its members, its generation and the states it goes through.

A rebalance has two phases. All members join (PREPARING_REBALANCE); the coordinator picks a protocol that everybody supports and
a leader, and starts the next generation. All members sync (COMPLETING_REBALANCE); the leader brings the assignments, which makes
the group STABLE. What an assignment means is the clients' business, hence any protocol type ("consumer", "connect", ...) works.

    EMPTY --join--> PREPARING_REBALANCE --all joined--> COMPLETING_REBALANCE --leader synced--> STABLE
      ^                |  ^                                  | a member came, left or changed     |
      '---all left-----'  '----------------------------------+------------------------------------'
                          any state --deleted, or the partition went to another broker--> DEAD

Persistent state is what GroupMetadataValue holds: it is written when a group becomes STABLE or EMPTY (and when a static member
is replaced in a stable group) and changes by `replay` alone. Between two such records the rebalance is runtime state: members
that joined, the generation that was handed out, parked requests and timers. A crash in the middle takes the group back to its
last record; its members then notice a generation they do not know and join again. Kafka does the same.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import struct
from collections.abc import Collection, Sequence
from typing import ClassVar

from ottla.server.group.classic.members import Member
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.records import MetadataRecord, group_tombstone
from ottla.server.group.requests import Client, MemberProtocol
from ottla.server.group.seam import Group
from ottla.server.group.timers import Timer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.internal.group_metadata_value import GroupMetadataValue, MemberMetadata
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

logger = logging.getLogger("ottla.server.group")

CONSUMER_PROTOCOL_TYPE = "consumer"

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class State(enum.Enum):
    """The values are the names that ListGroups and DescribeGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset(),
}


class ClassicGroup(Group):
    """See the module. Operations that change membership keep three counts in step: static members, awaited joins, protocols."""

    kind: ClassVar[Kind] = Kind.CLASSIC

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.previous_state = State.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # group.instance.id -> member id
        # None: not known, because it is no consumer group or its members' metadata does not parse.
        self.subscribed_topics: frozenset[str] | None = None
        # Runtime state of a rebalance.
        self.awaited_joins = 0
        self.pending_joins: dict[str, Timer] = {}  # ids handed out by MEMBER_ID_REQUIRED that did not come back yet
        self.pending_syncs: set[str] = set()
        self.new_member_added = False
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self._supporters: dict[str, int] = {}  # protocol name -> members that support it

    def move(self, state: State, now_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"group {self.group_id}: {self.state.name} -> {state.name}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def is_simple(self) -> bool:
        return self.protocol_type is None

    @property
    def is_expendable(self) -> bool:
        return self.state is State.EMPTY and not self.pending_joins

    def tombstones(self) -> list[MetadataRecord]:
        return [group_tombstone(self.group_id)]

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        assert member.member_id not in self.members
        assert member.awaiting_join is None
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.forget_pending_join(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Take a member out, or an id that is still to join; the next member in line leads if this one did."""
        self.forget_pending_join(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count(member.protocols, -1)
        self.awaited_joins -= member.awaiting_join is not None
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if member.session is not None:
            member.session.cancel()
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def forget_pending_join(self, member_id: str) -> None:
        timer = self.pending_joins.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def rename_static(self, old_id: str, new_id: str) -> Member:
        """A static member came back: the same member under a new id, which fences whoever still uses the old one."""
        member = self.members.pop(old_id)
        assert member.instance_id is not None
        member.member_id = new_id
        self.members[new_id] = member
        self.static_members[member.instance_id] = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.discard(old_id)
            self.pending_syncs.add(new_id)
        if self.leader == old_id:
            self.leader = new_id
        return member

    def update(
        self, member: Member, protocols: Sequence[MemberProtocol], rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def validate_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member that these ids name. GroupError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another took its place."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Parked requests

    def park_join(self, member: Member, version: int) -> asyncio.Future[JoinGroupResponse]:
        """Lets the member's JoinGroup wait. One that was waiting already is answered to try again, so that no connection hangs
        on it.
        """
        self.answer_join(member, JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_join = asyncio.get_running_loop().create_future()
        member.join_version = version
        self.awaited_joins += 1
        return member.awaiting_join

    def park_sync(self, member: Member) -> asyncio.Future[SyncGroupResponse]:
        """Lets the member's SyncGroup wait, as park_join does for its JoinGroup."""
        self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = asyncio.get_running_loop().create_future()
        return member.awaiting_sync

    def answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Answer the member's parked JoinGroup, if there is one. Its connection may be gone: then nobody reads the answer."""
        future = member.awaiting_join
        if future is not None:
            member.awaiting_join = None
            self.awaited_joins -= 1
            if not future.done():
                future.set_result(with_protocol_name(response, member.join_version))

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answer the member's parked SyncGroup; False if there was none."""
        future = member.awaiting_sync
        if future is None:
            return False
        member.awaiting_sync = None
        if not future.done():
            future.set_result(response)
        return True

    def interrupt(self, error: ErrorCode) -> None:
        """Answers all parked requests with `error`, since the group is about to become another."""
        for member in self.members.values():
            self.answer_join(member, JoinGroupResponse(member_id=member.member_id, error_code=error))
            self.answer_sync(member, SyncGroupResponse(error_code=error))

    @property
    def all_joined(self) -> bool:
        return self.awaited_joins == len(self.members) and not self.pending_joins

    def joined_response(self, member: Member) -> JoinGroupResponse:
        """Returns the answer to a member of this generation. The leader gets everybody's metadata as well."""
        is_leader = self.leader == member.member_id
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader or "",
            member_id=member.member_id,
            members=[
                JoinGroupResponseMember(
                    member_id=other.member_id, group_instance_id=other.instance_id, metadata=other.metadata(self.protocol)
                )
                for other in self.members.values()
            ]
            if is_leader
            else [],
        )

    # Protocols

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member with these protocols could join: any may found a group, later ones need one that all members have."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(self._supporters.get(name, 0) == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; most votes win, the earliest named of equals."""
        assert self.members
        candidates = frozenset(name for name, count in self._supporters.items() if count == len(self.members))
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _count(self, protocols: Sequence[MemberProtocol], by: int) -> None:
        for name in {protocol.name for protocol in protocols}:
            self._supporters[name] = self._supporters.get(name, 0) + by

    def learn_subscriptions(self) -> None:
        """Work out which topics the members read, so that their offsets are neither expired nor deleted under them."""
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol is not None:
            try:
                metadata = [member.metadata(self.protocol) for member in self.members.values()]
                self.subscribed_topics = frozenset(topic for each in metadata for topic in subscription_topics(each))
            except (struct.error, ValueError):
                logger.info("group %s: its subscriptions cannot be read; all of its offsets are kept", self.group_id)

    def is_subscribed(self, topic: str) -> bool:
        """Unknown subscriptions of a consumer group count as all topics: better an offset too many than one lost."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    @property
    def may_expire_offsets(self) -> bool:
        """Of a simple group, an empty one, and a stable one whose subscriptions are known."""
        return (
            self.protocol_type is None
            or self.state is State.EMPTY
            or (self.state is State.STABLE and self.subscribed_topics is not None)
        )

    def expires_from_ms(self, commit_timestamp_ms: int) -> int:
        if self.protocol_type is not None and self.state is State.EMPTY and self.state_timestamp_ms != -1:
            return self.state_timestamp_ms
        return commit_timestamp_ms

    # Generations and records

    def start_generation(self, now_ms: int) -> None:
        """All members have joined: the next generation begins. Runtime state until the leader's SyncGroup is written."""
        self.generation += 1
        self.protocol = self.select_protocol()
        self.learn_subscriptions()
        self.pending_syncs.clear()
        self.move(State.COMPLETING_REBALANCE, now_ms)

    def record(self, assignments: dict[str, bytes]) -> MetadataRecord:
        """The group with its members and `assignments`, as it is to be from now on."""
        return MetadataRecord(
            GroupMetadataKey(self.group_id),
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation,
                protocol=self.protocol,
                leader=self.leader,
                current_state_timestamp=self.state_timestamp_ms,
                members=[
                    MemberMetadata(
                        member_id=member.member_id,
                        group_instance_id=member.instance_id,
                        client_id=member.client.client_id,
                        client_host=member.client.host,
                        rebalance_timeout=member.rebalance_timeout_ms,
                        session_timeout=member.session_timeout_ms,
                        subscription=member.metadata(self.protocol),
                        assignment=assignments[member.member_id],
                    )
                    for member in self.members.values()
                ],
            ),
        )

    def empty_record(self, now_ms: int) -> MetadataRecord:
        """The group after everybody left: one generation on, without a protocol, but of the same type."""
        assert not self.members
        return MetadataRecord(
            GroupMetadataKey(self.group_id),
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation + 1,
                protocol=None,
                leader=None,
                current_state_timestamp=now_ms,
                members=[],
            ),
        )

    def restore(self, value: GroupMetadataValue) -> None:
        """Become what a record read back from the log says. For a new object only: what lay between two records is unknown.

        ValueError: no group is like that. The object is of no use then.
        """
        assert not self.members
        _check_sound(self.group_id, value)
        for metadata in value.members:
            self.add(_restored(metadata, value.protocol), value.protocol_type)
        self._take(value)
        self.state = State.STABLE if self.members else State.EMPTY

    def replay(self, value: GroupMetadataValue) -> None:
        """Make true what was just appended: the generation that all members agreed on, and their assignments."""
        assert self.members.keys() == {member.member_id for member in value.members}, self.group_id
        assert value.generation >= self.generation, self.group_id
        for metadata in value.members:
            self.members[metadata.member_id].assignment = bytes(metadata.assignment)
        self._take(value)
        reached = State.STABLE if self.members else State.EMPTY
        if self.state is not reached:
            self.move(reached, value.current_state_timestamp)

    def _take(self, value: GroupMetadataValue) -> None:
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader if value.leader in self.members else next(iter(self.members), None)
        self.state_timestamp_ms = value.current_state_timestamp
        self.learn_subscriptions()


def new_group_record(group_id: str, now_ms: int) -> MetadataRecord:
    """A group that somebody is about to join."""
    return MetadataRecord(
        GroupMetadataKey(group_id),
        GroupMetadataValue(
            protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=now_ms, members=[]
        ),
    )


def with_protocol_name(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """No protocol (an error) is null where the version allows it (7 on) and an empty string before."""
    if not response.protocol_name:
        response.protocol_name = None if version >= 7 else ""
    return response


def _check_sound(group_id: str, value: GroupMetadataValue) -> None:
    """ValueError where members share an id, or have no protocol: the disk may say anything, and whoever wrote it, too."""
    ids = [member.member_id for member in value.members]
    instances = [member.group_instance_id for member in value.members if member.group_instance_id is not None]
    if len(set(ids)) < len(ids) or len(set(instances)) < len(instances):
        raise ValueError(f"a record of group {group_id} has two members of one id")
    if value.members and value.protocol is None:
        raise ValueError(f"a record of group {group_id} has members and no protocol")


def _restored(metadata: MemberMetadata, protocol: str | None) -> Member:
    """A member as the log knows it. Versions before 1 have no rebalance timeout: the session's served for both."""
    return Member(
        member_id=metadata.member_id,
        instance_id=metadata.group_instance_id,
        client=Client(metadata.client_id, metadata.client_host),
        rebalance_timeout_ms=metadata.session_timeout if metadata.rebalance_timeout == -1 else metadata.rebalance_timeout,
        session_timeout_ms=metadata.session_timeout,
        protocols=(MemberProtocol(protocol or "", bytes(metadata.subscription)),),
        assignment=bytes(metadata.assignment),
    )


def subscription_topics(metadata: bytes) -> list[str]:
    """The topics of a ConsumerProtocolSubscription of any version: they come first in all. Raises struct.error or ValueError.

    int16 version, int32 count, then count strings with int16 lengths.
    """
    (count,) = _INT32.unpack_from(metadata, 2)
    position = 6
    topics = []
    for _ in range(count):
        (length,) = _INT16.unpack_from(metadata, position)
        position += 2
        if length < 0 or position + length > len(metadata):
            raise ValueError("a topic name beyond the end of the subscription")
        topics.append(metadata[position : position + length].decode())
        position += length
    return topics
