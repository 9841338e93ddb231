"""The streams protocol on one shard (KIP-1071) handles its groups' records, heartbeats and deadlines, and decides who may commit
when.

A member is removed when it sends no heartbeat for its session timeout, or does not give up tasks within its rebalance timeout.
The first assignment of a group is delayed a little, so that an application that starts several instances is assigned once.

Reading order: member.py, tasks.py and group.py (the state), topology.py (what it needs of the cluster), assignor.py and
reconcile.py (which member runs what, and how it gets there), heartbeat.py (how a request becomes records).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from ottla.server.base.turns import Steps
from ottla.server.group.errors import GroupError
from ottla.server.group.group import Group
from ottla.server.group.kind import Kind
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_STATIC_EPOCH, OFFSETS_SINCE
from ottla.server.group.modern.group import replay
from ottla.server.group.modern.group_configs import GroupConfigs
from ottla.server.group.modern.timers import MemberTimers
from ottla.server.group.modern.topics import Topics
from ottla.server.group.protocol import Deadline, GroupProtocol, ShardContext, deadline_of
from ottla.server.group.records import GroupRecord
from ottla.server.group.requests import Client, Commit, Committer, Join, JoinAnswer, refused_join
from ottla.server.group.result import Result
from ottla.server.group.streams import ahead, answers
from ottla.server.group.streams.ahead import Ahead
from ottla.server.group.streams.group import StreamsGroup
from ottla.server.group.streams.heartbeat import Heartbeat, HeartbeatContext, Outcome, known_static
from ottla.server.group.streams.member import MemberState, StreamsMember
from ottla.server.group.streams.records import current_record
from ottla.server.group.streams.streams_group_config import StreamsGroupConfig
from ottla.server.group.streams.target import StreamsTargetJobs
from ottla.server.group.streams.topology import InternalTopic
from ottla.server.group.timers import Timer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

logger = logging.getLogger("ottla.server.group")

SESSION = "session"
REBALANCE = "rebalance"


class Answer(NamedTuple):
    """The answer to a heartbeat, the internal topics that have to be created for its group, and the steps that make the list of
    endpoints if it belongs into the answer.
    """

    response: StreamsGroupHeartbeatResponse
    missing: Mapping[str, InternalTopic] = {}
    endpoints: Steps[list[EndpointToPartitions]] | None = None


def open_protocol(shard: ShardContext) -> StreamsProtocol:
    return StreamsProtocol(shard)


class StreamsProtocol(GroupProtocol[StreamsGroup]):
    """The streams groups of one shard."""

    kind: ClassVar[Kind] = Kind.STREAMS

    def __init__(self, shard: ShardContext) -> None:
        self._shard = shard
        self._timers = MemberTimers(shard.clock)
        self._delays: dict[str, Timer] = {}  # group id -> end of the delay before its first assignment
        self._failed_topics: dict[str, tuple[str, float]] = {}
        """Internal topic -> the reason why it was not created, and when it may be tried again."""
        self._topics = Topics(shard.cluster)
        self.settings = StreamsGroupConfig(GroupConfigs(shard.settings.broker, shard.cluster))
        self._target_jobs = StreamsTargetJobs(shard, self.settings)

    # State

    def replay(self, record: GroupRecord) -> None:
        replay(self._shard.groups, record, StreamsGroup, self.discard)

    def loaded(self, group: StreamsGroup) -> None:
        for member in group.members.values():
            self._begin_session(group.group_id, member.member_id)
            if member.state is MemberState.UNREVOKED_TASKS:
                self._await_revocation(group.group_id, member)

    def discard(self, group: StreamsGroup, error: ErrorCode) -> None:
        self._target_jobs.drop(group.group_id)
        for member_id in group.members:
            self._timers.cancel_all(group.group_id, member_id)
        delay = self._delays.pop(group.group_id, None)
        if delay is not None:
            delay.cancel()

    def postpone_session(self, group: StreamsGroup, member_id: str, seconds: float) -> None:
        self._timers.postpone(SESSION, group.group_id, member_id, seconds)

    def deadlines(self, group: StreamsGroup) -> Iterator[Deadline]:
        yield from self._timers.deadlines(group.group_id, group.members)
        yield from deadline_of(self._delays.get(group.group_id), "initial rebalance")

    def topic_changed(self, topic: str, *, is_new: bool = False) -> None:
        """Notes that a topic has changed. The next heartbeat of a group that needs it handles that."""
        self._topics.changed(topic)

    # Heartbeats

    def look_ahead(self, request: StreamsGroupHeartbeatRequest) -> Steps[Ahead] | None:
        """Makes steps that work out what `group_heartbeat` needs, or returns None if that is nothing."""
        group, now_ms = self._shard.groups.get(request.group_id), self._shard.clock.now_ms()
        known = group if isinstance(group, StreamsGroup) else None
        if known is not None:
            self._look_for_changes(known)
        if not ahead.is_needed(request, known, now_ms):
            return None
        return ahead.look_ahead(request, known, self._topics, self._shard.cluster, now_ms)

    def group_heartbeat(self, request: StreamsGroupHeartbeatRequest, client: Client, version: int, found: Ahead) -> Answer:
        """Answers a heartbeat of a member that joins or stays (heartbeat.py), with what was found ahead. Raises GroupError."""
        shard = self._shard
        is_known = request.group_id in shard.groups
        group, records = self._group_for(request)
        self._look_for_changes(group)
        now_ms, is_assigning = shard.clock.now_ms(), self._target_jobs.is_running
        context = HeartbeatContext(shard.cluster, self._topics, self.settings, now_ms, self._is_delayed, is_assigning)
        outcome = Heartbeat(group, request, client, version, context, found, records).run()
        try:
            shard.run(Result(outcome.records, None))
        except GroupError:
            group.forget_offsets_of_non_members()
            if outcome.makes_target:
                group.assignment_failed_ms = now_ms
            raise
        if outcome.assign_with is not None:
            self._target_jobs.start_with(self.group(request.group_id), outcome.topology, outcome.assign_with)
        member = outcome.member
        if outcome.replaced is not None:
            self._timers.cancel_all(group.group_id, outcome.replaced.member_id)
        self._begin_session(group.group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_TASKS:
            self._timers.cancel(REBALANCE, group.group_id, member.member_id)
        elif (member.epoch, member.to_revoke) != (outcome.former.epoch, outcome.former.to_revoke):
            self._await_revocation(group.group_id, member)
        return self._answer(request, outcome, is_known=is_known)

    def _look_for_changes(self, group: StreamsGroup) -> None:
        if self._topics.have_changed(group, group.needs_any):
            group.refresh_soon()

    def group_leave(self, request: StreamsGroupHeartbeatRequest) -> Answer:
        """Answers a heartbeat of a member that leaves. Raises GroupError GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or
        FENCED_INSTANCE_ID.
        """
        group = self.group(request.group_id)
        if request.shutdown_application and group.shutdown_requested_by is None:
            group.shutdown_requested_by = request.member_id
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = known_static(group, request.instance_id, request.member_id)
        if request.instance_id is not None and request.member_epoch == LEAVING_STATIC_EPOCH:
            self._shard.run(Result((current_record(group.group_id, member.left_temporarily()),), None))
        else:
            self._remove(group, member)
        return Answer(StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch))

    def _group_for(self, request: StreamsGroupHeartbeatRequest) -> tuple[StreamsGroup, Sequence[GroupRecord]]:
        """Returns the group, and the records that have to be written first. A member that joins creates the group, in place of a
        classic one without members.
        """
        group = self._shard.groups.get(request.group_id)
        joins_now = request.member_epoch == JOINING_EPOCH
        if joins_now and group is None:
            return StreamsGroup(request.group_id), ()
        if joins_now and group is not None and group.kind is Kind.CLASSIC and group.is_empty:
            return StreamsGroup(request.group_id), group.tombstones()
        return self.group(request.group_id), ()

    def group(self, group_id: str) -> StreamsGroup:
        """Returns the streams group of this id. Raises GroupError GROUP_ID_NOT_FOUND, also for a group of another kind."""
        group = self._shard.groups.get(group_id)
        if group is None:  # Kafka's DescribeStreamsGroupTest looks for these words
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, StreamsGroup):
            raise GroupError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group_id} is a {group.kind.value} group; this request is for streams groups.",
            )
        return group

    def _answer(self, request: StreamsGroupHeartbeatRequest, outcome: Outcome, *, is_known: bool) -> Answer:
        group_id, member, former = request.group_id, outcome.member, outcome.former
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms(group_id),
            task_offset_interval_ms=self.settings.task_offset_interval_ms(group_id),
            acceptable_recovery_lag=self.settings.acceptable_recovery_lag(group_id),
            status=answers.statuses(outcome.problems),
        )
        tasks_changed = member.held != former.held
        if request.member_epoch == JOINING_EPOCH or tasks_changed:
            response.active_tasks = answers.task_ids(member.held.active)
            response.standby_tasks = answers.task_ids(member.held.standby)
            response.warmup_tasks = answers.task_ids(member.held.warmup)
        group = outcome.group
        if member.endpoint != former.endpoint or (tasks_changed and member.endpoint is not None):
            group.endpoint_epoch += 1
        if is_known:
            response.endpoint_information_epoch = group.endpoint_epoch
        if group.endpoint_epoch == request.endpoint_information_epoch:
            return Answer(response, outcome.topology.missing)
        endpoints = answers.endpoints(group, member, outcome.replaced, outcome.topology, self._shard.cluster)
        return Answer(response, outcome.topology.missing, endpoints)

    # Deadlines

    def _begin_session(self, group_id: str, member_id: str) -> None:
        timeout_ms = self.settings.session_timeout_ms(group_id)
        self._timers.push_back(
            SESSION, group_id, member_id, timeout_ms, lambda: self._fence(group_id, member_id, "its session has expired")
        )

    def _await_revocation(self, group_id: str, member: StreamsMember) -> None:
        def overdue() -> None:
            self._fence(
                group_id,
                member.member_id,
                f"it was still in epoch {member.epoch} after {member.rebalance_timeout_ms} ms",
                member.epoch,
            )

        self._timers.set(REBALANCE, group_id, member.member_id, member.rebalance_timeout_ms, overdue)

    def _fence(self, group_id: str, member_id: str, why: str, epoch: int | None = None) -> None:
        """Removes a member if it is still there, and still in that epoch. Raises GroupError if that cannot be written; the member
        then stays.
        """
        group = self._shard.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        if member is None or epoch not in (None, member.epoch):
            return
        assert isinstance(group, StreamsGroup)
        self._remove(group, member)
        logger.info("group %s: removed %s: %s", group_id, member_id, why)

    def _remove(self, group: StreamsGroup, member: StreamsMember) -> None:
        self._shard.run(Result(group.removal_records(member), None))
        self._timers.cancel_all(group.group_id, member.member_id)

    def _is_delayed(self, group_id: str, delay_ms: int) -> bool:
        """Returns whether the first assignment is still delayed. Begins the delay if `delay_ms` is above 0."""
        if delay_ms > 0 and group_id not in self._delays:
            timer = self._delays[group_id] = Timer(self._shard.clock, lambda: self._assign_delayed(group_id))
            timer.reset(delay_ms)
        return group_id in self._delays

    def _assign_delayed(self, group_id: str) -> None:
        del self._delays[group_id]
        group = self._shard.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            self._target_jobs.start_delayed(group)

    # Internal topics

    def topics_to_create(self, missing: Iterable[str]) -> list[str]:
        """Returns those of the missing topics whose creation did not fail a moment ago."""
        now = self._shard.clock.monotonic()
        self._failed_topics = {name: failed for name, failed in self._failed_topics.items() if failed[1] > now}
        return [name for name in missing if name not in self._failed_topics]

    def creation_failed(self, group_id: str, topic: str, why: str) -> None:
        """Notes that a topic could not be created. It is not tried again for two heartbeat intervals; until then members get the
        reason.
        """
        seconds = 2 * self.settings.heartbeat_interval_ms(group_id) / 1000
        self._failed_topics[topic] = (why, self._shard.clock.monotonic() + seconds)

    def failures(self, topics: Iterable[str]) -> dict[str, str]:
        """Returns the reasons why topics were not created, by topic name."""
        return {name: self._failed_topics[name][0] for name in topics if name in self._failed_topics}

    # Offsets

    def admit_commit(self, group: StreamsGroup, committer: Committer) -> None:
        if committer.epoch < 0 and group.is_empty:
            return
        self._admit_member(group, committer)
        if committer.version < OFFSETS_SINCE:
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION)

    def admit_commit_in_transaction(self, group: StreamsGroup, committer: Committer) -> None:
        if committer.epoch < 0 and group.is_empty:
            return
        if committer.epoch == -1 and not committer.member_id and committer.instance_id is None:
            return
        self._admit_member(group, committer)

    def _admit_member(self, group: StreamsGroup, committer: Committer) -> None:
        if committer.epoch > group.member(committer.member_id).epoch:
            raise GroupError(ErrorCode.STALE_MEMBER_EPOCH)

    def admit_partitions(self, group: StreamsGroup, committer: Committer, commits: Iterable[Commit]) -> None:
        """Checks a commit with an earlier epoch: it is allowed for tasks that the member has had since then, because the answer
        with its new epoch may still be on its way.
        """
        member = group.members.get(committer.member_id)
        if member is None or committer.epoch >= member.epoch:
            return
        for commit in commits:
            since = group.task_epoch(member, commit.topic, commit.partition)
            if since is None or committer.epoch < since:
                raise GroupError(ErrorCode.STALE_MEMBER_EPOCH)

    def admit_fetch(self, group: StreamsGroup, committer: Committer) -> None:
        if not committer.member_id and committer.epoch < 0:
            return
        if committer.epoch != group.member(committer.member_id).epoch:
            raise GroupError(ErrorCode.STALE_MEMBER_EPOCH)

    # The classic protocol

    def join(self, group_id: str, request: Join) -> JoinAnswer:
        """Answers a JoinGroup: an empty group becomes a classic group; any other refuses it."""
        group: Group | None = self._shard.groups.get(group_id)
        assert isinstance(group, StreamsGroup)
        if group.is_empty and not request.member_id and request.protocol_type and request.protocols:
            self._shard.run(Result(group.tombstones(), None))
            return self._shard.join(group_id, request)
        return refused_join("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
