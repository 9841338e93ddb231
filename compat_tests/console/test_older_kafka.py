"""The console of an Apache Kafka 3.9, which has no share groups, no streams groups and no settings of groups: every page that it
has, and a sentence where that Kafka has nothing to show. It is started once, in some four seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.console.running import Visitor, console
from compat_tests.reference import jvm
from compat_tests.reference.kafka import RealKafka
from compat_tests.waiting import wait_for
from ottla.commands.cluster import jars

RELEASE: Final = "3.9.1"
PAGES: Final = (
    *("/", "/topics", "/new-topic", "/groups", "/brokers", "/brokers/1", "/inside", "/requests", "/denied"),
    *(f"/topics/orders{end}" for end in ("", "/settings", "/messages", "/0/0", "/produce", "/delete", "/tail", "/groups")),
    *(f"/topics/orders{end}" for end in ("/rates", "/producers", "/partitions", "/delete-records?partition=0")),
    *("/topics/__consumer_offsets/messages", "/group?id=billing", "/group/reset?id=billing&to=beginning"),
    *(f"/group/{page}?id=billing" for page in ("rates", "why", "settings", "delete", "forget")),
    *("/transactions", "/transaction/hanging", "/access", "/access/new", "/access/users", "/access/users/new"),
    *("/access/quotas", "/access/quotas/new", "/access/tokens", "/access/tokens/new"),
    *("/broker/directories", "/broker/reassignments", "/broker/reassignments/new", "/broker/quorum"),
    *("/setting?of=topic&name=orders&key=retention.ms", "/setting/set?of=topic&name=orders&key=retention.ms"),
)
SAYS: Final = {
    "/group/settings?id=billing": "This cluster has no settings of groups, which came with Apache Kafka 4.0.",
    "/access": "The cluster has no authorizer",
    "/access/tokens": "The cluster shows delegation tokens only to whoever has logged in",
    "/broker/reassignments": "Only one broker is there",
}


class OlderKafka(RealKafka):
    """A node of RELEASE, which knows nothing of share groups."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.settings = {name: text for name, text in self.settings.items() if not name.startswith("share.")}

    def _java(self) -> list[str]:
        return ["java", "-Xmx512m", *jvm.SMALL, "-cp", f"{jars.fetched(RELEASE)}/*"]


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Visits the console of that Kafka, which has a record and a group that has read it."""
    kafka = OlderKafka(tmp_path_factory.mktemp("older"))
    kafka.start()
    try:
        bootstrap = f"127.0.0.1:{kafka.port}"
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("orders", "paid", "4711")
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        wait_for(lambda: consumer.poll(1) is not None, "the group reads")
        consumer.commit(asynchronous=False)
        with console(bootstrap) as address:
            yield Visitor(address)
        consumer.close()
    finally:
        kafka.stop()


def test_every_page_shows_what_there_is_or_says_that_it_is_not(visitor: Visitor) -> None:
    seen = {path: visitor.get(path) for path in PAGES}
    assert {path: page.text for path, page in seen.items() if page.status != 200} == {}
    assert {path: said for path, said in SAYS.items() if said not in seen[path].text} == {}
    assert "4711" in seen["/topics/orders/messages"].text
    assert "billing" in seen["/groups"].cells


def test_a_setting_of_a_group_is_not_there(visitor: Visitor) -> None:
    page = visitor.get("/setting?of=group&name=billing&key=consumer.session.timeout.ms")
    assert page.status == 404
    assert SAYS["/group/settings?id=billing"] in page.text
