"""Finder: whom it asks, and what it believes of whom."""

from __future__ import annotations

import pytest

from ottla.server.base.randomness import from_seed
from ottla.server.quorum.finder import NOBODY, Address, Finder, Leader

A, B, C = (Address(host, 9093) for host in "abc")
VOTERS = {1: A, 2: B, 3: C}


def of_voters() -> Finder:
    return Finder(VOTERS, [], from_seed(1))


def of_bootstrap(*addresses: Address) -> Finder:
    return Finder({}, addresses or (A, B, C), from_seed(1))


@pytest.mark.parametrize("finder", [of_voters(), of_bootstrap(), of_bootstrap(A, B, A, C)])
def test_while_the_leader_is_unknown_everybody_is_asked_in_turn(finder: Finder) -> None:
    first = [finder.whom_to_ask() for _ in range(3)]
    assert set(first) == {A, B, C}
    assert [finder.whom_to_ask() for _ in range(3)] == first


def test_the_order_is_not_the_same_for_every_node() -> None:
    assert len({Finder(VOTERS, [], from_seed(seed)).whom_to_ask() for seed in range(20)}) == 3


def test_a_voter_is_known_by_its_id_and_asked_from_then_on() -> None:
    finder = of_voters()
    assert finder.learn(5, 2)
    assert finder.leader == Leader(2, 5, B)
    assert [finder.whom_to_ask() for _ in range(3)] == [B, B, B]
    assert not finder.learn(5, 2)


def test_of_a_leader_that_nobody_told_the_address_comes_with_the_answer() -> None:
    finder = of_bootstrap(A)
    assert not finder.learn(5, 2)
    assert (finder.leader, finder.epoch) == (None, 5)
    assert finder.learn(5, 2, [(1, "x", 1), (2, "b", 9093)])
    assert finder.leader == Leader(2, 5, B)


def test_where_an_answer_says_another_address_than_the_setting_the_answer_counts() -> None:
    finder = of_voters()
    finder.learn(5, 2, [(2, "moved", 1)])
    assert finder.whom_to_ask() == Address("moved", 1)


def test_a_newer_epoch_ends_what_was_known() -> None:
    finder = of_voters()
    finder.learn(5, 2)
    assert finder.learn(6, NOBODY)
    assert (finder.leader, finder.epoch) == (None, 6)
    assert finder.learn(6, 3)
    assert finder.learn(7, 1)
    assert finder.leader == Leader(1, 7, A)


@pytest.mark.parametrize("epoch", [-1, 0, 4])
def test_an_older_epoch_says_nothing(epoch: int) -> None:
    finder = of_voters()
    finder.learn(5, 2)
    assert not finder.learn(epoch, 3)
    assert finder.leader == Leader(2, 5, B)
    finder.did_not_answer(B)
    assert not finder.learn(epoch, 3)
    assert finder.leader is None
    assert finder.epoch == 5


def test_within_an_epoch_the_leader_stays() -> None:
    finder = of_voters()
    finder.learn(5, 2)
    assert not finder.learn(5, NOBODY)
    assert not finder.learn(5, 3)
    assert finder.leader == Leader(2, 5, B)


def test_a_leader_that_does_not_answer_is_found_again_if_it_still_is_one() -> None:
    finder = of_voters()
    finder.learn(5, 2)
    finder.did_not_answer(A)
    assert finder.leader is not None
    finder.did_not_answer(B)
    assert {finder.whom_to_ask() for _ in range(3)} == {A, B, C}
    assert finder.learn(5, 2)
    assert finder.leader == Leader(2, 5, B)


def test_somebody_has_to_be_told() -> None:
    with pytest.raises(AssertionError):
        Finder({}, [], from_seed(1))
