"""The list of topics: search, order, pages."""

from __future__ import annotations

import pytest

from ottla.commands.clients.partition import Partition
from ottla.console.cluster.lags import Furthest
from ottla.console.cluster.source import Held
from tests.console.browser import browsing, cells
from tests.console.fakes import FakeSource, topic_summary

TOPICS = [
    topic_summary("a", 3),
    topic_summary("B", 1, under=1),
    topic_summary("c", 2, offline=1),
    topic_summary("__consumer_offsets", 50, internal=True),
]


def names(query: str) -> list[str]:
    with browsing(FakeSource(TOPICS)) as browser:
        return cells(browser.get(f"/topics{query}").text)[8::8]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["B", "a", "c"]),
        ("?sort=-name", ["c", "a", "B"]),
        ("?sort=partitions", ["B", "c", "a"]),
        ("?sort=-state", ["c", "B", "a"]),
        ("?q=b", ["B"]),
        ("?q=offsets", ["No topic has such a name."]),
        ("?q=offsets&internal=1", ["__consumer_offsets"]),
    ],
)
def test_search_and_order(query: str, found: list[str]) -> None:
    assert names(query) == found


def test_only_what_is_on_the_page_is_asked_for() -> None:
    many = FakeSource([topic_summary(f"t{number:03}") for number in range(120)], held_of={"t100": Held(7, None)})
    with browsing(many) as browser:
        page = browser.get("/topics?page=3&q=t").text
        browser.get("/topics?page=2")
    assert many.asked == [[f"t{number:03}" for number in range(100, 120)], [f"t{number:03}" for number in range(50, 100)]]
    assert cells(page)[8:16] == ["t100", "1", "1", "7", "–", "–", "", "● healthy"]
    assert "101–120 of 120 topics" in page
    assert 'href="?page=2&amp;q=t"' in page


def test_who_is_the_furthest_behind() -> None:
    ends = {Partition("a", 0): 9, Partition("a", 1): 7}
    far = {"a": Furthest("bill/ing", 12, 3), "B": Furthest("alone", 2, 1), "c": Furthest("near", 0, 2)}
    source = FakeSource(TOPICS, held_of={"a": Held(16, None, ends), "B": Held(None, None)}, furthest_of=far)
    with browsing(source) as browser:
        page = browser.get("/topics?sort=name").text
    assert source.asked_ends == [ends]
    assert [cells(page)[at : at + 2] for at in (13, 21, 29)] == [
        ["2", "alone"],
        ["12", "bill/ing of 3 groups"],
        ["0", "none of 2 groups"],
    ]
    assert '<a href="/group?id=bill%2Fing">' in page
    assert '<a href="/topics/a/groups" aria-label="Lag in a">12</a>' in page


def test_an_order_that_is_none() -> None:
    with browsing(FakeSource(TOPICS)) as browser:
        answer = browser.get("/topics?sort=size")
    assert answer.status == 400
    assert "sort has to be one of name, partitions, replicas, state" in answer.text
