"""These tests cover the table of steps in reconcile.py, one test for each row, and lead a group of members to random targets."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.server.base.turns import at_once
from ottla.server.group.consumer import reconcile as module
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ConsumerMember, MemberState
from ottla.server.group.consumer.reconcile import FREE, Owned, Situation, collect_owned
from ottla.server.group.consumer.records import current, member_tombstones
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.assignor import Assignment
from ottla.wire.errors import ErrorCode

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS


def reconcile(here: ConsumerMember, now: Situation) -> ConsumerMember:
    return at_once(module.reconcile(here, now))


def situation(
    epoch: int,
    target: Assignment,
    owned: Owned | None = None,
    *,
    taken: dict[tuple[bytes, int], int] | None = None,
    subscribed: tuple[bytes, ...] = (T, U),
    changed: bool = False,
) -> Situation:
    owners = taken or {}
    return Situation(epoch, target, subscribed, changed, lambda topic, index: owners.get((topic, index), FREE), owned)


def member(state: MemberState = STABLE, epoch: int = 5, assigned: Any = (), revoking: Any = ()) -> ConsumerMember:
    return ConsumerMember("m", epoch, epoch - 1, state, assigned=dict(assigned), revoking=dict(revoking))


def test_a_stable_member_of_the_targets_epoch_stays() -> None:
    here = member(assigned={T: {0: 3}})
    assert reconcile(here, situation(5, {T: frozenset({1})})) is here


def test_new_partitions_come_with_the_targets_epoch() -> None:
    led = reconcile(member(assigned={T: {0: 3}}), situation(7, {T: frozenset({0, 1})}))
    assert (led.epoch, led.previous_epoch, led.state) == (7, 5, STABLE)
    assert led.assigned == {T: {0: 3, 1: 7}}, "what it has keeps the epoch of its assignment"


def test_who_has_to_give_up_stays_in_its_epoch() -> None:
    led = reconcile(member(assigned={T: {0: 3, 1: 3}, U: {4: 5}}), situation(7, {T: frozenset({0, 2})}))
    assert (led.epoch, led.state) == (5, UNREVOKED)
    assert led.assigned == {T: {0: 3}}
    assert led.revoking == {T: {1: 3}, U: {4: 5}}


def test_who_has_let_go_already_goes_on_at_once() -> None:
    led = reconcile(member(assigned={T: {0: 3, 1: 3}}), situation(7, {T: frozenset({0})}, {T: [0]}))
    assert (led.epoch, led.state, led.assigned, led.revoking) == (7, STABLE, {T: {0: 3}}, {})


@pytest.mark.parametrize("owned", [None, {T: [0, 1]}])
def test_unrevoked_partitions_hold_a_member_back(owned: Owned | None) -> None:
    here = member(UNREVOKED, assigned={T: {0: 3}}, revoking={T: {1: 3}})
    assert reconcile(here, situation(7, {T: frozenset({0})}, owned)) is here


def test_when_they_are_given_up_it_goes_on() -> None:
    here = member(UNREVOKED, assigned={T: {0: 3}}, revoking={T: {1: 3}})
    led = reconcile(here, situation(7, {T: frozenset({0, 2})}, {T: [0]}))
    assert (led.epoch, led.state, led.assigned, led.revoking) == (7, STABLE, {T: {0: 3, 2: 7}}, {})


def test_what_it_was_giving_up_may_come_back() -> None:
    here = member(UNREVOKED, assigned={T: {0: 3}}, revoking={T: {1: 3}})
    led = reconcile(here, situation(7, {T: frozenset({0, 1})}, {T: [0]}, taken={(T, 1): 5}))
    assert (led.state, led.assigned) == (STABLE, {T: {0: 3, 1: 7}})


def test_partitions_of_others_are_waited_for() -> None:
    waiting = reconcile(member(), situation(7, {T: frozenset({0, 1})}, taken={(T, 1): 6}))
    assert (waiting.epoch, waiting.state, waiting.assigned) == (7, UNRELEASED, {T: {0: 7}})
    still = reconcile(waiting, situation(7, {T: frozenset({0, 1})}, taken={(T, 1): 6}))
    assert (still.state, still.assigned) == (UNRELEASED, {T: {0: 7}})
    assert reconcile(waiting, situation(7, {T: frozenset({0, 1})})).assigned == {T: {0: 7, 1: 7}}


def test_topics_that_it_reads_no_more_are_taken_at_once() -> None:
    here = member(assigned={T: {0: 3}, U: {1: 3}})
    led = reconcile(here, situation(5, {T: frozenset({0}), U: frozenset({1})}, subscribed=(T,), changed=True))
    assert (led.epoch, led.state, led.assigned, led.revoking) == (5, UNREVOKED, {T: {0: 3}}, {U: {1: 3}})
    more = reconcile(led, situation(5, {}, subscribed=(), changed=True))
    assert (more.state, more.assigned, more.revoking) == (UNREVOKED, {}, {T: {0: 3}, U: {1: 3}})
    given_up = reconcile(here, situation(5, {T: frozenset({0})}, {T: [0]}, subscribed=(T,), changed=True))
    assert (given_up.state, given_up.assigned, given_up.revoking) == (STABLE, {T: {0: 3}}, {})


def test_a_subscription_to_more_changes_nothing_yet() -> None:
    here = member(assigned={T: {0: 3}})
    assert reconcile(here, situation(5, {T: frozenset({0})}, changed=True)) is here


def test_of_a_target_that_it_does_not_read_it_gets_nothing() -> None:
    assert reconcile(member(), situation(7, {U: frozenset({0})}, subscribed=(T,))).assigned == {}


def test_an_unknown_state_has_to_begin_anew() -> None:
    here = member(MemberState.UNKNOWN, assigned={T: {0: 3}})
    for owned in (None, {T: [0]}):
        with pytest.raises(GroupError) as refused:
            reconcile(here, situation(7, {}, owned))
        assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert reconcile(here, situation(7, {T: frozenset({0})}, {})).state is STABLE


@pytest.mark.parametrize("seed", range(40))
def test_members_get_there_whatever_the_targets_and_never_share_a_partition(seed: int) -> None:
    rng = random.Random(seed)
    group, names = ConsumerGroup("g"), ["a", "b", "c"]
    clients: dict[str, dict[bytes, list[int]]] = {name: {} for name in names}
    parts = [(topic, index) for topic in (T, U) for index in range(4)]
    for epoch in range(2, 8):
        target: dict[str, dict[bytes, set[int]]] = {name: {} for name in names}
        for topic, index in parts:
            target[rng.choice(names)].setdefault(topic, set()).add(index)
        targets = {name: {topic: frozenset(held) for topic, held in given.items()} for name, given in target.items()}
        for step in range(rng.choice([3, 40])):
            name = names[step % 3]
            here = group.members.get(name, ConsumerMember(name))
            told = {topic: list(held) for topic, held in clients[name].items()} if rng.random() < 0.8 else None
            now = Situation(epoch, targets[name], (T, U), False, group.epoch_of, told)
            led = reconcile(here, now)
            if led != here:
                group.replay(current("g", led))
            if rng.random() < 0.7:  # the client does what it is told
                clients[name] = {topic: sorted(held) for topic, held in led.assigned.items()}
            held_by = [(topic, index) for each in clients.values() for topic, held in each.items() for index in held]
            assert len(held_by) == len(set(held_by)), "a partition has two owners"
    for _ in range(6):
        for name in names:
            now = Situation(epoch, targets[name], (T, U), False, group.epoch_of, collect_owned(clients[name].items()))
            group.replay(current("g", led := reconcile(group.members[name], now)))
            clients[name] = {topic: sorted(held) for topic, held in led.assigned.items()}
    assert {name: {t: frozenset(held) for t, held in clients[name].items()} for name in names} == targets
    for record in member_tombstones("g", "a"):
        group.replay(record)
    assert "a" not in group.members
    assert all(group.epoch_of(topic, index) == FREE for topic, held in targets["a"].items() for index in held)
