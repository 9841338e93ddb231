"""The consumer protocol on one shard (KIP-848): its groups' records, their members' requests and timers, and what topics mean.

Reading order: member.py and group.py (what there is), reconcile.py and assignors/ (what it comes to), turn.py (how a request
becomes records), heartbeat.py, classic_members.py and migration.py (the requests).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from ottla.server.group.classic.group import ClassicGroup, State, new_group_record
from ottla.server.group.classic.protocol import ClassicProtocol
from ottla.server.group.consumer import classic_members, heartbeat, records, regexes
from ottla.server.group.consumer.assignors import ASSIGNORS
from ottla.server.group.consumer.group import ConsumerGroup, ResolvedRegex, check_epoch, stale
from ottla.server.group.consumer.heartbeat import Beat, BeatAnswer
from ottla.server.group.consumer.member import ConsumerMember, MemberState
from ottla.server.group.consumer.migration import Policy, check_upgrade, downgraded, may_downgrade, upgraded
from ottla.server.group.consumer.timeouts import Timeouts
from ottla.server.group.consumer.turn import Turn
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.modern.epochs import DUE_NOW
from ottla.server.group.modern.replaying import group_of
from ottla.server.group.modern.settings import GroupValues
from ottla.server.group.modern.timers import MemberTimers
from ottla.server.group.modern.topics import Topics
from ottla.server.group.records import GroupRecord, ProtocolRecord
from ottla.server.group.requests import Commit, Committer, Join, JoinAnswer, Leaving, Sync, SyncAnswer, refused_join
from ottla.server.group.result import Result
from ottla.server.group.seam import GroupProtocol
from ottla.server.settings.rules import assignor_name
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.leave_group import LeaveGroupResponse

if TYPE_CHECKING:
    from ottla.server.group.shard import Shard

logger = logging.getLogger("ottla.server.group")

T = TypeVar("T")

OFFSETS_SINCE: Final = 9
"""The version of OffsetCommit that knows member epochs."""


def open_protocol(shard: Shard) -> ConsumerProtocol:
    return ConsumerProtocol(shard)


class ConsumerProtocol(GroupProtocol[ConsumerGroup]):
    kind: ClassVar[Kind] = Kind.CONSUMER

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.clock = shard.clock
        self.settings = shard.settings
        self.cluster = shard.cluster
        self.run = shard.run
        self.values = GroupValues(shard.settings.broker, shard.cluster)
        self.policy = Policy(str(self.values.broker_value("group.consumer.migration.policy")).lower())
        names = self.values.broker_value("group.consumer.assignors")
        assert isinstance(names, Iterable)
        self.assignors = {name: ASSIGNORS[name] for name in map(assignor_name, names)}
        self.default_assignor = next(iter(self.assignors))
        self.topics = Topics(shard.cluster, self._tell_groups)
        self.topics_version = shard.cluster.highest_offset
        """The version of the metadata with the newest topic: expressions that were looked up before it may match it."""
        self.timeouts = Timeouts(MemberTimers(shard.clock), self.fence)
        self._looking_up: set[str] = set()

    # State

    def replay(self, record: GroupRecord) -> None:
        """Groups come with their first record and go with the tombstone of their epoch."""
        assert isinstance(record, ProtocolRecord)
        groups = self._shard.groups
        group = group_of(groups, record, ConsumerGroup)
        if group is None:
            return
        if record.value is None and isinstance(record.key, ConsumerGroupMetadataKey):
            del groups[group.group_id]
            self.discard(group, ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            group.replay(record)

    def loaded(self, group: ConsumerGroup) -> None:
        self.topics_version = self.cluster.highest_offset  # nobody told of new topics while this was read
        timeout_ms = self.values.number(group.group_id, "consumer.session.timeout.ms")
        for member in group.members.values():
            self.timeouts.session(group.group_id, member.member_id, timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self.timeouts.rebalance(group.group_id, member)

    def discard(self, group: ConsumerGroup, error: ErrorCode) -> None:
        self.forget_members(group)

    def forget_members(self, group: ConsumerGroup) -> None:
        for member_id in group.members:
            self.timeouts.forget(group.group_id, member_id)

    def topic_changed(self, topic: str, *, is_new: bool = False) -> None:
        """The next heartbeat of a group that reads it finds out what that means."""
        self.topics.changed(topic)
        if is_new:
            self.topics_version = self.cluster.highest_offset

    def _tell_groups(self, changed: Set[str]) -> None:
        for group in self._shard.groups.values():
            if isinstance(group, ConsumerGroup) and group.reads_any(changed):
                group.refresh_at_ms = DUE_NOW

    # Groups

    def find(self, group_id: str) -> ConsumerGroup | None:
        group = self._shard.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def existing(self, group_id: str) -> ConsumerGroup:
        """GroupError GROUP_ID_NOT_FOUND."""
        group = self._shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message)

    def turn(self, group_id: str, *, create: bool) -> Turn:
        """The beginning of a turn; `create`: of a group that is not there yet, or was a classic one until now. GroupError."""
        self.topics.tell_changes()
        group = self._shard.groups.get(group_id)
        if not create or isinstance(group, ConsumerGroup):
            return Turn(self, self.existing(group_id))
        turn = Turn(self, ConsumerGroup(group_id))
        if isinstance(group, ClassicGroup):
            if group.state is State.EMPTY:
                turn.records += group.tombstones()
            else:
                self._upgrade(group, turn)
        elif group is not None:
            self.existing(group_id)
        return turn

    def _upgrade(self, classic: ClassicGroup, turn: Turn) -> None:
        """The classic members come along. Whoever waits for the others in a rebalance is told that there is another one."""
        max_size = self.values.broker_number("group.consumer.max.size")
        check_upgrade(classic, self.policy, max_size)
        written = upgraded(classic, self.topics.hash_of, self.cluster)
        classic.interrupt(ErrorCode.REBALANCE_IN_PROGRESS)
        turn.records += classic.tombstones()
        turn.records += written
        for record in written:
            turn.group.replay(record)
        logger.info("group %s: from a classic to a consumer group, at epoch %d", classic.group_id, turn.group.epoch)
        for member in turn.group.members.values():
            assert member.classic is not None
            member_id, timeout_ms = member.member_id, member.classic.session_timeout_ms
            turn.after.append(lambda who=member_id, ms=timeout_ms: self.timeouts.session(classic.group_id, who, ms))  # type: ignore[misc]

    def check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        """Members, and whoever takes the place of a static one, always have room. GroupError GROUP_MAX_SIZE_REACHED."""
        if instance_id in group.static_members or member_id in group.members:
            return
        most = self.values.broker_number("group.consumer.max.size")
        if len(group.members) >= most:
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {most} members, which is the most it may have.")

    def without(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], response: T) -> Result[T]:
        """Members go: the group goes on without them, or as a classic group if only classic members are left."""
        turn = Turn(self, group)
        if not leaving:
            return turn.result(response)
        if may_downgrade(group, leaving, self.policy, self.settings.max_size):
            turn.records += group.tombstones()
            record, members = downgraded(group, leaving, None, turn.now_ms, self.cluster)
            turn.records.append(record)
            turn.after.append(lambda: self.forget_members(group))
            reason = "the last member of the consumer protocol went"
            return turn.result(response, lambda: self.become_classic(group.group_id, members, reason))
        for member in leaving:
            turn.records += records.member_gone(group.group_id, member.member_id)
            turn.after.append(lambda gone=member.member_id: self.timeouts.forget(group.group_id, gone))  # type: ignore[misc]
        counts = group.subscribed_regexes()
        counts.subtract(member.regex for member in leaving if member.regex)
        unwanted = [expression for expression, count in counts.items() if not count]
        turn.records += [records.regex_gone(group.group_id, expression) for expression in unwanted]
        metadata_hash = self.topics.hash_of(group.subscribed_topics(leaving, None, unwanted))
        turn.records.append(records.epoch(group.group_id, group.epoch + 1, metadata_hash))
        if len(leaving) == len(group.members):  # so that whoever joins next need not wait for an assignment
            turn.records.append(records.target_epoch(group.group_id, group.epoch + 1, 0))
        return turn.result(response)

    def become_classic(self, group_id: str, members: Mapping[str, ConsumerMember], reason: str | None) -> Result[None] | None:
        """The group was replayed as a classic one: its members' sessions go on, and it rebalances if there is a `reason`."""
        group = self._shard.groups[group_id]
        assert isinstance(group, ClassicGroup)
        logger.info("group %s: from a consumer to a classic group, at generation %d", group_id, group.generation)
        protocols = {member_id: member.classic.protocols for member_id, member in members.items() if member.classic}
        return self._shard.protocol(ClassicProtocol).adopt(group, protocols, reason)

    def fence(self, group_id: str, member_id: str, reason: str, *, in_epoch: int | None = None) -> None:
        """Take a member out, if it is still there, and still in that epoch. GroupError: it stays."""
        group = self.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or in_epoch not in (None, member.epoch):
            return
        self.run(self.without(group, [member], None))
        logger.info("group %s: %s is out of the group: %s", group_id, member_id, reason)

    # Expressions

    def is_looking_up(self, group_id: str) -> bool:
        return group_id in self._looking_up

    def look_up(self, group_id: str, expressions: Iterable[str]) -> None:
        """Soon, and not within the turn that asked: it may take a while."""
        self._looking_up.add(group_id)
        steps, version = regexes.match(sorted(expressions), self.cluster.topics), self.cluster.highest_offset
        self.clock.call_later(0, lambda: self._look_up(group_id, steps, version))

    def _look_up(self, group_id: str, steps: Iterator[dict[str, frozenset[str]] | None], version: int) -> None:
        found = next(steps)
        if found is None:
            self.clock.call_later(0, lambda: self._look_up(group_id, steps, version))
        else:
            self._looking_up.discard(group_id)
            self._looked_up(group_id, found, version)

    def _looked_up(self, group_id: str, found: Mapping[str, frozenset[str]], version: int) -> None:
        """What expressions matched when the metadata had that version. Whatever changed meanwhile is found the next time."""
        group = self.find(group_id)
        if group is None:
            return
        turn, changed = Turn(self, group), False
        known = dict(group.regexes)
        for expression, topics in found.items():
            if group.regex_members(expression):
                changed |= expression not in known and bool(topics)
                changed |= expression in known and known[expression].topics != topics
                known[expression] = ResolvedRegex(topics, version, turn.now_ms)
                turn.records.append(records.regex(group_id, expression, topics, version, turn.now_ms))
        read = group.subscribed_topics(gone_regexes=group.regexes).union(*(each.topics for each in known.values()))
        metadata_hash = self.topics.hash_of(read)
        if changed or metadata_hash != group.metadata_hash:
            turn.records.append(records.epoch(group_id, group.epoch + 1, metadata_hash))
            turn.after.append(turn.refreshed)
        self._shard.run_timer(turn.result(None))

    # Offsets

    def admit_commit(self, group: ConsumerGroup, committer: Committer) -> None:
        if committer.epoch < 0 and group.is_empty:
            return
        member = group.member(committer.member_id)
        if not member.is_classic and committer.version < OFFSETS_SINCE:
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION)
        _check_not_ahead(member, committer.epoch)

    def admit_commit_in_transaction(self, group: ConsumerGroup, committer: Committer) -> None:
        if committer.epoch < 0 and (group.is_empty or (not committer.member_id and committer.instance_id is None)):
            return
        _check_not_ahead(group.member(committer.member_id), committer.epoch)

    def admit_partitions(self, group: ConsumerGroup, committer: Committer, commits: Iterable[Commit]) -> None:
        """Who commits with an epoch of the past may do so for what it has had since then (KIP-1251)."""
        member = group.members.get(committer.member_id)
        if member is None or committer.epoch == member.epoch:
            return
        for commit in commits:
            since = member.assigned.get(commit.topic_id, {}).get(commit.partition)
            since = member.revoking.get(commit.topic_id, {}).get(commit.partition) if since is None else since
            if since is None or committer.epoch < since:
                raise stale(member, f"{commit.topic}-{commit.partition} was not the member's in epoch {committer.epoch}.")

    def admit_fetch(self, group: ConsumerGroup, committer: Committer) -> None:
        check_epoch(committer.epoch, group.member(committer.member_id))

    # Members

    def beat(self, group_id: str, said: Beat) -> BeatAnswer:
        """GroupError, with a text."""
        return heartbeat.beat(self, group_id, said)

    def join(self, group_id: str, request: Join) -> JoinAnswer:
        group = self._shard.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        self.topics.tell_changes()
        if not group.is_empty:
            try:
                return classic_members.join(self, group, request)
            except GroupError as error:
                return refused_join("", error.code)
        if request.member_id:
            return refused_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        if request.protocol_type and request.protocols:
            reborn: list[GroupRecord] = [*group.tombstones(), new_group_record(group_id, self.clock.now_ms())]
            self.run(Result(reborn, None))
            return self._shard.protocol(ClassicProtocol).join(group_id, request)
        return refused_join("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def sync(self, group: ConsumerGroup, request: Sync) -> SyncAnswer:
        return classic_members.sync(self, group, request)

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return classic_members.heartbeat(self, group, member_id, instance_id, generation)

    def leave(self, group: ConsumerGroup, leavers: Sequence[Leaving]) -> LeaveGroupResponse:
        return self.run(classic_members.leave(self, group, leavers))


def _check_not_ahead(member: ConsumerMember, epoch: int) -> None:
    if epoch > member.epoch:
        raise stale(member, f"Epoch {epoch} is ahead of the member's, which is {member.epoch}.")
