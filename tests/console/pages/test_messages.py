"""Records of a topic, and what a user may write into the fields."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

import ottla.testing
from ottla.console.records import reading
from ottla.console.records.reading import Budget
from tests.console.browser import Browser, cells
from tests.console.conftest import Records


@pytest.fixture(scope="module")
def orders(topic: Callable[..., str], produced: Records) -> str:
    name = topic("messages-orders", 2)
    produced(name, *(b"value-%d" % number for number in range(60)), partition=0, key=b"k")
    produced(name, None, b"", b"\xff\x01", partition=1, begin_ms=5000)
    return name


def rows(page: str) -> list[list[str]]:
    found = cells(page)[6:]
    return [found[at : at + 6] for at in range(0, len(found), 6)]


def test_the_newest_come_first_and_earlier_ones_follow(browser: Browser, orders: str) -> None:
    page = browser.get(f"/topics/{orders}/messages?n=6").text
    assert [row[:2] + row[3:5] for row in rows(page)] == [
        ["1", "2", "null", "ff 01 2 B, not text"],
        ["1", "1", "null", "empty"],
        ["1", "0", "null", "null"],
        ["0", "59", "k", "value-59"],
        ["0", "58", "k", "value-58"],
        ["0", "57", "k", "value-57"],
    ]
    (earlier,) = re.findall(r'rel="next" href="([^"]*)"', page)
    page = browser.get(f"/topics/{orders}/messages{earlier.replace('&amp;', '&')}").text
    assert [row[1] for row in rows(page)] == ["56", "55", "54"]


def test_from_a_place_onwards(browser: Browser, orders: str) -> None:
    page = browser.get(f"/topics/{orders}/messages?from=7&partition=0&n=2").text
    assert [row[1] for row in rows(page)] == ["7", "8"]
    (later,) = re.findall(r'rel="next" href="([^"]*)"', page)
    page = browser.get(f"/topics/{orders}/messages{later.replace('&amp;', '&')}").text
    assert [row[1] for row in rows(page)] == ["9", "10"]
    page = browser.get(f"/topics/{orders}/messages?from=@5001").text
    assert [row[:2] for row in rows(page)] == [["1", "1"], ["1", "2"]]
    page = browser.get(f"/topics/{orders}/messages?from=-3&partition=0").text
    assert [row[1] for row in rows(page)] == ["59", "58", "57"]


def test_filters(browser: Browser, orders: str) -> None:
    page = browser.get(f"/topics/{orders}/messages?value=-5&key=k").text
    assert [row[4] for row in rows(page)] == [f"value-{number}" for number in (*range(59, 49, -1), 5)]
    assert rows(browser.get(f"/topics/{orders}/messages?value=none").text) == [["No record fits."]]
    assert "bytes as written, case-sensitive" in page


def test_a_search_that_found_nothing_yet_leads_on(browser: Browser, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "Budget", lambda clock: Budget(clock, records=10))
    page = browser.get(f"/topics/{orders}/messages?value=none&partition=0").text
    assert rows(page) == [["No record fits among the newest 10. Search earlier"]]
    page = browser.get(f"/topics/{orders}/messages?value=none&partition=0&from=beginning").text
    assert rows(page) == [["No record fits among these 10. Search later"]]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("partition=2", "partition 2 is not there: the topic has 2"),
        ("partition=a", "partition has to be numbers"),
        ("from=somewhen", "is not a place in a topic"),
        ("n=0", "the number of records has to be a whole number from 1 to 500"),
        ("n=501", "the number of records has to be a whole number from 1 to 500"),
        ("at=x", "at has to be as in the links"),
        ("before=0.1-", "before has to be as in the links"),
    ],
)
def test_what_cannot_be_meant_names_the_field(browser: Browser, orders: str, query: str, why: str) -> None:
    answer = browser.get(f"/topics/{orders}/messages?{query}")
    assert answer.status == 400
    assert why in answer.text


def test_a_cursor_of_somebody_else_does_no_harm(browser: Browser, orders: str) -> None:
    for cursor in ("7.1", f"0.{2**63}", "1.0"):
        for name in ("at", "before"):
            assert browser.get(f"/topics/{orders}/messages?{name}={cursor}&from=0").status in {200, 400}


def test_filters_by_field_regular_expression_and_header(browser: Browser, topic: Callable[..., str], produced: Records) -> None:
    name = topic("messages-json")
    produced(name, *(b'{"order": {"id": %d}}' % number for number in range(4700, 4720)), b"no json 4711")

    def values(query: str) -> list[str]:
        return [row[4] for row in rows(browser.get(f"/topics/{name}/messages?{query}").text) if len(row) > 4]

    assert values("where=order.id+%3D+4711") == ['{"order": {"id": 4711}}']
    assert values("where=%24.order.id+in+4718..4730") == ['{"order": {"id": 4719}}', '{"order": {"id": 4718}}']
    assert values("value=^no.*1$&regex=1") == ["no json 4711"]
    assert values("header=trace") == []


@pytest.mark.parametrize(
    ("query", "field"), [("where=5", "where"), ("value=(&regex=1", "value"), ("from=x", "from"), ("n=0", "n")]
)
def test_a_wrong_field_is_marked_and_kept(browser: Browser, orders: str, query: str, field: str) -> None:
    answer = browser.get(f"/topics/{orders}/messages?{query}")
    assert answer.status == 400
    typed = query.partition("=")[2].partition("&")[0]
    assert re.search(rf'name="{field}" value="{re.escape(typed)}"[^>]* aria-invalid="true" aria-describedby="wrong"', answer.text)
    assert "<table" not in answer.text


def test_a_search_says_how_far_it_is(browser: Browser, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "Budget", lambda clock: Budget(clock, records=15))
    page = browser.get(f"/topics/{orders}/messages?value=none&partition=0&from=beginning").text
    assert '<progress max="100" value="25"></progress> 25 %' in page
    assert page.count("data-goon") == 1
    assert "data-goon" not in browser.get(f"/topics/{orders}/messages?value=value&partition=0&from=beginning").text


def test_the_same_in_a_shell(browser: Browser, orders: str) -> None:
    page = browser.get(f"/topics/{orders}/messages?from=7&partition=0,1&uncommitted=1").text
    assert "--partition 0 --partition 1 --from 7 --isolation uncommitted --exit -- messages-orders</pre>" in page
    assert "--from -50 --exit" in browser.get(f"/topics/{orders}/messages").text
    assert "--from @12" in browser.get(f"/topics/{orders}/messages?from=@12").text


def test_committed_offsets_are_decoded_and_found(browser: Browser, orders: str, broker: ottla.testing.Broker) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "messages-group"})
    consumer.commit(offsets=[TopicPartition(orders, 0, 12)], asynchronous=False)
    consumer.close()
    page = browser.get("/topics/__consumer_offsets/messages?key=messages-group&where=OffsetCommitValue.offset+%3D+12").text
    (row,) = rows(page)
    assert '"OffsetCommitKey": {"group": "messages-group", "topic": "messages-orders", "partition": 0}' in row[3]
    assert '"offset": 12' in row[4]
    record = browser.get(f"/topics/__consumer_offsets/{row[0]}/{row[1]}").text
    assert '<details open><summary>&#34;OffsetCommitKey&#34;: {<span class="folded"> … 3 members</span></summary>' in record
    assert "decoded</span>" in record
    assert "In hex" in record
