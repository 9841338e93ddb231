"""These tests cover deadlines of members on a clock that stands still: they are set again, cancelled, and retried if they had no
effect.
"""

from __future__ import annotations

from ottla.server.group.errors import GroupError
from ottla.server.group.modern.timers import RETRY_MS, MemberTimers
from ottla.wire.errors import ErrorCode
from tests.server.coordination.memory import CoordinatorClock


def test_a_deadline_that_had_no_effect_passes_again_until_it_has() -> None:
    clock, tries = CoordinatorClock(), [0]

    def over() -> None:
        tries[0] += 1
        if tries[0] < 3:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    MemberTimers(clock).set("session", "g", "m", 10_000, over)
    clock.advance(10)
    assert tries[0] == 1
    clock.advance(2 * RETRY_MS / 1000)
    assert tries[0] == 3
    assert clock.waiting == 0


def test_a_sign_of_life_ends_the_tries() -> None:
    clock, tries = CoordinatorClock(), [0]
    timers = MemberTimers(clock)

    def over() -> None:
        tries[0] += 1
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    timers.push_back("session", "g", "m", 10_000, over)
    clock.advance(10)
    timers.push_back("session", "g", "m", 10_000, over)
    clock.advance(9)
    assert tries[0] == 1
    timers.cancel_all("g", "m")
    clock.advance(60)
    assert tries[0] == 1


def test_each_name_is_a_deadline_of_its_own() -> None:
    clock, passed = CoordinatorClock(), list[str]()
    timers = MemberTimers(clock)
    timers.set("session", "g", "m", 3_000, lambda: passed.append("session"))
    timers.set("rebalance", "g", "m", 1_000, lambda: passed.append("rebalance"))
    timers.set_if_absent("rebalance", "g", "m", 9_000, lambda: passed.append("never"))
    timers.set("session", "g", "other", 2_000, lambda: passed.append("other"))
    timers.cancel("session", "g", "other")
    clock.advance(4)
    assert passed == ["rebalance", "session"]
