"""Tests of how long the answers to failed logins wait."""

from __future__ import annotations

from ottla.server.security import failures as module
from ottla.server.security.failures import MAX_ADDRESSES, MAX_SECONDS, Failures
from tests.fakes import ManualClock


def test_the_delay_doubles_for_who_fails_often() -> None:
    failures = Failures(ManualClock(), 100, 3)
    assert [round(failures.note("a"), 1) for _ in range(10)] == [0.1, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert failures.note("b") == 0.1


def test_a_minute_later_it_begins_again() -> None:
    clock = ManualClock()
    failures = Failures(clock, 100, 2)
    assert [failures.note("a"), failures.note("a")] == [0.1, 0.2]
    clock.advance(59.9)
    assert failures.note("a") == 0.4
    clock.advance(0.1)
    assert [failures.note("a"), failures.note("a")] == [0.1, 0.2]


def test_a_long_delay_is_not_shortened() -> None:
    failures = Failures(ManualClock(), 60_000, 1)
    assert [failures.note("a") for _ in range(20)] == [60.0] * 20


def test_without_a_delay_guessing_is_slowed_all_the_same() -> None:
    failures = Failures(ManualClock(), 0, 2)
    assert [failures.note("a") for _ in range(3)] == [0.0, 0.2, 0.4]
    assert max(failures.note("a") for _ in range(50)) == MAX_SECONDS


def test_it_can_be_turned_off() -> None:
    failures = Failures(ManualClock(), 100, 0)
    assert {failures.note("a") for _ in range(100)} == {0.1}
    failures.delay_ms = 200
    assert failures.note("a") == 0.2


def test_an_ipv6_network_is_one_address() -> None:
    failures = Failures(ManualClock(), 100, 2)
    assert [failures.note(f"2001:db8:1:2::{number}") for number in range(4)] == [0.1, 0.2, 0.4, 0.8]
    assert failures.note("2001:db8:1:3::1") == 0.1
    assert failures.note("10.0.0.1") == failures.note("10.0.0.2") == 0.1


def test_so_many_addresses_are_remembered() -> None:
    failures = Failures(ManualClock(), 100, 2)
    failures.note("first")
    failures.note("second")
    for number in range(MAX_ADDRESSES - 2):
        failures.note(str(number))
    assert failures.note("second") == 0.2
    failures.note("another")
    assert failures.note("first") == 0.1
    assert failures.note("second") == 0.4
    assert len(failures._counts) == MAX_ADDRESSES == module.MAX_ADDRESSES
