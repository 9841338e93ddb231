"""Tests of what is found out about groups while pages wait: joined, kept for a while, bounded."""

from __future__ import annotations

import threading

import pytest

from ottla.commands.output import Failure
from ottla.commands.why.facts import GroupFacts
from ottla.console.cluster.gatherings import KEPT_S, MOST, Gatherings, Tell

FIRST, LAST = GroupFacts("first"), GroupFacts("last")


class Slow:
    """Finds out something that a test lets come."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.has_told = threading.Event()

    def __call__(self, tell: Tell) -> GroupFacts:
        tell(FIRST)
        self.has_told.set()
        assert self.goes_on.wait(30)
        return LAST


@pytest.fixture
def slow() -> Slow:
    return Slow()


def quick(_: Tell) -> GroupFacts:
    return LAST


def test_a_page_has_what_is_known_by_then_and_a_later_one_the_rest(slow: Slow) -> None:
    found = Gatherings(lambda: 0.0)
    one = found.find_or_begin("g", slow)
    assert slow.has_told.wait(30)
    assert (one.wait(0), one.is_over, found.running) == (FIRST, False, 1)
    assert found.find_or_begin("g", quick) is one  # who asks meanwhile waits for the same
    slow.goes_on.set()
    assert one.wait(30) is LAST
    assert (one.is_over, found.running) == (True, 0)
    assert found.find_or_begin("g", quick, one.number) is one
    assert found.find_or_begin("g", quick) is not one  # without its number, it is looked at anew
    assert found.find_or_begin("other", quick, one.number) is not one


def test_an_outcome_is_forgotten_after_a_while_and_what_goes_wrong_is_said() -> None:
    now = [0.0]
    found = Gatherings(lambda: now[0])

    def fail(_: Tell) -> GroupFacts:
        raise Failure("no answer in time")

    one = found.find_or_begin("g", fail)
    with pytest.raises(Failure, match="no answer in time"):
        one.wait(30)
    now[0] = KEPT_S
    assert found.find_or_begin("g", quick, one.number) is one
    now[0] += 1
    assert found.find_or_begin("g", quick, one.number) is not one


def test_there_are_only_so_many_at_a_time(slow: Slow) -> None:
    found = Gatherings(lambda: 0.0)
    begun = [found.find_or_begin(number, slow) for number in range(MOST)]
    with pytest.raises(Failure, match="looked at already"):
        found.find_or_begin("one more", quick)
    slow.goes_on.set()
    for one in begun:
        one.wait(30)
    assert found.find_or_begin("one more", quick).wait(30) is LAST
