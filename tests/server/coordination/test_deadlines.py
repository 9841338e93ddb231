"""Tests of what limits cost: of many answers that wait, and of many that went out in time. test_shard.py has what answers wait
for."""

from __future__ import annotations

from typing import Any

from ottla.server.base.promise import Promise
from ottla.server.coordination.deadlines import FEW, Deadlines
from ottla.wire.errors import ErrorCode
from tests.server.coordination.memory import CoordinatorClock


def test_answers_with_late_deadlines_that_went_out_do_not_gather_behind_one_that_waits() -> None:
    clock = CoordinatorClock()
    deadlines = Deadlines(clock)
    stuck: Promise[ErrorCode] = Promise()
    deadlines.add(stuck, 5)
    for _ in range(10 * FEW):
        answer: Promise[ErrorCode] = Promise()
        deadlines.add(answer, 60)
        answer.set_result(ErrorCode.NONE)
        assert len(deadlines) <= FEW
    clock.advance(5)
    assert stuck.result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (len(deadlines), clock.waiting) == (0, 0)


def test_a_deadline_costs_no_look_at_the_answers_behind_it() -> None:
    looks: list[int] = []

    class Looked:
        code: ErrorCode | None = None

        def done(self) -> bool:
            looks.append(1)
            return self.code is not None

        def set_result(self, code: ErrorCode) -> None:
            self.code = code

    clock = CoordinatorClock()
    answers: list[Any] = [Looked() for _ in range(1_000)]
    deadlines = Deadlines(clock)
    for number, answer in enumerate(answers):
        deadlines.add(answer, 5 + number / 1_000)
    looks.clear()
    clock.advance(6)
    assert {answer.code for answer in answers} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(looks) < 5 * len(answers)
