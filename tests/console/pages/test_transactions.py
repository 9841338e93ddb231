"""Transactions: the open ones first, what one holds back and who waits behind it, and its abort."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import ottla.testing
from ottla.console.subjects import transactions as subject
from tests.console.browser import Browser, cells

Audited = Callable[[], list[str]]
ID = "<b>till"


@pytest.fixture
def opened(broker: ottla.testing.Broker, topic: Callable[..., str]) -> Iterator[Producer]:
    """A producer with an open transaction in the first partition of `txn-held`, and a group that has come to it."""
    with suppress(KafkaException):  # another test has made it
        topic("txn-held", 2)
    done = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "txn-done"})
    done.init_transactions(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": ID})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("txn-held", b"x", partition=0)
    assert producer.flush(30) == 0
    for group, number in (("txn-behind", 0), ("txn-elsewhere", 1)):
        with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group}) as consumer:
            at = stable_end(consumer, number)
            consumer.commit(offsets=[TopicPartition("txn-held", number, at)], asynchronous=False)
    yield producer
    with suppress(KafkaException):  # it was fenced
        producer.abort_transaction(30)


def stable_end(consumer: Consumer, number: int) -> int:
    """Returns the last stable offset, where readers of committed records stop."""
    return consumer.get_watermark_offsets(TopicPartition("txn-held", number), timeout=30)[1]


def test_open_ones_come_first_and_can_be_chosen(browser: Browser, opened: Producer) -> None:
    found = cells(browser.get("/transactions").text)[8:]
    assert [found[0], found[1], found[3], found[6], found[7]] == [ID, "● Ongoing", "60 s", "1", "1"]
    assert cells(browser.get("/transactions?q=TXN-").text)[8:11] == ["txn-done", "○ Empty", "–"]
    assert ID in cells(browser.get("/transactions?state=open").text)
    assert "txn-done" not in cells(browser.get("/transactions?state=open").text)
    assert cells(browser.get("/transactions?q=nobody").text)[8:] == ["No transactional id fits."]
    assert browser.get("/transactions?state=x").status == 400


def test_one_with_what_it_holds_back_and_who_waits(browser: Browser, opened: Producer) -> None:
    page = browser.get("/transaction?id=%3Cb%3Etill").text
    found = cells(page)
    assert found[7:9] == ["txn-held", "0"]
    assert [found[9], found[12]] == [found[10], "1"]
    assert found[18:20] == ["txn-behind", "txn-held"]
    assert "txn-elsewhere" not in page
    closed = browser.get("/transaction?id=txn-done").text
    assert "Abort" not in closed
    assert browser.get("/transaction?id=nobody").status == 404


def test_an_abort_asks_for_the_id(browser: Browser, opened: Producer, audited: Audited) -> None:
    path = "/transaction/abort?id=%3Cb%3Etill"
    assert "fences its producer" in browser.get(path).text
    assert browser.post(path, typed="till").status == 400
    assert audited() == []
    answer = browser.post(path, typed=ID)
    assert (answer.status, answer.headers["location"]) == (303, "/transaction?id=%3Cb%3Etill")
    (line,) = audited()
    assert line.startswith("abort transaction '<b>till' of producer ")
    assert line.endswith(": done")
    with pytest.raises(KafkaException):
        opened.commit_transaction(30)
    again = browser.post(path, typed=ID)
    assert again.status == 400
    assert "no transaction is open" in again.text


def test_one_that_is_late_is_marked() -> None:
    one = subject.Transaction("t", "Ongoing", 1, 1, 0, 10_000, 5_000)
    assert (one.age_ms(14_000), one.is_late(15_000), one.is_late(15_001)) == (9_000, False, True)
    assert one.age_ms(4_000) == 0
    assert subject.Transaction("t", "Empty", 1, 1).age_ms(9) is None
