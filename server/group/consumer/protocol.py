"""The consumer protocol on one shard (KIP-848) handles its groups' records, their members' requests and timers, and changes of
topics.

Reading order: member.py and group.py (the state), reconcile.py and assignors/ (the computations), services.py and update.py (how
a request becomes records), identity.py, heartbeat.py, departures.py, classic_members.py and migration.py (the requests).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from ottla.server.base.promise import Promise
from ottla.server.group.classic.group import new_group_record
from ottla.server.group.classic.protocol import ClassicProtocol
from ottla.server.group.consumer import classic_members, departures, heartbeat, records
from ottla.server.group.consumer.group import ConsumerGroup, ResolvedRegex, check_epoch, stale_epoch_error
from ottla.server.group.consumer.heartbeat import Heartbeat, HeartbeatAnswer
from ottla.server.group.consumer.lookups import Matches, RegexLookups
from ottla.server.group.consumer.member import ConsumerMember, MemberState
from ottla.server.group.consumer.services import ConsumerServices
from ottla.server.group.consumer.timeouts import Timeouts
from ottla.server.group.consumer.update import GroupUpdate
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.modern.epochs import OFFSETS_SINCE
from ottla.server.group.modern.group import replay
from ottla.server.group.modern.timers import MemberTimers
from ottla.server.group.protocol import Deadline, GroupProtocol, ShardContext
from ottla.server.group.records import GroupRecord
from ottla.server.group.requests import Commit, Committer, Join, JoinAnswer, Leaving, Sync, SyncAnswer, refused_join
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupResponse

logger = logging.getLogger("ottla.server.group")


def open_protocol(shard: ShardContext) -> ConsumerProtocol:
    return ConsumerProtocol(shard)


class ConsumerProtocol(GroupProtocol[ConsumerGroup]):
    """The consumer groups of one shard."""

    kind: ClassVar[Kind] = Kind.CONSUMER

    def __init__(self, shard: ShardContext) -> None:
        self._shard = shard
        timeouts = Timeouts(MemberTimers(shard.clock), self._fence)
        self._services = ConsumerServices(shard, timeouts, RegexLookups(shard.clock, shard.cluster, self._record_matches))

    @property
    def assignors(self) -> dict[str, Any]:
        """Returns the assignors that `group.consumer.assignors` offers, by name."""
        return self._services.assignors

    @property
    def default_assignor(self) -> str:
        """Returns the assignor of groups whose members do not ask for one."""
        return self._services.default_assignor

    # State

    def replay(self, record: GroupRecord) -> None:
        replay(self._shard.groups, record, ConsumerGroup, self.discard)

    def loaded(self, group: ConsumerGroup) -> None:
        services = self._services
        services.topics_version = services.cluster.highest_offset  # new topics were not reported while the partition was read
        timeout_ms = services.values.number(group.group_id, "consumer.session.timeout.ms")
        for member in group.members.values():
            services.timeouts.session(group.group_id, member.member_id, timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                services.timeouts.rebalance(group.group_id, member)

    def discard(self, group: ConsumerGroup, error: ErrorCode) -> None:
        self._services.target_jobs.drop(group.group_id)
        self._services.forget_members(group.group_id, group.members)

    def postpone_session(self, group: ConsumerGroup, member_id: str, seconds: float) -> None:
        self._services.timeouts.postpone_session(group.group_id, member_id, seconds)

    def deadlines(self, group: ConsumerGroup) -> Iterator[Deadline]:
        return self._services.timeouts.deadlines(group.group_id, group.members)

    def topic_changed(self, topic: str, *, is_new: bool = False) -> None:
        self._services.topic_changed(topic, is_new=is_new)

    def _fence(self, group_id: str, member_id: str, reason: str, *, in_epoch: int | None = None) -> None:
        departures.fence(self._services, group_id, member_id, reason, in_epoch)

    def _record_matches(self, group_id: str, matches: Matches, version: int) -> None:
        """Records the matches of expressions in that version of the metadata. The next lookup finds what has changed since. One
        that is not accepted keeps the topics that it had where it was accepted: its members go on."""
        group = self._services.find(group_id)
        if group is None:
            return
        update, changed = GroupUpdate(self._services, group), False
        known = dict(group.regexes)
        for expression, found in matches.items():
            topics = found
            if topics is None:
                topics = known[expression].topics if expression in known else frozenset()
                logger.warning(
                    "group %s: an expression that this broker does not accept keeps its %d topics, and gets no others: %.200s",
                    group_id,
                    len(topics),
                    expression,
                )
            if group.regex_members(expression):
                changed |= expression not in known and bool(topics)
                changed |= expression in known and known[expression].topics != topics
                known[expression] = ResolvedRegex(topics, version, update.now_ms)
                update.records.append(records.regex(group_id, expression, topics, version, update.now_ms))
        read = group.subscribed_topics(gone_regexes=group.regexes).union(*(resolved.topics for resolved in known.values()))
        metadata_hash = self._services.topics.hash_of(read)
        if changed or metadata_hash != group.metadata_hash:
            update.records.append(records.epoch(group_id, group.epoch + 1, metadata_hash))
            update.after.append(update.refreshed)
        self._shard.run_timer(update.result(None))

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
        """Checks a commit with a former epoch: it is allowed for partitions that the member has had since then (KIP-1251)."""
        member = group.members.get(committer.member_id)
        if member is None or committer.epoch == member.epoch:
            return
        for commit in commits:
            since = member.assigned.get(commit.topic_id, {}).get(commit.partition)
            since = member.revoking.get(commit.topic_id, {}).get(commit.partition) if since is None else since
            if since is None or committer.epoch < since:
                message = f"{commit.topic}-{commit.partition} was not assigned to the member in epoch {committer.epoch}."
                raise stale_epoch_error(member, message)

    def admit_fetch(self, group: ConsumerGroup, committer: Committer) -> None:
        check_epoch(committer.epoch, group.member(committer.member_id))

    # Members

    def existing(self, group_id: str) -> ConsumerGroup:
        """Returns the consumer group of this id. Raises GroupError GROUP_ID_NOT_FOUND."""
        return self._services.existing(group_id)

    def group_heartbeat(self, group_id: str, request: Heartbeat) -> HeartbeatAnswer | Promise[HeartbeatAnswer]:
        """Answers a ConsumerGroupHeartbeat. Raises GroupError, with a message, or the promise fails with it."""
        return heartbeat.heartbeat(self._services, group_id, request)

    def new_member_id(self) -> str:
        """Returns an id for a member that joins without one."""
        return classic_members.new_member_id(self._shard.random)

    def join(self, group_id: str, request: Join) -> JoinAnswer:
        group = self._shard.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        self._services.look_for_changes(group)
        if not group.is_empty:
            try:
                return classic_members.join(self._services, group, request)
            except GroupError as error:
                return refused_join("", error.code)
        if request.member_id:
            return refused_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        if request.protocol_type and request.protocols:
            replaced: list[GroupRecord] = [*group.tombstones(), new_group_record(group_id, self._shard.clock.now_ms())]
            self._shard.run(Result(replaced, None))
            return self._shard.protocol(ClassicProtocol).join(group_id, request)
        return refused_join("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def sync(self, group: ConsumerGroup, request: Sync) -> SyncAnswer:
        return classic_members.sync(self._services, group, request)

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return classic_members.heartbeat(self._services, group, member_id, instance_id, generation)

    def leave(self, group: ConsumerGroup, leavers: Sequence[Leaving]) -> LeaveGroupResponse:
        return self._shard.run(classic_members.leave(self._services, group, leavers))


def _check_not_ahead(member: ConsumerMember, epoch: int) -> None:
    if epoch > member.epoch:
        raise stale_epoch_error(member, f"Epoch {epoch} is ahead of the member's epoch, which is {member.epoch}.")
