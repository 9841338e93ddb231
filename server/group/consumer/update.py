"""A `GroupUpdate` turns one request of a member into records, step by step, and an answer once they are written.

    put_member        records the member if it has changed                              -> a new epoch, if its topics changed
    subscribe_regex   checks its expression, and has it looked up soon if it is new     -> a new epoch, if its matches are known
    next_epoch        begins the group's next epoch, with the hash of all its topics    -> a target is due
    target            makes an assignment for a new epoch, if the last is old enough    -> records for changed targets
    lead              leads the member one step on towards its target (reconcile.py)

Nothing here changes the group: it is as it was before the request, and the request's member is passed along as it was (`old`) and
as it will be (`new`). The records change the group when they are replayed. Timers and other effects are collected in `after`:
they happen once the records are written, and not at all if they cannot be.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar

from ottla.server.base.turns import Steps, at_once
from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup, topics_of
from ottla.server.group.consumer.member import ConsumerMember, MemberState, member_order
from ottla.server.group.consumer.reconcile import Owned, Situation, reconcile
from ottla.server.group.consumer.regexes import LEAST_INTERVAL_MS, check_regex, last_lookup_ms, last_version
from ottla.server.group.consumer.services import ConsumerServices
from ottla.server.group.consumer.targets import Snapshot, assign
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment, AssignorError
from ottla.server.group.modern.epochs import LOOK_AGAIN_MS
from ottla.server.group.modern.target import changed_targets
from ottla.server.group.modern.target_jobs import is_small
from ottla.server.group.records import GroupRecord
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode

T = TypeVar("T")


class RegexChange(enum.Enum):
    """The effect of a request on a member's regular expression."""

    NONE = enum.auto()
    UNKNOWN_YET = enum.auto()
    """The expression has changed, and its matches are not known yet."""
    KNOWN = enum.auto()
    """The expression has changed, and its matches are known."""


class Target(NamedTuple):
    """The target assignment of one member, and the epoch that it was made for."""

    epoch: int
    assignment: Assignment


class GroupUpdate:
    """The update of a group by one request (see the module's docstring). `group` is not yet in the shard if the request creates
    it.
    """

    def __init__(self, services: ConsumerServices, group: ConsumerGroup) -> None:
        self.services = services
        self.group = group
        self.now_ms = services.clock.now_ms()
        self.records: list[GroupRecord] = []
        self.after: list[Callable[[], None]] = []
        self.may_see: Callable[[str], bool] | None = None
        """Returns whether the client that makes the update may see a topic, which counts for patterns; None if it may see all."""
        self._has_target = False  # whether the records hold a new target

    def result(self, response: T, then: Callable[[], Result[None] | None] = lambda: None) -> Result[T]:
        def written(error: ErrorCode) -> Result[None] | None:
            if error is not ErrorCode.NONE:
                if self._has_target:
                    self.group.assignment_failed_ms = self.now_ms
                raise GroupError(error)
            for effect in self.after:
                effect()
            return then()

        return Result(self.records, response, written)

    # The steps

    def put_member(self, old: ConsumerMember, new: ConsumerMember) -> bool:
        """Records the member if it has changed. Returns whether it subscribes to other topic names than before."""
        if new == old:
            return False
        self.records.append(records.member(self.group.group_id, new))
        return new.topics != old.topics

    def subscribe_regex(self, old: ConsumerMember, new: ConsumerMember) -> RegexChange:
        """Checks a new expression, removes one that no member uses any more, and starts a lookup if one is due.

        Raises GroupError INVALID_REGULAR_EXPRESSION.
        """
        group, change, look_up = self.group, RegexChange.NONE, False
        if old.regex != new.regex:
            change = RegexChange.UNKNOWN_YET
            if old.regex and group.regex_members(old.regex) == 1:
                self.records.append(records.regex_tombstone(group.group_id, old.regex))
            if new.regex and not group.regex_members(new.regex):
                check_regex(new.regex)
                look_up = True
            elif not new.regex or new.regex in group.regexes:
                change = RegexChange.KNOWN
        if look_up or group.has_regexes:
            self._look_up_if_due(old, new, look_up)
        return change

    def _look_up_if_due(self, old: ConsumerMember, new: ConsumerMember, due: bool) -> None:
        """Looks up all expressions of the group if one is new, if there is a new topic, or after a while, but not too often."""
        group, services = self.group, self.services
        last_ms = last_lookup_ms(group)
        if services.lookups.is_running(group.group_id) or self.now_ms <= last_ms + LEAST_INTERVAL_MS:
            return
        subscribed = group.subscribed_regexes(old, new)
        due |= len(subscribed) != len(group.regexes)
        due |= last_version(group) < services.topics_version
        due |= self.now_ms > last_ms + services.values.broker_number("group.consumer.regex.refresh.interval.ms")
        if due and subscribed:
            self.after.append(lambda: services.lookups.start(group.group_id, subscribed, self.may_see))

    def next_epoch(self, old: ConsumerMember, new: ConsumerMember, *, changed: bool) -> Steps[int]:
        """Makes steps that return the group's epoch: the next one if a subscription has `changed`, or if its topics have."""
        group = self.group
        if not changed and self.now_ms < group.refresh_at_ms:
            return group.epoch
        gone = [old.regex] if old.regex and old.regex != new.regex and group.regex_members(old.regex) == 1 else []
        metadata_hash = yield from self.services.topics.hash_in_steps(group.subscribed_topics([old], new, gone))
        epoch = group.epoch
        if changed or metadata_hash != group.metadata_hash:
            epoch += 1
            self.records.append(records.epoch(group.group_id, epoch, metadata_hash))
        self.after.append(self.refreshed)
        if group.has_partition_metadata:
            self.records.append(records.partition_metadata_tombstone(group.group_id))
        return epoch

    def refreshed(self) -> None:
        """Notes that the group's topics were checked. The group may have been replaced by another object since."""
        group = self.services.find(self.group.group_id)
        if group is not None:
            group.refresh_at_ms = self.now_ms + LOOK_AGAIN_MS

    def target(self, old: ConsumerMember, new: ConsumerMember, epoch: int) -> Target:
        """Returns the member's target: the former one if no assignment is due, if the last one is too recent, or if it takes so
        long that it is made in the background (target_jobs.py), once the records are written.
        """
        group, services = self.group, self.services
        former_target = Target(group.assignment_epoch, group.target_of(new.member_id, new.instance_id))
        interval_ms = services.values.number(group.group_id, "consumer.assignment.interval.ms")
        if group.assignment_epoch >= epoch or group.is_early(self.now_ms, interval_ms):
            return former_target
        if services.target_jobs.is_running(group.group_id):
            return former_target
        name = group.preferred_assignor(old, new)
        if name not in services.assignors:  # no member asks for one, or the broker no longer has it
            name = services.default_assignor
        assignor = services.assignors[name]
        snapshot = self._snapshot(new)
        if not is_small(snapshot.subscriptions(), services.topics):
            self.after.append(lambda: services.start_target(group.group_id, assignor))
            return former_target
        try:
            assigned = at_once(assign(snapshot, services.topics, assignor))
        except AssignorError as error:
            message = f"No assignment could be made for epoch {epoch}: {error}"
            raise GroupError(ErrorCode.UNSUPPORTED_ASSIGNOR, message) from error
        for member_id, assignment in changed_targets(snapshot.former, assigned, member_order(snapshot.members)).items():
            self.records.append(records.target(group.group_id, member_id, assignment))
        self.records.append(records.target_epoch(group.group_id, epoch, self.now_ms))
        self._has_target = True
        return Target(epoch, assigned.get(new.member_id, NOTHING_ASSIGNED))

    def _snapshot(self, new: ConsumerMember) -> Snapshot:
        """Returns the group as it will be with the request's member. One that replaces a static member inherits its target."""
        group = self.group
        members, former = dict(group.members), dict(group.targets)
        members[new.member_id] = new
        replaced = group.static_member(new.instance_id)
        if replaced is not None and replaced.member_id != new.member_id:
            del members[replaced.member_id]
            inherited = former.pop(replaced.member_id, None)
            if inherited is not None:
                former[new.member_id] = inherited
        return Snapshot(members, former, group.targets, group.regexes)

    def lead(self, member: ConsumerMember, target: Target, *, changed: bool, owned: Owned | None) -> Steps[ConsumerMember]:
        """Makes steps that return the member one step further, and record it. `changed` means that its subscription has just
        changed.

        They raise GroupError FENCED_MEMBER_EPOCH.
        """
        if not changed and member.is_reconciled_to(target.epoch):
            return member
        subscribed: Collection[bytes] = frozenset(self.services.topics.ids(topics_of(member, self.group.regexes)))
        situation = Situation(target.epoch, target.assignment, subscribed, changed, self.group.epoch_of, owned)
        yield None
        led = yield from reconcile(member, situation)
        if led != member:
            self.records.append(records.current(self.group.group_id, led))
            yield None
            if not led.is_classic:
                self.after.append(lambda: self._time_rebalance(led))
        return led

    def _time_rebalance(self, member: ConsumerMember) -> None:
        """Sets or cancels the deadline for giving up partitions. Classic members instead have to join and sync in time."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self.services.timeouts.rebalance(self.group.group_id, member)
        else:
            self.services.timeouts.reconciled(self.group.group_id, member.member_id)
