"""A `ClassicGroup` is one group of the classic protocol: its members, its generation and the states it goes through.

A rebalance has two phases. First all members join (PREPARING_REBALANCE); the coordinator then chooses a protocol that all members
support, and a leader, and starts the next generation. Then all members sync (COMPLETING_REBALANCE); the leader sends the
assignments, which makes the group STABLE. Only clients know what an assignment means, so any protocol type ("consumer",
"connect", ...) works.

    EMPTY --join--> PREPARING_REBALANCE --all joined--> COMPLETING_REBALANCE --leader synced--> STABLE
      ^                |  ^                                  | a member came, left or changed     |
      '---all left-----'  '----------------------------------+------------------------------------'
                          any state --deleted, or the partition went to another broker--> DEAD

The persistent state is a GroupMetadataValue: it is written when a group becomes STABLE or EMPTY (and when a static member is
replaced in a stable group), and only `replay` changes it. Between two such records the rebalance is runtime state: members that
joined, the generation that was handed out, parked requests and timers. After a crash in the middle the group is what its last
record says; its members are then refused with the generation they have, and join again. Kafka does the same.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import struct
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import ClassVar, TypeVar

from ottla.server.group.classic.member_limits import MOST_NAMES
from ottla.server.group.classic.members import Member
from ottla.server.group.errors import GroupError
from ottla.server.group.group import Group
from ottla.server.group.kind import Kind
from ottla.server.group.pending_ids import PendingId
from ottla.server.group.records import MetadataRecord, group_tombstone
from ottla.server.group.requests import Client, MemberProtocol
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


WhenAnswerable = Callable[[Callable[[ErrorCode], object]], object]
"""`CoordinatorShard.when_answerable` (server/coordination/shard.py)."""


def _now(then: Callable[[ErrorCode], object]) -> None:
    """Stands for a shard that has replicated everything."""
    then(ErrorCode.NONE)


A = TypeVar("A", JoinGroupResponse, SyncGroupResponse)


def _give(parked: asyncio.Future[A], answer: A, refuse: Callable[[ErrorCode], A], code: ErrorCode) -> None:
    """Gives a parked request its answer, or what `refuse` makes of the code if this broker no longer leads the shard."""
    if not parked.done():
        parked.set_result(refuse(code) if code else answer)


def _refused_join(member: Member, code: ErrorCode) -> JoinGroupResponse:
    return with_protocol_name(JoinGroupResponse(member_id=member.member_id, error_code=code), member.join_version)


class ClassicGroup(Group):
    """A group of the classic protocol (see the module's docstring). Whatever changes its membership also updates the static
    members, the number of awaited joins, and the number of members that support each protocol.
    """

    kind: ClassVar[Kind] = Kind.CLASSIC

    def __init__(self, group_id: str, now_ms: int, when_answerable: WhenAnswerable = _now) -> None:
        """`when_answerable` is that of the group's shard: answers to parked requests go out when the shard allows it."""
        self._when_answerable = when_answerable
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
        # None means unknown: it is not a consumer group, or its members' metadata does not parse.
        self.subscribed_topics: frozenset[str] | None = None
        # Runtime state of a rebalance.
        self.awaited_joins = 0
        self.pending_joins: dict[str, PendingId] = {}  # ids that were handed out and that have not joined yet
        self.pending_syncs: set[str] = set()
        self.new_member_added = False
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self.held_bytes = 0  # what all members brought with them
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
        self._count(member, 1)
        self.forget_pending_join(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Removes a member, or an id that has yet to join. If it was the leader, the next member becomes the leader."""
        self.forget_pending_join(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count(member, -1)
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
        """Gives a static member that came back a new id, which fences a client that still uses the old one."""
        member = self.members.pop(old_id)
        assert member.instance_id is not None
        self.held_bytes += len(new_id) - len(old_id)
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
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def validate_member(self, member_id: str, instance_id: str | None) -> Member:
        """Returns the member with these ids. Raises GroupError UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another client took
        the place of the static member.
        """
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
        """Parks the member's JoinGroup. One that was parked before is answered with a retriable error, so that its connection
        does not hang.
        """
        self.answer_join(member, JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_join = asyncio.get_running_loop().create_future()
        member.join_version = version
        self.awaited_joins += 1
        return member.awaiting_join

    def park_sync(self, member: Member) -> asyncio.Future[SyncGroupResponse]:
        """Parks the member's SyncGroup, as `park_join` does its JoinGroup."""
        self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = asyncio.get_running_loop().create_future()
        return member.awaiting_sync

    def answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Answers the member's parked JoinGroup, if there is one. If its connection is closed, the answer is dropped."""
        future = member.awaiting_join
        if future is not None:
            member.awaiting_join = None
            self.awaited_joins -= 1
            answer = with_protocol_name(response, member.join_version)
            self._when_answerable(partial(_give, future, answer, partial(_refused_join, member)))

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answers the member's parked SyncGroup. Returns False if there was none."""
        future = member.awaiting_sync
        if future is None:
            return False
        member.awaiting_sync = None
        self._when_answerable(partial(_give, future, response, lambda code: SyncGroupResponse(error_code=code)))
        return True

    def interrupt(self, error: ErrorCode) -> None:
        """Answers all parked requests with `error`, because the group is about to be converted to another kind."""
        for member in self.members.values():
            self.answer_join(member, JoinGroupResponse(member_id=member.member_id, error_code=error))
            self.answer_sync(member, SyncGroupResponse(error_code=error))

    @property
    def all_joined(self) -> bool:
        return self.awaited_joins == len(self.members) and not self.pending_joins

    def joined_response(self, member: Member) -> JoinGroupResponse:
        """Returns the JoinGroup answer to a member of this generation. The leader also gets the metadata of all members."""
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
        """Returns whether a member with these protocols could join. Any may join an empty group; later members need a protocol
        that all members support.
        """
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(self._supporters.get(name, 0) == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """Chooses the protocol. Each member votes for the first of its protocols that all members support; the most votes win,
        and of equals the one that was voted for first.
        """
        assert self.members
        candidates = frozenset(name for name, count in self._supporters.items() if count == len(self.members))
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _count(self, member: Member, by: int) -> None:
        self.held_bytes += by * member.size
        for name in {protocol.name for protocol in member.protocols}:
            self._supporters[name] = self._supporters.get(name, 0) + by
            if not self._supporters[name]:
                del self._supporters[name]

    def learn_subscriptions(self) -> None:
        """Finds out which topics the members read, so that their offsets neither expire nor are deleted."""
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol is not None:
            topics: set[str] = set()
            left = MOST_NAMES
            try:
                for metadata in {member.metadata(self.protocol) for member in self.members.values()}:
                    named = subscription_topics(metadata, left)
                    left -= len(named)
                    topics.update(named)
                self.subscribed_topics = frozenset(topics)
            except (struct.error, ValueError):
                logger.info(
                    "group %s: its subscriptions are too long or unreadable, so all of its offsets are kept", self.group_id
                )

    def is_subscribed(self, topic: str) -> bool:
        """Returns whether the group reads the topic. A consumer group with unknown subscriptions counts as reading all topics, so
        that no offset is lost.
        """
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    @property
    def may_expire_offsets(self) -> bool:
        """Says whether offsets may expire: those of a simple group, of an empty one, and of a stable one with known
        subscriptions.
        """
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
        """Begins the next generation when all members have joined. It is runtime state until the leader's SyncGroup is
        written.
        """
        self.generation += 1
        self.protocol = self.select_protocol()
        self.learn_subscriptions()
        self.pending_syncs.clear()
        self.move(State.COMPLETING_REBALANCE, now_ms)

    def record(self, assignments: dict[str, bytes]) -> MetadataRecord:
        """Returns the record of the group with its members and `assignments`."""
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
        """Returns the record of the group after all members left: in the next generation, without a protocol, but of the same
        protocol type.
        """
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
        """Takes over a record that was read from the log. This is for a new object only, since the state between two records is
        unknown.

        Raises ValueError if no group can be like that; the object must not be used then.
        """
        assert not self.members
        _check_sound(self.group_id, value)
        for metadata in value.members:
            self.add(_restore_member(metadata, value.protocol), value.protocol_type)
        self._take(value)
        self.state = State.STABLE if self.members else State.EMPTY

    def replay(self, value: GroupMetadataValue) -> None:
        """Applies the record that was just appended: the generation that all members joined, and their assignments."""
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
    """Returns the record of a new group that a member is about to join."""
    return MetadataRecord(
        GroupMetadataKey(group_id),
        GroupMetadataValue(
            protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=now_ms, members=[]
        ),
    )


def with_protocol_name(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Makes the missing protocol name of an error null from version 7 on and an empty string before. Returns the response."""
    if not response.protocol_name:
        response.protocol_name = None if version >= 7 else ""
    return response


def _check_sound(group_id: str, value: GroupMetadataValue) -> None:
    """Raises ValueError if members share an id or have no protocol, as a damaged record or one of another program may say."""
    ids = [member.member_id for member in value.members]
    instances = [member.group_instance_id for member in value.members if member.group_instance_id is not None]
    if len(set(ids)) < len(ids) or len(set(instances)) < len(instances):
        raise ValueError(f"a record of group {group_id} has two members with the same id")
    if value.members and value.protocol is None:
        raise ValueError(f"a record of group {group_id} has members but no protocol")


def _restore_member(metadata: MemberMetadata, protocol: str | None) -> Member:
    """Returns a member as the log has it. Versions before 1 have no rebalance timeout; the session timeout counted as both."""
    return Member(
        member_id=metadata.member_id,
        instance_id=metadata.group_instance_id,
        client=Client(metadata.client_id, metadata.client_host),
        rebalance_timeout_ms=metadata.session_timeout if metadata.rebalance_timeout == -1 else metadata.rebalance_timeout,
        session_timeout_ms=metadata.session_timeout,
        protocols=(MemberProtocol(protocol or "", bytes(metadata.subscription)),),
        assignment=bytes(metadata.assignment),
    )


def topic_count(metadata: bytes) -> int:
    """Returns how many topics a ConsumerProtocolSubscription has, or says that it has. Raises struct.error."""
    (count,) = _INT32.unpack_from(metadata, 2)
    return int(count)


def subscription_topics(metadata: bytes, most: int = MOST_NAMES) -> list[str]:
    """Returns the topics of a ConsumerProtocolSubscription of any version. Raises struct.error or ValueError, also if they are
    more than `most`.

    In all versions it begins with an int16 version and an int32 count, followed by that many strings with int16 lengths.
    """
    count = topic_count(metadata)
    if count > most:
        raise ValueError(f"{count} topics are more than {most}")
    position = 6
    topics = []
    for _ in range(count):
        (length,) = _INT16.unpack_from(metadata, position)
        position += 2
        if length < 0 or position + length > len(metadata):
            raise ValueError("a topic name extends beyond the end of the subscription")
        topics.append(metadata[position : position + length].decode())
        position += length
    return topics
