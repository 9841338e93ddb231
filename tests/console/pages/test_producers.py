"""The producers that partitions remember: of all partitions, or of one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

import ottla.testing
from ottla.commands.clients.partition import Partition
from ottla.console.subjects import transactions as subject
from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource, topic_summary


def test_producers_of_all_partitions_and_of_one(
    browser: Browser, broker: ottla.testing.Broker, topic: Callable[..., str]
) -> None:
    name = topic("producers", 2)
    for number in (0, 1):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        for value in (b"a", b"b"):
            producer.produce(name, value, partition=number, timestamp=1000)
            assert producer.flush(30) == 0
    found = cells(browser.get(f"/topics/{name}/producers").text)[6:]
    assert [found[0], found[3], found[5], found[6], found[9], found[11]] == ["0", "1", "–", "1", "1", "–"]
    assert found[1] != found[7], "each has an id of its own"
    assert cells(browser.get(f"/topics/{name}/producers?partition=1").text)[6::6] == ["1"]
    assert browser.get(f"/topics/{name}/producers?partition=2").status == 400
    assert browser.get("/topics/producers-none/producers").status == 404


def test_only_so_many_partitions_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    one = subject.Producer(Partition("t", 3), 7, 2, None, None, None, 12)

    def producers(_: object, name: str, numbers: range) -> list[subject.Producer]:
        asked.append((name, numbers))
        return [one]

    monkeypatch.setattr(subject, "producers", producers)
    with browsing(FakeSource([topic_summary("t", 203)])) as browser:
        page = browser.get("/topics/t/producers").text
        browser.get("/topics/t/producers?partition=202")
    assert asked == [("t", range(200)), ("t", range(202, 203))]
    assert "3 more partitions not asked" in page
    assert cells(page)[6:] == ["3", "7", "2", "–", "–", "12"]
