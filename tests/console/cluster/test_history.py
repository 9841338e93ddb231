"""Samples of offsets, bounded, and the rates between them."""

from __future__ import annotations

import pytest

from ottla.console.cluster import history
from ottla.console.cluster.history import History, Rate, Rises, rates


def test_rates_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    it = History(lambda: now[0], lambda: round(now[0] * 1000))
    it.add("t", {"end": 10})
    now[0] += 0.5  # too soon
    assert len(it.add("t", {"end": 11})) == 1
    now[0] += 1.5
    it.add("t", {"end": 20})
    now[0] += 2
    it.add("t", {"end": 5})  # the topic was made anew
    now[0] += 4
    samples = it.add("t", {"end": 9})
    assert rates(samples, "end") == [Rate(102_000, 5.0), Rate(108_000, 1.0)]
    assert rates(samples, "other") == []


def test_a_look_that_would_not_count_is_not_due() -> None:
    now = [100.0]
    it = History(lambda: now[0], lambda: 0)
    assert it.recent("t") is None
    it.add("other", {"end": 1})
    assert it.recent("t") is None
    samples = it.add("t", {"end": 10})
    now[0] += 0.9
    assert it.recent("t") == samples
    now[0] += 0.1
    assert it.recent("t") is None
    assert len(it.add("t", {"end": 11})) == 2


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_SAMPLES", 3)
    monkeypatch.setattr(history, "MAX_SERIES", 2)
    times = iter(range(100))
    it = History(lambda: next(times), lambda: 0)
    for number in range(5):
        samples = it.add("a", {"n": number})
    assert [one.values["n"] for one in samples] == [2, 3, 4]
    it.add("b", {"n": 0})
    it.add("a", {"n": 5})
    it.add("c", {"n": 0})  # "b" was looked at longest ago
    assert len(it.add("a", {"n": 6})) == 3
    assert len(it.add("b", {"n": 1})) == 1


def test_rises_are_added_up() -> None:
    rises = Rises()

    def total_with(**offsets: dict[int, int]) -> int:
        rises.add(rises.look(), offsets)
        return rises.total

    assert total_with(a={0: 10, 1: 7}, b={0: 5}) == 0  # they were not seen before
    assert total_with(a={0: 12, 1: 7}) == 2
    assert total_with(a={0: 3}, b={0: 6}) == 3  # a was made anew
    assert total_with(a={0: 4, 1: 9}, c={0: 100}) == 6  # its partition 1 was not known in between
    rises.keep_only({"a"})
    assert total_with(a={0: 4}, b={0: 9}, c={0: 300}) == 6
    assert total_with(a={}, b={0: 10}) == 7


def test_looks_that_cross_count_a_rise_once() -> None:
    rises = Rises()
    rises.add(rises.look(), {"a": {0: 10}, "b": {0: 1}})
    slow, quick = rises.look(), rises.look()
    rises.add(quick, {"a": {0: 15}})
    rises.add(slow, {"a": {0: 12}, "b": {0: 3}})  # of b nobody has seen more
    rises.add(rises.look(), {"a": {0: 15}})
    assert rises.total == 5 + 2
