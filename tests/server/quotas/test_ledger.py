"""Tests that what was used up stays with a share as long as it matters, whatever becomes of limits and however many clients there
are."""

from __future__ import annotations

from ottla.server.quotas.ledger import FEW, Ledger
from ottla.server.quotas.rates import Rate, Windows

WINDOWS = Windows(11, 1000)


def ledger_of(limit: float = 10.0) -> Ledger[Rate]:
    ledger = Ledger(Rate, WINDOWS)
    ledger.set_limit((("client-id", None),), limit)
    return ledger


def test_clients_of_one_share_have_one_measure() -> None:
    ledger = ledger_of()
    one, other = ledger.measure_of(("u", "c"), 0), ledger.measure_of(("v", "c"), 0)
    assert one is not None
    assert other is not None
    assert one[0] is other[0]
    assert list(ledger.shares) == [("", "c")]
    assert ledger.measure_of(("u", ""), 0) is None


def test_a_new_limit_finds_what_was_used_up() -> None:
    ledger = ledger_of()
    found = ledger.measure_of(("u", "c"), 0)
    assert found is not None
    found[0].record(1000, 0)
    ledger.set_limit((("client-id", "c"),), 50.0)
    assert ledger.limited
    again = ledger.measure_of(("u", "c"), 0)
    assert again == (found[0], 50.0)
    ledger.set_limit((("client-id", "c"),), None)
    assert ledger.limited
    assert ledger.measure_of(("u", "c"), 0) == (found[0], 10.0)
    ledger.set_limit((("client-id", None),), None)
    assert not ledger.limited
    assert ledger.measure_of(("u", "c"), 0) is None


def test_who_was_quiet_for_all_windows_is_forgotten_when_there_are_many() -> None:
    ledger = ledger_of()
    for n in range(FEW):
        found = ledger.measure_of(("u", str(n)), 0)
        assert found is not None
        found[0].record(1, 0)
    busy = ledger.measure_of(("u", "7"), 5_000)
    assert busy is not None
    busy[0].record(1, 5_000)
    ledger.measure_of(("u", "one more"), 11_000)
    assert list(ledger.shares) == [("", "7"), ("", "one more")]
    assert ledger.measure_of(("u", "7"), 11_000) == busy


def test_nobody_is_forgotten_whose_use_matters() -> None:
    ledger = ledger_of()
    for n in range(FEW + 10):
        found = ledger.measure_of(("u", str(n)), 0)
        assert found is not None
        found[0].record(1, 0)
    assert len(ledger.shares) == FEW + 10


def test_shares_are_looked_at_again_when_there_are_twice_as_many() -> None:
    """Looking at all of them for each new one would take ever longer."""
    looks: list[int] = []

    class Busy(Rate):
        def is_idle(self, now_ms: int) -> bool:
            looks.append(now_ms)
            return False

    ledger = Ledger(Busy, WINDOWS)
    ledger.set_limit((("client-id", None),), 10.0)
    for n in range(4 * FEW + 1):
        ledger.measure_of(("u", str(n)), n)
    assert looks == [number for number in (FEW, 2 * FEW, 4 * FEW) for _ in range(number)]


def test_who_was_forgotten_is_not_measured_elsewhere() -> None:
    """Checks that what is resolved and what is measured are kept apart, and each is forgotten at its own time."""
    ledger = ledger_of()
    for n in range(FEW):
        ledger.measure_of(("u", str(n)), 0)
    ledger.set_limit((("client-id", None),), 20.0)
    before = ledger.measure_of(("u", "8"), 0)
    ledger.measure_of(("u", "one more"), 11_000)
    assert list(ledger.shares) == [("", "one more")]
    after = ledger.measure_of(("u", "8"), 11_000)
    assert before is not None
    assert after is not None
    assert after[0] is ledger.shares["", "8"] is not before[0]
