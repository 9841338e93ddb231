"""The share protocol on one shard handles heartbeats and sessions of share groups, and initializes the state of partitions
(KIP-932).

A heartbeat compares what the member sends, and the topics that exist, with the group. It may change the member, raise the group's
epoch, make a new target, and give it to the member: all of that is one batch of records. A partition is assigned once its state
is initialized. The caller has that done (server/share/group_state.py) after the heartbeat is written, and passes the outcome to
`change_state_partitions`. The next heartbeat then finds partitions that no member has, and raises the epoch.

The answer contains the member's assignment only if it has changed, or if the member sent its subscription.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, NamedTuple, TypeVar

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, at_once, in_runs, one_kept, take_in_background
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment, AssignorError
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_EPOCH, LOOK_AGAIN_MS
from ottla.server.group.modern.group_configs import GroupConfigs
from ottla.server.group.modern.java_order import hash_order, string_hash
from ottla.server.group.modern.operations import Operations
from ottla.server.group.modern.target import changed_targets
from ottla.server.group.modern.target_jobs import TargetJobs, is_small
from ottla.server.group.modern.timers import MemberTimers
from ottla.server.group.modern.topics import NAMES_A_STEP, Topics
from ottla.server.group.protocol import Deadline, GroupProtocol, ShardContext
from ottla.server.group.records import GroupRecord, ProtocolRecord
from ottla.server.group.requests import Client, Committer
from ottla.server.group.result import Result
from ottla.server.group.share import records
from ottla.server.group.share.group import ShareGroup
from ottla.server.group.share.member import ShareMember
from ottla.server.group.share.state_partitions import ByTopic, StatePartitions, TopicPartitions
from ottla.server.group.share.targets import Snapshot, assign
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.share_group_metadata_key import ShareGroupMetadataKey

logger = logging.getLogger("ottla.server.group")

T = TypeVar("T")

SESSION: Final = "session"


class Heartbeat(NamedTuple):
    """A heartbeat of a member. None means that a value has not changed."""

    member_id: str
    epoch: int
    rack_id: str | None
    topics: Sequence[str] | None
    client: Client


class Initialize(NamedTuple):
    """Partitions whose state the share coordinator has to initialize, by topic id, and the start offset for each topic."""

    state_epoch: int
    topics: ByTopic
    start_offsets: Mapping[bytes, int]


class HeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat. `assigned` is None if it has not changed, and `initialize` is None if no partition needs to be
    initialized.
    """

    member_id: str
    epoch: int
    interval_ms: int
    assigned: Assignment | None = None
    initialize: Initialize | None = None


def open_protocol(shard: ShardContext) -> ShareProtocol:
    return ShareProtocol(shard)


class ShareProtocol(GroupProtocol[ShareGroup]):
    """The share groups of one shard."""

    kind: ClassVar[Kind] = Kind.SHARE

    def __init__(self, shard: ShardContext) -> None:
        self._shard = shard
        self._timers = MemberTimers(shard.clock)
        self._values = GroupConfigs(shard.settings.broker, shard.cluster)
        self._topics = Topics(shard.cluster)
        self._operations = Operations(shard)
        self._jobs = TargetJobs(shard, NOTHING_ASSIGNED, records.target, records.target_epoch)
        self._cleaning = False

    # State

    def replay(self, record: GroupRecord) -> None:
        assert isinstance(record, ProtocolRecord)
        groups, group_id = self._shard.groups, record.group_id
        group = groups.get(group_id)
        if not isinstance(group, ShareGroup):
            if record.value is None:
                return
            if group is not None and not self._shard.loading:
                raise ValueError(f"a record of a share group is for the {group.kind.value} group {group_id}")
            group = groups[group_id] = ShareGroup(group_id, self._shard.clock.now_ms)
        if record.value is None and isinstance(record.key, ShareGroupMetadataKey):
            self.discard(group, ErrorCode.UNKNOWN_MEMBER_ID)
            del groups[group_id]
        else:
            group.replay(record)

    def loaded(self, group: ShareGroup) -> Result[None] | None:
        for member_id in group.members:
            self._begin_session(group.group_id, member_id)
        return None

    def discard(self, group: ShareGroup, error: ErrorCode) -> None:
        self._jobs.drop(group.group_id)
        for member_id in group.members:
            self._timers.cancel_all(group.group_id, member_id)

    def postpone_session(self, group: ShareGroup, member_id: str, seconds: float) -> None:
        self._timers.postpone(SESSION, group.group_id, member_id, seconds)

    def deadlines(self, group: ShareGroup) -> Iterator[Deadline]:
        return self._timers.deadlines(group.group_id, group.members)

    def topic_changed(self, topic: str, *, is_new: bool = False) -> None:
        self._topics.changed(topic)
        if topic not in self._shard.cluster.topics and not self._cleaning:
            self._cleaning = True
            self._shard.clock.call_later(0, self._forget_deleted_topics)

    def _groups(self) -> list[ShareGroup]:
        return [group for group in self._shard.groups.values() if isinstance(group, ShareGroup)]

    def _forget_deleted_topics(self) -> None:
        self._cleaning = False
        take_in_background(self._forget(), self._shard.clock)

    def _forget(self) -> Steps[None]:
        for group in self._groups():
            gone = self._deleted_topics(group)
            if gone and self._shard.groups.get(group.group_id) is group and not self._shard.is_over:
                try:
                    yield from one_kept(self._change(group.group_id, self.group, self._without_deleted_topics, gone))
                except GroupError as error:
                    logger.warning("share group %s: cannot forget the topics that were deleted: %s", group.group_id, error)
            yield None

    def _deleted_topics(self, group: ShareGroup) -> set[bytes]:
        there = self._shard.cluster.topics_by_id
        return {topic_id for topics in group.state_partitions for topic_id in topics if topic_id not in there}

    def _without_deleted_topics(self, group: ShareGroup) -> StatePartitions:
        return group.state_partitions.without_topics(self._deleted_topics(group))

    # Heartbeats

    def group_heartbeat(self, group_id: str, request: Heartbeat) -> HeartbeatAnswer | Promise[HeartbeatAnswer]:
        """Answers a ShareGroupHeartbeat. Raises GroupError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID or
        FENCED_MEMBER_EPOCH, each with a message, or the promise fails with it.
        """
        if request.epoch == LEAVING_EPOCH:
            return self._leave(group_id, request)
        answer = self._operations.carry_out(group_id, partial(self._stay, group_id, request), request.topics)
        group = self._shard.groups.get(group_id)
        if isinstance(answer, Promise) and isinstance(group, ShareGroup):
            member = group.members.get(request.member_id)
            if member is not None and member.epoch == request.epoch:  # it came in time, whenever it is carried out
                self._begin_session(group_id, member.member_id)
        return answer

    def _stay(self, group_id: str, request: Heartbeat) -> Steps[Result[HeartbeatAnswer]]:
        """Makes steps that return the records and the answer for a member that joins or stays. They raise GroupError."""
        group = self.group_or_new(group_id) if request.epoch == JOINING_EPOCH else self.group(group_id)
        if self._topics.have_changed(group, group.reads_any):
            group.topics_changed()
        self._check_room(group, request.member_id)
        old = _member(group, request)
        new = replace(
            old,
            rack_id=old.rack_id if request.rack_id is None else request.rack_id,
            topics=old.topics if request.topics is None else frozenset(request.topics),
            client_id=request.client.client_id,
            client_host=request.client.host,
        )
        group.names.check_change(old.topics, new.topics)
        update = _Update(group, old, new, [])
        if new != old or request.member_id not in group.members:
            update.records.append(records.member(group_id, new))
            yield None
        epoch, bumped = yield from self._epoch(update)
        yield None
        assignment_epoch, target = self._target(update, epoch)
        yield None
        led = self._lead(update, assignment_epoch, target, subscription_changed=bumped)
        yield None
        initialize = yield from self._to_initialize(update, epoch)
        shown = request.epoch == JOINING_EPOCH or request.topics is not None or led.assigned != old.assigned
        interval_ms = self._values.number(group_id, "share.heartbeat.interval.ms")
        answer = HeartbeatAnswer(led.member_id, led.epoch, interval_ms, led.assigned if shown else None, initialize)
        return Result(update.records, answer, partial(self._written, update))

    def _written(self, update: _Update, error: ErrorCode) -> None:
        """Does what follows a heartbeat. Raises GroupError if its records could not be written."""
        if error is not ErrorCode.NONE:
            raise GroupError(error)
        group = self.group(update.group.group_id)  # a new one, if the records made it
        if update.refreshed:
            group.refresh_at_ms = self._shard.clock.now_ms() + LOOK_AGAIN_MS
        if update.large_target:
            self._start_target(group)
        self._begin_session(group.group_id, update.new.member_id)

    def group(self, group_id: str) -> ShareGroup:
        """Returns the share group of this id. Raises GroupError GROUP_ID_NOT_FOUND."""
        group = self._shard.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise GroupError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is a {group.kind.value} group; this request is for share groups."
            )
        return group

    def group_or_new(self, group_id: str) -> ShareGroup:
        """Returns the share group of this id, or a new one, which exists from its first record on.

        Raises GroupError GROUP_ID_NOT_FOUND if there is a group of another kind with this id.
        """
        if group_id in self._shard.groups:
            return self.group(group_id)
        return ShareGroup(group_id, self._shard.clock.now_ms)

    def _check_room(self, group: ShareGroup, member_id: str) -> None:
        most = self._values.broker_number("group.share.max.size")
        if len(group.members) >= most and member_id not in group.members:
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"A share group has at most {most} members.")

    def _epoch(self, update: _Update) -> Steps[tuple[int, bool]]:
        """Makes steps that return the group's epoch after this heartbeat, and whether it was raised."""
        group = update.group
        raised = update.old.topics != update.new.topics
        if group.assignment_epoch >= group.epoch:
            raised = raised or group.awaits_partitions
        if not raised and self._shard.clock.now_ms() < group.refresh_at_ms:
            return group.epoch, False
        update.subscribed = group.subscribed_topics(update.old, update.new)
        metadata_hash = yield from self._topics.hash_in_steps(update.subscribed)
        raised = raised or metadata_hash != group.metadata_hash
        epoch = group.epoch + raised
        if raised:
            update.records.append(records.epoch(group.group_id, epoch, metadata_hash))
        update.refreshed = True
        return epoch, raised

    def _target(self, update: _Update, epoch: int) -> tuple[int, Assignment]:
        """Returns the epoch of the target assignment and the member's part of it. Makes a new one if one is due and not too
        early, or notes that it takes so long that it is made in the background (target_jobs.py).
        """
        group, now_ms, member_id = update.group, self._shard.clock.now_ms(), update.new.member_id
        interval_ms = self._values.number(group.group_id, "share.assignment.interval.ms")
        former = group.assignment_epoch, group.target_of(member_id)
        if group.assignment_epoch >= epoch or group.is_early(now_ms, interval_ms) or self._jobs.is_running(group.group_id):
            return former
        snapshot = Snapshot({**group.members, member_id: update.new}, group.targets, group.state_partitions.initialized)
        if not is_small(snapshot.subscriptions(), self._topics):
            update.large_target = True
            return former
        try:
            assigned = at_once(assign(snapshot, self._topics))
        except AssignorError as error:
            raise GroupError(ErrorCode.UNSUPPORTED_ASSIGNOR, str(error)) from error
        for name, target in changed_targets(group.targets, assigned, hash_order(snapshot.members, string_hash)).items():
            update.records.append(records.target(group.group_id, name, target))
        update.records.append(records.target_epoch(group.group_id, epoch, now_ms))
        return epoch, assigned.get(member_id, {})

    def _start_target(self, group: ShareGroup) -> None:
        """Begins to make a target for the group's present epoch in the background."""
        snapshot = Snapshot(dict(group.members), dict(group.targets), group.state_partitions.initialized)
        self._jobs.start(group, snapshot.members, assign(snapshot, self._topics))

    def _lead(self, update: _Update, epoch: int, target: Assignment, *, subscription_changed: bool) -> ShareMember:
        """Returns the member after this update, and records it: it gets its target, as far as it subscribes to the topics."""
        member = update.new
        if epoch == member.epoch and not subscription_changed:
            return member
        wanted = set(self._topics.ids(member.topics))
        assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in wanted}
        led = member.moved_to(epoch, assigned) if epoch != member.epoch else replace(member, assigned=assigned)
        if led != member:
            update.records.append(records.current(update.group.group_id, led))
        return led

    def _leave(self, group_id: str, request: Heartbeat) -> HeartbeatAnswer:
        group = self.group(group_id)
        self._remove(group, group.member(request.member_id))
        return HeartbeatAnswer(request.member_id, request.epoch, 0)

    def _remove(self, group: ShareGroup, member: ShareMember) -> None:
        """Removes a member. Raises GroupError if that cannot be written; the member then stays."""
        epoch = group.epoch + 1
        metadata_hash = self._topics.hash_of(group.subscribed_topics(member))
        gone: list[GroupRecord] = [*records.member_tombstones(group.group_id, member.member_id)]
        gone.append(records.epoch(group.group_id, epoch, metadata_hash))
        if len(group.members) == 1:
            gone.append(records.target_epoch(group.group_id, epoch, 0))
        self._shard.run(Result(gone, None))
        self._timers.cancel_all(group.group_id, member.member_id)

    def _begin_session(self, group_id: str, member_id: str) -> None:
        timeout_ms = self._values.number(group_id, "share.session.timeout.ms")
        self._timers.push_back(SESSION, group_id, member_id, timeout_ms, lambda: self._session_over(group_id, member_id))

    def _session_over(self, group_id: str, member_id: str) -> None:
        group = self._shard.groups.get(group_id)
        if isinstance(group, ShareGroup) and member_id in group.members:
            self._remove(group, group.members[member_id])
            logger.info("share group %s: the session of member %s has expired", group_id, member_id)

    # Partitions with state

    def _to_initialize(self, update: _Update, epoch: int) -> Steps[Initialize | None]:
        """Makes steps that return the partitions of subscribed topics that have no state and are not being initialized already,
        or None."""
        group, now_ms = update.group, self._shard.clock.now_ms()
        had = group.state_partitions
        since_ms = now_ms - self._values.broker_number("group.share.initialize.retry.interval.ms")
        wanted: ByTopic = {}
        for run in in_runs(list(update.subscribed), NAMES_A_STEP):
            for name in run:
                topic = self._shard.cluster.topics.get(name)
                if topic is not None and not had.has_all(topic.topic_id, len(topic.partitions)):
                    missing = frozenset(range(len(topic.partitions))) - had.partitions_of(topic.topic_id, since_ms)
                    if missing:
                        wanted[topic.topic_id] = TopicPartitions(name, missing, now_ms)
            yield None
        if not wanted:
            return None
        update.records.append(had.begun(wanted).record(group.group_id))
        yield None
        known = had.initialized.keys() | had.initializing.keys()
        return Initialize(epoch, wanted, {topic_id: 0 if topic_id in known else -1 for topic_id in wanted})

    def initialized_partitions(self, group_id: str) -> dict[bytes, frozenset[int]]:
        """Returns the partitions that have state, by topic id. There are none if there is no such share group."""
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return {}
        return {topic_id: topic.partitions for topic_id, topic in group.state_partitions.initialized.items()}

    def end_initialization(self, group_id: str, wanted: ByTopic, *, failed: bool) -> Promise[None] | None:
        """Records that these partitions are initialized, if they are still wanted, or that they could not be. Raises GroupError
        if that cannot be written, or the promise fails with it."""

        def ended(group: ShareGroup) -> StatePartitions:
            had = group.state_partitions
            return had.failed(wanted) if failed else had.done(wanted)

        return self._change(group_id, self.group, ended, wanted)

    def begin_initialization(self, group_id: str, wanted: ByTopic) -> Promise[None] | None:
        """Records that these partitions of a group without members, which may be new, are to be initialized. Raises GroupError if
        the group is another one or that cannot be written, or the promise fails with it."""

        def begun(group: ShareGroup) -> StatePartitions:
            self.admit_deletion(group)
            return group.state_partitions.begun(wanted)

        return self._change(group_id, self.group_or_new, begun, wanted)

    def begin_deletion(
        self, group_id: str, choose: Callable[[StatePartitions], Steps[tuple[Mapping[bytes, str], T]]], wanted: Sized
    ) -> T | Promise[T]:
        """Records that the state of a group without members in topics is being deleted. `choose` makes steps that return the
        names of the topics, by their ids, and the answer. Raises GroupError if the group has members or is another one or that
        cannot be written, or the promise fails with it."""

        def plan() -> Steps[Result[T]]:
            group = self.group(group_id)
            self.admit_deletion(group)
            had = group.state_partitions
            topics, answer = yield from choose(had)
            changed = had.deleting_topics(topics)
            yield None
            return Result([changed.record(group_id)], answer)

        return self._operations.carry_out(group_id, plan, wanted)

    def end_deletion(self, group_id: str, gone: Collection[bytes]) -> Promise[None] | None:
        """Records that the state in these topics is deleted. Raises GroupError if that cannot be written, or the promise fails
        with it."""
        return self._change(group_id, self.group, lambda group: group.state_partitions.deleted(gone), gone)

    def _change(
        self,
        group_id: str,
        find: Callable[[str], ShareGroup],
        change: Callable[[ShareGroup], StatePartitions],
        wanted: Sized,
    ) -> Promise[None] | None:
        def plan() -> Steps[Result[None]]:
            changed = change(find(group_id))
            yield None
            return Result([changed.record(group_id)], None)

        return self._operations.carry_out(group_id, plan, wanted)

    def change_state_partitions(self, group: ShareGroup, changed: StatePartitions) -> None:
        """Records which partitions have state. Raises GroupError if that cannot be written."""
        self._shard.run(Result([changed.record(group.group_id)], None))

    # Offsets: a share group commits none, so these requests are refused

    def admit_commit(self, group: ShareGroup, committer: Committer) -> None:
        raise _not_a_consumer_group(group)

    def admit_commit_in_transaction(self, group: ShareGroup, committer: Committer) -> None:
        raise _not_a_consumer_group(group)

    def admit_offset_deletion(self, group: ShareGroup) -> None:
        raise _not_a_consumer_group(group)


def _not_a_consumer_group(group: ShareGroup) -> GroupError:
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"'{group.group_id}' is a share group, which commits no offsets.")


class _Update:
    """The changes of one heartbeat: the member before and after, and the records to write."""

    def __init__(self, group: ShareGroup, old: ShareMember, new: ShareMember, written: list[GroupRecord]) -> None:
        self.group = group
        self.old = old
        self.new = new
        self.records = written
        self.refreshed = False
        """True if its topics were checked."""
        self.large_target = False
        """True if a target is due that is made in the background."""
        self.subscribed: Collection[str] = group.names.counts
        """The topic names that members subscribe to, as if the heartbeat was over once `_epoch` has checked the topics."""


def _member(group: ShareGroup, request: Heartbeat) -> ShareMember:
    """Returns the member as it was before this heartbeat. Raises GroupError UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH."""
    if request.epoch == JOINING_EPOCH:
        return group.members.get(request.member_id, ShareMember(request.member_id))
    member = group.member(request.member_id)
    if request.epoch > member.epoch or (request.epoch < member.epoch and request.epoch != member.previous_epoch):
        message = (
            f"Member epoch {request.epoch} is neither the member's epoch {member.epoch} nor the one before; it has to join again."
        )
        raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return member
