"""These tests cover each deadline of a member: which member it fences, and what cancels it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.consumer.timeouts import Timeouts
from ottla.server.group.modern.timers import MemberTimers
from tests.server.coordination.memory import CoordinatorClock

MEMBER = ConsumerMember("m", epoch=4, rebalance_timeout_ms=2_000)


class Fenced:
    def __init__(self) -> None:
        self.clock = CoordinatorClock()
        self.calls: list[tuple[str, str, str, int | None]] = []
        self.timeouts = Timeouts(MemberTimers(self.clock), self.fence)

    def fence(self, group_id: str, member_id: str, reason: str, *, in_epoch: int | None = None) -> None:
        self.calls.append((group_id, member_id, reason, in_epoch))


@pytest.mark.parametrize(
    ("begin", "call"),
    [
        (lambda timeouts: timeouts.session("g", "m", 2_000), ("g", "m", "its session has expired", None)),
        (lambda timeouts: timeouts.rebalance("g", MEMBER), ("g", "m", "it was still in epoch 4 after 2000 ms", 4)),
        (lambda timeouts: timeouts.join("g", MEMBER), ("g", "m", "it did not join again in time", None)),
        (lambda timeouts: timeouts.sync("g", "m", 2_000), ("g", "m", "it did not sync in time", None)),
    ],
    ids=["session", "rebalance", "join", "sync"],
)
def test_a_deadline_fences_once_when_it_has_passed(begin: Callable[[Timeouts], None], call: tuple[str, str, str, int]) -> None:
    fenced = Fenced()
    begin(fenced.timeouts)
    fenced.clock.advance(1.999)
    assert fenced.calls == []
    fenced.clock.advance(0.001)
    assert fenced.calls == [call]
    fenced.clock.advance(60)
    assert fenced.calls == [call]


def test_what_lifts_a_deadline() -> None:
    fenced = Fenced()
    timeouts = fenced.timeouts
    timeouts.rebalance("g", MEMBER)
    timeouts.reconciled("g", "m")
    timeouts.join("g", MEMBER)
    timeouts.sync("g", "m", 2_000)
    timeouts.synced("g", "m")
    timeouts.session("g", "m", 2_000)
    timeouts.join("g", MEMBER)
    timeouts.forget("g", "m")
    fenced.clock.advance(60)
    assert fenced.calls == []


def test_a_join_is_not_put_off_and_a_session_is() -> None:
    fenced = Fenced()
    for _ in range(2):
        fenced.timeouts.join("g", MEMBER)
        fenced.timeouts.session("g", "m", 2_000)
        fenced.clock.advance(1)
    assert [reason for _, _, reason, _ in fenced.calls] == ["it did not join again in time"]
