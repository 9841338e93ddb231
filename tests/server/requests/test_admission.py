"""Few long requests are under way at once, and those that wait come in their order."""

from __future__ import annotations

from ottla.server.requests.admission import LONGEST_S, MOST, Admission
from tests.fakes import ManualClock, MemoryBroker


def test_few_are_under_way_at_once() -> None:
    clock, broker = ManualClock(), MemoryBroker({})
    admission = Admission(clock)
    requests = [broker.request(1) for _ in range(MOST + 4)]
    entered = [admission.enter(request) for request in requests]
    assert [promise.done() for promise in entered] == [True] * MOST + [False] * 4
    admission.leave(requests[1])
    admission.leave(requests[1])
    assert [promise.done() for promise in entered[MOST:]] == [True, False, False, False]
    entered[MOST + 1].cancel()
    admission.leave(requests[0])
    assert [promise.done() for promise in entered[MOST:]] == [True, True, True, False]
    for request in requests:
        admission.leave(request)
    assert entered[-1].done()
    admission.leave(requests[-1])
    assert clock.waiting == 0


def test_nobody_waits_long_for_one_that_waits_itself() -> None:
    clock, broker = ManualClock(), MemoryBroker({})
    admission = Admission(clock)
    for _ in range(MOST):
        admission.enter(broker.request(1))
    entered = admission.enter(broker.request(1))
    clock.advance(LONGEST_S - 0.001)
    assert not entered.done()
    clock.advance(0.001)
    assert entered.done()
