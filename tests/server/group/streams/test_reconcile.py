"""These tests lead members to their targets, step by step and at random, and check at every step what the protocol guarantees."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import pytest

from ottla.server.group.errors import GroupError
from ottla.server.group.streams import reconcile as reconciling
from ottla.server.group.streams.member import MemberState, StreamsMember
from ottla.server.group.streams.reconcile import Holders, reconcile
from ottla.server.group.streams.tasks import NO_TASKS, HeldTasks, Tasks
from ottla.wire.errors import ErrorCode

Role = Mapping[str, frozenset[int]]


def tasks(*partitions: int) -> Role:
    return {"0": frozenset(partitions)} if partitions else {}


def held(active: Mapping[int, int] | None = None, standby: Role | None = None, warmup: Role | None = None) -> HeldTasks:
    return HeldTasks({"0": active} if active else {}, standby or {}, warmup or {})


class Group:
    """Members by id, and the holders of tasks, derived from everything that members hold or have to give up."""

    def __init__(self, *members: StreamsMember) -> None:
        self.members = {member.member_id: member for member in members}

    @property
    def holders(self) -> Holders:
        active = {
            name: {partition: min(processes) for partition, processes in found.items()}
            for name, found in self.processes("active").items()
        }
        return Holders(active, self.processes("standby"), self.processes("warmup"))

    def processes(self, role: str) -> dict[str, dict[int, set[str]]]:
        found: dict[str, dict[int, set[str]]] = {}
        for member in self.members.values():
            for some in (member.held, member.to_revoke):
                for name, partitions in getattr(some, role).items():
                    for partition in partitions:
                        found.setdefault(name, {}).setdefault(partition, set()).add(member.process_id)
        return found

    def step(self, member_id: str, epoch: int, target: Tasks, owned: Tasks | None) -> StreamsMember:
        self.members[member_id] = reconcile(self.members[member_id], epoch, target, self.holders, owned)
        return self.members[member_id]


def member(name: str = "m", process: str = "p", **fields: Any) -> StreamsMember:
    return StreamsMember(name, process_id=process)._replace(**fields)


def test_a_member_that_is_there_stays_as_it_is() -> None:
    there = member(epoch=3, held=held({0: 2}))
    assert reconcile(there, 3, Tasks(tasks(1)), Group(there).holders, None) is there


def test_what_is_free_comes_at_once() -> None:
    after = Group(member()).step("m", 2, Tasks(tasks(0, 1), tasks(2)), NO_TASKS)
    assert (after.state, after.epoch, after.previous_epoch) == (MemberState.STABLE, 2, 0)
    assert after.held == held({0: 2, 1: 2}, tasks(2))


def test_what_goes_goes_first() -> None:
    group = Group(member(epoch=2, held=held({0: 1, 1: 2})))
    target = Tasks(tasks(1, 2))
    after = group.step("m", 3, target, None)
    assert (after.state, after.epoch) == (MemberState.UNREVOKED_TASKS, 2)
    assert (after.held, after.to_revoke) == (held({1: 2}), held({0: 1}))
    for owned in (None, Tasks(tasks(0, 1))):
        assert group.step("m", 3, target, owned) is after
    done = group.step("m", 3, target, Tasks(tasks(1)))
    assert (done.state, done.epoch, done.previous_epoch) == (MemberState.STABLE, 3, 2)
    assert (done.held, done.to_revoke) == (held({1: 2, 2: 3}), held())


def test_what_is_released_in_the_same_heartbeat_is_gone() -> None:
    after = Group(member(epoch=2, held=held({0: 1, 1: 2}))).step("m", 3, Tasks(tasks(1)), Tasks(tasks(1)))
    assert (after.state, after.epoch, after.held) == (MemberState.STABLE, 3, held({1: 2}))


def test_a_task_that_another_runs_is_waited_for() -> None:
    group = Group(member("one", "p1", epoch=2, held=held({0: 1})), member("two", "p2"))
    waiting = group.step("two", 3, Tasks(tasks(0, 1)), NO_TASKS)
    assert (waiting.state, waiting.epoch, waiting.held) == (MemberState.UNRELEASED_TASKS, 3, held({1: 3}))
    group.step("one", 3, NO_TASKS, None)
    assert group.step("two", 3, Tasks(tasks(0, 1)), None) == waiting._replace(previous_epoch=3)
    group.step("one", 3, NO_TASKS, NO_TASKS)
    assert group.step("two", 3, Tasks(tasks(0, 1)), None).held == held({0: 3, 1: 3})


def test_no_process_has_a_copy_beside_its_task() -> None:
    group = Group(member("one", "p", epoch=2, held=held({0: 1})), member("two", "p"), member("three", "q"))
    assert group.step("two", 3, Tasks(standby=tasks(0)), NO_TASKS).state is MemberState.UNRELEASED_TASKS
    assert group.step("three", 3, Tasks(standby=tasks(0)), NO_TASKS).held == held(standby=tasks(0))


@pytest.mark.parametrize(
    ("before", "target", "after", "state"),
    [
        (held({0: 1}), Tasks(standby=tasks(0)), held(standby=tasks(0)), MemberState.UNREVOKED_TASKS),
        (held(standby=tasks(0)), Tasks(tasks(0)), held({0: 3}), MemberState.STABLE),
        (held(warmup=tasks(0)), Tasks(tasks(0)), held({0: 3}), MemberState.STABLE),
        (held(standby=tasks(0)), Tasks(warmup=tasks(0)), held(warmup=tasks(0)), MemberState.STABLE),
        (held(warmup=tasks(0)), Tasks(standby=tasks(0)), held(standby=tasks(0)), MemberState.STABLE),
    ],
    ids=["active to standby", "standby to active", "warm-up to active", "standby to warm-up", "warm-up to standby"],
)
def test_roles_change_in_place(before: HeldTasks, target: Tasks, after: HeldTasks, state: MemberState) -> None:
    """A demoted task counts as held in the active role until the member has reported that it no longer runs it."""
    changed = Group(member(epoch=2, held=before)).step("m", 3, target, before.as_tasks())
    assert (changed.held, changed.state) == (after, state)
    assert changed.to_revoke == (before if state is MemberState.UNREVOKED_TASKS else held())


def test_a_copy_is_kept_until_its_task_is_free() -> None:
    group = Group(member("one", "p1", epoch=2, held=held({0: 1})), member("two", "p2", epoch=2, held=held(standby=tasks(0))))
    assert group.step("two", 3, Tasks(tasks(0)), None).held == held(standby=tasks(0))
    group.step("one", 3, NO_TASKS, NO_TASKS)
    assert group.step("two", 3, Tasks(tasks(0)), None).held == held({0: 3})


def test_a_copy_is_kept_while_something_else_has_to_go() -> None:
    """Nothing is assigned before everything is given up, not even free tasks."""
    group = Group(member(epoch=2, held=held({1: 2}, tasks(0))))
    after = group.step("m", 3, Tasks(tasks(0)), None)
    assert (after.state, after.held, after.to_revoke) == (MemberState.UNREVOKED_TASKS, held(standby=tasks(0)), held({1: 2}))
    assert group.step("m", 3, Tasks(tasks(0)), Tasks(standby=tasks(0))).held == held({0: 3})


def test_a_state_that_nobody_knows_begins_anew() -> None:
    strange = member(epoch=2, state=MemberState.UNKNOWN, held=held({0: 1}))
    for owned in (None, Tasks(tasks(0))):
        with pytest.raises(GroupError) as refusal:
            Group(strange).step("m", 3, Tasks(tasks(0)), owned)
        assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert Group(strange).step("m", 3, Tasks(tasks(0)), NO_TASKS).state is MemberState.STABLE


def random_target(rng: random.Random, ids: list[str]) -> dict[str, Tasks]:
    """Makes a target: every task is active once, with copies at members of other processes; a process is the last letter of a
    member's id.
    """
    roles: dict[str, list[dict[str, set[int]]]] = {each: [{}, {}, {}] for each in ids}
    for partition in range(6):
        order = rng.sample(ids, len(ids))
        used = {order[0][-1]}
        roles[order[0]][0].setdefault("0", set()).add(partition)
        for other in order[1:]:
            if other[-1] not in used and rng.random() < 0.6:
                used.add(other[-1])
                roles[other][rng.choice([1, 2])].setdefault("0", set()).add(partition)
    return {each: Tasks(*({name: frozenset(some) for name, some in role.items()} for role in roles[each])) for each in ids}


def check(group: Group) -> None:
    for partition in range(6):
        running = [each for each in group.members.values() if partition in each.held.active.get("0", ())]
        assert len(running) <= 1, f"task {partition} runs twice"
        for process in {each.process_id for each in group.members.values()}:
            inside = [each for each in group.members.values() if each.process_id == process]
            having = [each.member_id for each in inside for role in each.held if partition in role.get("0", ())]
            assert len(having) <= 1, f"process {process} has task {partition} twice: {having}"


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_targets_every_member_arrives(seed: int) -> None:
    """Members own what the last answer said, or still what they have to give up, while targets change at any time."""
    rng = random.Random(seed)
    ids = ["m1a", "m2a", "m3b", "m4c", "m5c"][: rng.randint(2, 5)]
    group = Group(*(member(each, each[-1]) for each in ids))
    epoch, target = 2, random_target(rng, ids)
    for _ in range(150):
        if rng.random() < 0.05:
            epoch, target = epoch + 1, random_target(rng, ids)
        who = rng.choice(ids)
        now = group.members[who]
        owned = rng.choice([None, now.held.as_tasks(), now.held.as_tasks()])
        group.step(who, epoch, target[who], owned)
        check(group)
    for _ in range(8):
        for who in ids:
            group.step(who, epoch, target[who], group.members[who].held.as_tasks())
            check(group)
    for who in ids:
        now = group.members[who]
        assert (now.state, now.epoch) == (MemberState.STABLE, epoch)
        assert now.held.as_tasks() == target[who]


def _calls(count: int) -> int:
    """Returns how many functions are called to swap the roles of two times so many tasks, but for those that ask whether a task
    is free."""
    first, second = {"0": frozenset(range(count))}, {"0": frozenset(range(count, 2 * count))}
    before = member(epoch=3, held=HeldTasks({"0": dict.fromkeys(range(count), 3)}, second))
    free = Holders({}, {}, {})
    names: list[str] = []

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_name in WORK:
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        after = reconcile(before, 4, Tasks(second, first), free, None)
    finally:
        sys.setprofile(None)
    assert (after.state, after.held.standby) == (MemberState.UNREVOKED_TASKS, {"0": frozenset(range(2 * count))})
    return len(names)


WORK = {name for name, found in vars(reconciling).items() if name.startswith("_") and inspect.isfunction(found)}


def test_many_tasks_change_their_roles_together() -> None:
    """One by one, each takes a look at all: 9,900 took 1.7 s."""
    assert _calls(10) == _calls(1_000)
