"""The classic protocol on one shard handles the requests of members and decides who may commit when (KIP-62, KIP-345,
KIP-394).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from ottla.server.group.classic import joins, membership
from ottla.server.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, State, new_group_record
from ottla.server.group.classic.rebalance import Rebalance
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.protocol import Deadline, GroupProtocol, ShardContext, deadline_of
from ottla.server.group.records import GroupRecord, MetadataRecord
from ottla.server.group.requests import Committer, Join, JoinAnswer, Leaving, MemberProtocol, Sync, SyncAnswer, refused_join
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupResponse


def open_protocol(shard: ShardContext) -> ClassicProtocol:
    return ClassicProtocol(shard)


class ClassicProtocol(GroupProtocol[ClassicGroup]):
    """The classic groups of one shard."""

    kind: ClassVar[Kind] = Kind.CLASSIC

    def __init__(self, shard: ShardContext) -> None:
        self._shard = shard
        self._rebalance = Rebalance(shard)

    # State

    def replay(self, record: GroupRecord) -> None:
        assert isinstance(record, MetadataRecord)
        groups, group_id = self._shard.groups, record.key.group
        group = groups.get(group_id)
        if record.value is None:
            if isinstance(group, ClassicGroup):
                del groups[group_id]
                self.discard(group, ErrorCode.UNKNOWN_MEMBER_ID)
        elif isinstance(group, ClassicGroup) and not self._shard.loading:
            group.replay(record.value)
        else:
            restored = ClassicGroup(group_id, record.value.current_state_timestamp, self._shard.when_answerable)
            restored.restore(record.value)
            groups[group_id] = restored

    def loaded(self, group: ClassicGroup) -> Result[None]:
        return self._rebalance.loaded(group)

    def discard(self, group: ClassicGroup, error: ErrorCode) -> None:
        self._rebalance.discard(group, error)

    def adopt(
        self, group: ClassicGroup, protocols: Mapping[str, Sequence[MemberProtocol]], reason: str | None
    ) -> Result[None] | None:
        """Takes over a group that was of another kind until now, and begins its members' sessions. `protocols` are the members',
        of which the group's record has only one each. If there is a `reason`, the group rebalances.
        """
        for member_id, known in protocols.items():
            member = group.members[member_id]
            group.update(member, known, member.rebalance_timeout_ms, member.session_timeout_ms)
            self._rebalance.reset_session(group, member)
        return None if reason is None else self._rebalance.prepare(group, reason)

    # Members

    def postpone_session(self, group: ClassicGroup, member_id: str, seconds: float) -> None:
        session = group.members[member_id].session
        if session is not None:
            session.postpone(seconds)

    def deadlines(self, group: ClassicGroup) -> Iterator[Deadline]:
        yield from deadline_of(group.join_timer, "join")
        yield from deadline_of(group.sync_timer, "sync")
        for member_id, timer in group.pending_joins.items():
            yield from deadline_of(timer, "first join", member_id)
        for member in group.members.values():
            yield from deadline_of(member.session, "session", member.member_id)

    def join(self, group_id: str, request: Join) -> JoinAnswer:
        shard = self._shard
        group = shard.groups.get(group_id)
        if group is None:
            if request.member_id:
                return refused_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            if not request.protocol_type or not request.protocols:
                return refused_join("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            shard.run(Result((new_group_record(group_id, shard.clock.now_ms()),), None))
            group = shard.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return shard.run(joins.join(self._rebalance, group, request))

    def turn_away(self, group_id: str, member_id: str) -> None:
        """Forgets a client that was given an id and is refused before anybody has looked at the group. Raises GroupError if what
        follows cannot be written."""
        group = self._shard.groups.get(group_id)
        if isinstance(group, ClassicGroup) and member_id in group.pending_joins:
            self._shard.run(joins.turn_away(self._rebalance, group, member_id, None))

    def sync(self, group: ClassicGroup, request: Sync) -> SyncAnswer:
        return self._shard.run(membership.sync(self._rebalance, group, request))

    def heartbeat(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return membership.heartbeat(self._rebalance, group, member_id, instance_id, generation)

    def leave(self, group: ClassicGroup, leavers: Sequence[Leaving]) -> LeaveGroupResponse:
        return self._shard.run(membership.leave(self._rebalance, group, leavers))

    # Offsets

    def admit_commit(self, group: ClassicGroup, committer: Committer) -> None:
        member_id, instance_id, generation, _ = committer
        if generation < 0 and group.state is State.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)  # only members may commit in a group that has members
        member = group.validate_member(member_id, instance_id)
        if generation != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        if group.state is State.COMPLETING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalance.reset_session(group, member)

    def admit_commit_in_transaction(self, group: ClassicGroup, committer: Committer) -> None:
        """Checks a commit in a transaction. A producer that names no member may commit in any state of the group."""
        member_id, instance_id, generation, _ = committer
        if generation < 0 and (group.state is State.EMPTY or (not member_id and instance_id is None)):
            return
        member = group.validate_member(member_id, instance_id)
        if generation != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        self._rebalance.reset_session(group, member)

    def admit_offset_deletion(self, group: ClassicGroup) -> None:
        """Checks that offsets may be deleted. Only of consumers is it known what they read, so other groups must be empty."""
        if group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)
