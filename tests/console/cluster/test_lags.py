"""Tests of which group is the furthest behind in a topic, and how many groups are asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ottla.commands.clients.partition import Partition
from ottla.commands.groups.kinds import Listed
from ottla.console.cluster import lags
from ottla.console.cluster.lags import WITHIN_S, Commits, Furthest, commits_of, furthest


def listed(count: int, kind: str = "classic") -> list[Listed]:
    return [Listed(f"{kind}-{number:03}", "Empty", kind, 1) for number in range(count)]


class Asked:
    """Takes `each_s` of its clock for each group that is asked."""

    def __init__(self, each_s: float = 0.0) -> None:
        self.now = 100.0
        self.each_s = each_s
        self.portions: list[int] = []

    def __call__(self, groups: Sequence[Listed]) -> tuple[Mapping[str, Mapping[Partition, int]], Mapping[str, str]]:
        self.portions.append(len(groups))
        self.now += self.each_s * len(groups)
        return {one.name: {Partition("t", 0): 5} for one in groups}, {}

    def clock(self) -> float:
        return self.now


def test_all_are_asked_in_portions_that_grow() -> None:
    ask = Asked()
    found = commits_of([*listed(200), *listed(3, "share")], ask, ask.clock)
    assert ask.portions == [2, 32, 166]
    assert (len(found.by_group), found.unknown, found.left_out) == (200, {}, 0)


def test_once_the_time_is_over_the_others_are_counted() -> None:
    ask = Asked(WITHIN_S / 100)
    found = commits_of(listed(200), ask, ask.clock)
    assert ask.portions[:3] == [2, 32, 33]
    assert 98 <= sum(ask.portions) <= 101
    assert (sorted(found.by_group), found.left_out) == (
        [f"classic-{n:03}" for n in range(sum(ask.portions))],
        200 - sum(ask.portions),
    )


def test_who_has_committed_much_is_asked_alone() -> None:
    ask = Asked(WITHIN_S / 2.5)
    assert commits_of(listed(200), ask, ask.clock).left_out == 197
    assert ask.portions == [2, 1]


def test_the_first_two_are_asked_however_long_that_takes() -> None:
    ask = Asked(10 * WITHIN_S)
    assert commits_of(listed(5), ask, ask.clock).left_out == 3


def test_there_are_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lags, "MOST_GROUPS", 5)
    ask = Asked()
    assert commits_of(listed(7), ask, ask.clock).left_out == 2
    assert ask.portions == [2, 3]


def test_what_is_not_known_is_told_with_its_reason() -> None:
    def ask(groups: Sequence[Listed]) -> tuple[Mapping[str, Mapping[Partition, int]], Mapping[str, str]]:
        return {}, {"classic-000": "not allowed"}

    assert commits_of(listed(2), ask, lambda: 0.0) == Commits({}, {"classic-000": "not allowed", "classic-001": ""}, 0)
    assert commits_of([], ask, lambda: 0.0) == Commits({}, {}, 0)


def test_the_furthest_is_found_in_each_topic() -> None:
    t, u = [Partition("t", number) for number in range(3)], Partition("u", 0)
    commits = {"b": {t[0]: 5, t[1]: 6, u: 10}, "a": {t[0]: 1, t[2]: 0}, "c": {t[0]: 1}, "ahead": {t[0]: 99}}
    ends = {t[0]: 10, t[1]: 10, u: 10}  # t 2 has no leader
    assert furthest(commits, ends) == {"t": Furthest("a", 9, 4), "u": Furthest("b", 0, 1)}
    assert furthest({"a topic made anew": {t[0]: 99, t[1]: 0}}, ends) == {"t": Furthest("a topic made anew", 10, 1)}
    assert furthest({"late": {t[0]: 1}, "last": {t[0]: 1}}, ends)["t"].group == "last"
    assert furthest({"late": {}}, ends) == furthest({}, ends) == {}
