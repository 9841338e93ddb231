"""Targets of large groups are made in the background: these tests cover what a target is made from, and what happens to the
group meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.turns import Steps, at_once
from ottla.server.group.consumer import records, targets
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.consumer.protocol import ConsumerProtocol
from ottla.server.group.consumer.targets import Snapshot
from ottla.server.group.consumer.update import GroupUpdate, Target
from ottla.server.group.modern import target_jobs
from ottla.server.group.modern.assignor import Assignment, AssignorError, GroupAssignment, GroupSpec
from ottla.server.group.modern.epochs import JOINING_EPOCH
from ottla.server.group.records import ProtocolRecord
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from tests.server.coordination.memory import slow_ticks
from tests.server.group.consumer.rig import EPOCH, Rig, T, member

M, N = member("m", "t"), member("n", "t")
FORMER: dict[str, Assignment] = {"m": {T: frozenset({0, 1, 2})}}
INTERVAL_MS = 1_000
TURNS_S = 0.5
"""Time enough for all turns."""


@pytest.fixture(autouse=True)
def every_group_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_jobs, "AT_ONCE", 0)


class SlowRig(Rig):
    """Every look at its clock ends a turn, so that each step has one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.clock.ticks_ns = slow_ticks()  # type: ignore[method-assign]  # a test may have its own clock

    def begin(self, *members: ConsumerMember, joins: ConsumerMember = N) -> GroupUpdate:
        """Makes a group of these members, and lets one join, which begins a target that is not made yet."""
        update = self.update(*members, targets=FORMER)
        self.join(update, joins)
        assert self.services.target_jobs.is_running("g")
        return update

    def join(self, update: GroupUpdate, joins: ConsumerMember) -> Target:
        group, new = update.group, replace(joins, epoch=JOINING_EPOCH)
        update.put_member(ConsumerMember(new.member_id), new)
        target = update.target(ConsumerMember(new.member_id), new, at_once(update.next_epoch(new, new, changed=True)))
        assert target == Target(group.assignment_epoch, group.target_of(new.member_id, new.instance_id)), "the former one"
        self.services.run(update.result(None))
        return target

    @property
    def group(self) -> ConsumerGroup:
        return self.services.existing("g")

    def end(self) -> None:
        self.clock.advance(TURNS_S)
        assert not self.services.target_jobs.is_running("g")


def partitions(group: ConsumerGroup, topic_id: bytes = T) -> dict[str, int]:
    return {member_id: len(target.get(topic_id, ())) for member_id, target in group.targets.items()}


def test_the_heartbeat_is_answered_with_the_former_target_and_the_new_one_comes_later() -> None:
    rig = SlowRig()
    rig.begin(M)
    assert (rig.group.epoch, rig.group.assignment_epoch) == (EPOCH + 1, EPOCH)
    assert partitions(rig.group) == {"m": 3}
    rig.end()
    assert rig.group.assignment_epoch == EPOCH + 1
    assert sorted(partitions(rig.group).values()) == [1, 2]
    assert rig.group.assignment_timestamp_ms == rig.clock.now_ms() - round(TURNS_S * 1000)


def test_a_small_group_gets_its_target_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two members with one topic of three partitions count five."""
    for most, large in ((5, False), (4, True)):
        monkeypatch.setattr(target_jobs, "AT_ONCE", most)
        rig = Rig()
        update = rig.update(M, N)
        assert update.target(M, M, EPOCH + 1).epoch == EPOCH + (not large)


def test_no_step_is_about_more_than_one_member() -> None:
    rig = SlowRig()
    group = rig.make(*(member(f"m{number}", "t", "u") for number in range(50)), epoch=EPOCH + 1)
    steps = 0

    def counted(spec: GroupSpec) -> Steps[GroupAssignment]:
        nonlocal steps
        for each in rig.services.assignors["uniform"](spec):
            steps += 1
            yield each
        return {}

    snapshot = Snapshot(group.members, {}, {}, {})
    spec_steps = sum(1 for _ in targets.assign(snapshot, rig.services.topics, counted)) - steps
    assert spec_steps >= 50
    assert steps >= 50


def test_members_with_the_same_subscription_share_their_list_of_topics() -> None:
    rig = SlowRig()
    shown: list[GroupSpec] = []

    def spy(spec: GroupSpec) -> Steps[GroupAssignment]:
        shown.append(spec)
        yield None
        return {}

    rig.services.assignors["uniform"] = spy
    rig.begin(M, member("o", "u"))
    rig.end()
    lists = {name: spec.topics for name, spec in shown[0].members.items()}
    assert lists["m"] is lists["n"]
    assert lists["m"] != lists["o"]


def test_only_one_target_of_a_group_is_made_at_a_time() -> None:
    rig = SlowRig()
    update = rig.begin(M)
    jobs = dict(rig.services.target_jobs._jobs)
    rig.join(GroupUpdate(rig.services, update.group), member("o", "t"))
    assert rig.services.target_jobs._jobs == jobs
    rig.end()
    assert (rig.group.epoch, rig.group.assignment_epoch) == (EPOCH + 2, EPOCH + 1), "the next one is due again"
    assert "o" not in rig.group.targets


def test_a_target_that_is_begun_twice_is_made_once() -> None:
    """An operation in turns may have found that none was being made, before a JoinGroup of a classic member began one."""
    rig = SlowRig()
    rig.begin(M)
    rig.services.start_target("g", rig.services.assignors["uniform"])
    rig.end()
    assert rig.group.assignment_epoch == EPOCH + 1


def test_a_member_that_left_meanwhile_gets_no_record() -> None:
    rig = SlowRig()
    rig.begin(M)
    left: list[ProtocolRecord] = [*records.member_tombstones("g", "n"), records.epoch("g", EPOCH + 2, 0)]
    rig.services.run(Result(left, None))
    rig.end()
    assert rig.group.targets.keys() == {"m"}
    assert rig.group.epoch > rig.group.assignment_epoch == EPOCH + 1


def test_a_static_member_that_came_back_meanwhile_gets_what_its_former_self_was_to_get() -> None:
    rig = SlowRig()
    rig.begin(M, joins=replace(N, instance_id="i"))
    there = rig.group.members["n"]
    rig.services.run(
        Result(
            [
                *records.member_tombstones("g", "n"),
                records.member("g", replace(there, member_id="again")),
                records.target("g", "again", {}),
                records.current("g", replace(there, member_id="again")),
            ],
            None,
        )
    )
    rig.end()
    assert partitions(rig.group).keys() == {"m", "again"}
    assert sorted(partitions(rig.group).values()) == [1, 2]


def test_when_all_members_have_left_meanwhile_nothing_is_written() -> None:
    rig = SlowRig()
    rig.begin()
    gone: list[ProtocolRecord] = [*records.member_tombstones("g", "n"), records.epoch("g", EPOCH + 2, 0)]
    rig.services.run(Result([*gone, records.target_epoch("g", EPOCH + 2, 0)], None))
    rig.end()
    assert (rig.group.assignment_epoch, rig.group.assignment_timestamp_ms) == (EPOCH + 2, 0)


def test_a_group_that_is_removed_or_goes_to_another_broker_gets_no_target() -> None:
    rig = SlowRig()
    rig.begin(M)
    protocol = rig.shard.protocol(ConsumerProtocol)
    protocol._services = rig.services
    protocol.discard(rig.group, ErrorCode.NOT_COORDINATOR)
    assert not rig.services.target_jobs.is_running("g")
    rig.clock.advance(TURNS_S)
    assert rig.group.assignment_epoch == EPOCH


def fails(spec: GroupSpec) -> Steps[GroupAssignment]:
    yield None
    raise AssignorError("there are too many")


def outcomes(rig: SlowRig) -> Iterator[bool]:
    """Yields whether another target is begun: now, just before the interval is over, and when it is."""
    for seconds in (0, (INTERVAL_MS - 1) / 1000 - TURNS_S, 0.001):
        rig.clock.advance(seconds)
        update = GroupUpdate(rig.services, rig.group)
        before = len(update.after)
        update.target(M, M, rig.group.epoch)
        yield len(update.after) > before


def test_a_target_that_cannot_be_made_is_tried_again_after_the_interval(caplog: pytest.LogCaptureFixture) -> None:
    rig = SlowRig()
    rig.services.assignors["uniform"] = fails
    rig.begin(M)
    rig.end()
    assert "there are too many" in caplog.text
    assert list(outcomes(rig)) == [False, False, True]


def test_a_target_that_cannot_be_written_is_tried_again_after_the_interval(caplog: pytest.LogCaptureFixture) -> None:
    rig = SlowRig()
    rig.begin(M)
    rig.broker.log.fail = StorageError("gone")
    rig.end()
    rig.broker.log.fail = None
    assert "cannot write" in caplog.text
    assert rig.group.assignment_epoch == EPOCH
    assert list(outcomes(rig)) == [False, False, True]
