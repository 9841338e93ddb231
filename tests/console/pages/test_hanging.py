"""Hanging transactions are found, and ended by who types the producer's id; those that a coordinator knows are left alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Producer

import ottla.testing
from compat_tests.brokers import Address
from compat_tests.wire import Wire
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.console.cluster.source import Source
from ottla.console.subjects import transactions as subject
from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource, topic_summary


def test_one_that_hangs_is_found_and_ended(
    guarded: ottla.testing.Broker, guarded_browser: Browser, audited: Callable[[], list[str]]
) -> None:
    wire = Wire(Address("ottla", guarded.port, 0, ""), "hanging")
    try:
        wire.warm_up()
        topic, producer = wire.leave_hanging()
    finally:
        wire.close()
    page = guarded_browser.get("/transaction/hanging?idle=0").text
    found = cells(page)[8:]
    assert [*found[:4], found[6]] == [topic, "0", str(producer), "4", "1"]
    path = f"/transaction/hanging/abort?topic={topic}&partition=0&offset=1&producer={producer}&epoch=4"
    assert path.replace("&", "&amp;") in page
    assert cells(guarded_browser.get("/transaction/hanging?idle=90000").text)[8:] == ["None."], "it is of today"
    assert guarded_browser.get(path).status == 200
    assert guarded_browser.post(path, typed="no").status == 400
    other = guarded_browser.post(path.replace("epoch=4", "epoch=5"), typed=str(producer))
    assert "no hanging transaction of producer" in other.text
    assert guarded_browser.post(path, typed=str(producer)).status == 303
    assert audited()[-1] == f"abort hanging transaction of producer {producer} epoch 4 at offset 1 of '{topic} [0]': done"
    assert cells(guarded_browser.get("/transaction/hanging?idle=0").text)[8:] == ["None."]


def test_one_that_a_coordinator_knows_is_left_alone(
    source: Source, broker: ottla.testing.Broker, topic: Callable[..., str]
) -> None:
    name = topic("hanging-not")
    source.changed()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "hanging-not"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"x", partition=0)
    assert producer.flush(30) == 0
    (one,) = subject.producers(source, name, [0])
    assert one.since == 0
    assert subject.hanging(source, [name], 2**63 - 1) == []
    with pytest.raises(Failure, match="no hanging transaction"):
        subject.abort_hanging(source, Partition(name, 0), one.producer_id, one.epoch, 0)
    producer.commit_transaction(30)


def test_topics_that_are_not_looked_at_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def hanging(_: object, topics: Sequence[str], __: int) -> list[subject.Producer]:
        asked.append(len(topics))
        return []

    monkeypatch.setattr(subject, "hanging", hanging)
    topics = [topic_summary("away", offline=1), *(topic_summary(f"t{number}") for number in range(502))]
    with browsing(FakeSource(topics)) as browser:
        page = browser.get("/transaction/hanging").text
    assert asked == [500]
    assert "1 topic not looked at, since partitions there have no leader" in page
    assert "2 more topics not looked at" in page


@pytest.mark.parametrize("query", ["", "?topic=t", "?topic=t&partition=0&offset=x&producer=1&epoch=1", "?topic=t&partition=1"])
def test_a_place_that_is_none(query: str) -> None:
    with browsing(FakeSource([topic_summary("t")])) as browser:
        assert browser.get(f"/transaction/hanging/abort{query}").status in {400, 404}
