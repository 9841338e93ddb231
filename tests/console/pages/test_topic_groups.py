"""The groups of a topic: who reads it, how far behind there, and no group that has nothing of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

import ottla.testing
from ottla.commands.clients.partition import Partition
from ottla.commands.groups.rows import GroupState, MemberState, OffsetState
from ottla.console.pages import topic_groups
from tests.console.browser import Browser, browsing, cells
from tests.console.conftest import Records
from tests.console.fakes import FakeSource, group_state, topic_summary

READER = MemberState("m", None, "the-client", "host", (Partition("t", 1),))


def offsets(topic: str, **lags: int) -> tuple[OffsetState, ...]:
    return tuple(OffsetState(Partition(topic, int(name[1:])), 0, lag) for name, lag in lags.items())


def test_a_group_that_has_committed_is_there(
    browser: Browser, broker: ottla.testing.Broker, topic: Callable[..., str], produced: Records
) -> None:
    name, other = topic("topic-groups", 2), topic("topic-groups-none")
    produced(name, b"a", b"b", b"c")
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reads<it>"}) as consumer:
        consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
    shown = browser.get(f"/topics/{name}/groups")
    assert cells(shown.text)[7:] == ["reads<it>", "classic", "○ Empty", "1", "2", "nobody", "✕ no member Why?"]
    assert f'href="/topics/{name}/groups"' in browser.get(f"/topics/{name}").text
    assert cells(browser.get(f"/topics/{other}/groups").text)[7:] == ["No group."]
    assert browser.get("/topics/topic-groups-gone/groups").status == 404


def test_the_furthest_behind_comes_first_and_only_what_is_here_counts() -> None:
    states = [
        GroupState("near", "Stable", "consumer", "range", None, (READER,), offsets("t", p1=2) + offsets("u", p0=1000)),
        GroupState("very far", "Empty", "classic", "", None, (), offsets("t", p0=5, p1=7)),
        GroupState("elsewhere", "Empty", "classic", "", None, (), offsets("u", p0=1)),
        GroupState("new", "Stable", "share", "", None, (READER,), ()),
    ]
    with browsing(FakeSource([topic_summary("t", 2)], states, notes=("a note",))) as browser:
        shown = browser.get("/topics/t/groups").text
        assert cells(shown)[7:] == [
            *("very far", "classic", "○ Empty", "2", "12", "nobody", "✕ no member Why?"),
            *("near", "consumer", "● Stable", "1", "2", "the-client", "Why?"),
            *("new", "share", "● Stable", "0", "0", "the-client", ""),
        ]
        assert "<li>a note</li>" in shown
        assert cells(browser.get("/topics/t/groups?q=FA").text)[7::7] == ["very far"]
        assert cells(browser.get("/topics/t/groups?q=x").text)[7:] == ["No group fits."]


def test_only_so_many_groups_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_groups, "MOST_GROUPS", 2)
    source = FakeSource([topic_summary("t")], [group_state(name) for name in "dcba"])
    with browsing(source) as browser:
        assert "2 more groups not asked" in browser.get("/topics/t/groups").text
    assert source.asked == [("t", ["a", "b"])]


def test_a_topic_without_a_leader_is_the_trouble() -> None:
    state = GroupState("g", "Stable", "classic", "", None, (READER,), offsets("t", p1=2))
    with browsing(FakeSource([topic_summary("t", 2, offline=1)], [state])) as browser:
        assert "✕ t is offline" in browser.get("/topics/t/groups").text
