"""The console's pages of administration, for ottla and Apache Kafka: what is open, who may what, what it is set to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.commands import made
from compat_tests.console.running import Visitor, console
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.test_commands_txn import open_transaction
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """A topic of two partitions with three records in the first one, by an idempotent producer."""
    name = made(bootstrap, 2)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in (b"a", b"b", b"c"):
        producer.produce(name, value, partition=0)
        assert producer.flush(60) == 0
    return name


def test_a_transaction_is_shown_with_who_waits_and_aborted(visitor: Visitor, bootstrap: str, topic: str, unique: Unique) -> None:
    name, group = unique("till"), unique("behind")
    producer = open_transaction(bootstrap, name, topic)
    with Consumer({"bootstrap.servers": bootstrap, "group.id": group}) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    found = visitor.get(f"/transactions?q={name}&state=open").cells[8:]
    assert [*found[:2], found[3], found[6], found[7]] == [name, "● Ongoing", "60 s", "1", "1"]
    wait_for(lambda: group in visitor.get(f"/transaction?id={name}").cells, "the list of groups has the new one")
    found = visitor.get(f"/transaction?id={name}").cells[7:]
    assert found[:6] == [topic, "0", "3", "3", "4", "1"]
    assert found[11:] == [group, topic, "0", "3"]
    producers = visitor.get(f"/topics/{topic}/producers").cells[6:]
    assert producers[5::6] == ["3", "–"]
    assert visitor.get(f"/transaction/hanging?q={topic}&idle=0").cells[8:] == ["None."]
    form = visitor.get(f"/transaction/abort?id={name}")
    assert visitor.post(f"/transaction/abort?id={name}", form, typed="no").status == 400
    assert visitor.post(f"/transaction/abort?id={name}", form, typed=name).status == 303
    assert "Ongoing" not in visitor.get(f"/transaction?id={name}").text
    del producer


def test_settings_are_explained_set_and_put_back(visitor: Visitor, topic: str) -> None:
    where = f"of=topic&name={topic}&key=retention.ms"
    page = visitor.get(f"/setting?{where}")
    assert page.status == 200
    assert "The broker gives no documentation" not in page.text
    assert visitor.post(f"/setting/set?{where}", visitor.get(f"/setting/set?{where}"), value="86400000").status == 303
    wait_for(lambda: visitor.get(f"/setting?{where}").cells[3:6] == ["topic", "retention.ms", "86400000"], "it is set")
    unset = f"/setting/unset?{where}"
    assert visitor.post(unset, visitor.get(unset), typed="retention.ms").status == 303
    wait_for(lambda: "/setting/unset" not in visitor.get(f"/setting?{where}").text, "it is put back")
    assert visitor.get("/setting?of=broker&name=1&key=log.retention.ms").status == 200
    assert visitor.get("/group/settings?id=anybody").cells[4] == "None."


def test_quotas_and_users_come_and_go(visitor: Visitor, unique: Unique) -> None:
    name = unique("al")
    form = {"user": name, "key": "producer_byte_rate", "value": "1048576"}
    assert visitor.post("/access/quotas/new", visitor.get("/access/quotas/new"), **form).status == 303
    expected = [f"user {name}", "producer_byte_rate", "1,048,576 B/s", "Remove"]
    wait_for(lambda: visitor.get(f"/access/quotas?q={name}").cells[4:] == expected, "the quota is there")
    path = f"/access/quotas/remove?user={name}&key=producer_byte_rate"
    assert visitor.post(path, visitor.get(path), typed="producer_byte_rate").status == 303
    wait_for(lambda: visitor.get(f"/access/quotas?q={name}").cells[4:] == ["No quota fits."], "the quota is gone")
    form = {"name": name, "mechanism": "SCRAM-SHA-512", "password": "hunter2", "again": "hunter2"}
    assert visitor.post("/access/users/new", visitor.get("/access/users/new"), **form).status == 303
    expected = [name, "SCRAM-SHA-512", "8,192"]
    wait_for(lambda: visitor.get(f"/access/users?q={name}").cells[4:7] == expected, "the user is there")
    path = f"/access/users/remove?name={name}&mechanism=SCRAM-SHA-512"
    assert visitor.post(path, visitor.get(path), typed=name).status == 303
    wait_for(lambda: visitor.get(f"/access/users?q={name}").cells[4:] == ["No user fits."], "the user is gone")


def test_what_a_cluster_is_made_of(visitor: Visitor, topic: str) -> None:
    directory, broker, state = visitor.get("/broker/directories").cells[8:11]
    assert (broker, state) == ("1", "● online")
    # a hundred logs a page, the largest first; what other tests left is there, too

    def is_listed() -> bool:
        pages = (visitor.get(f"/broker/directory?broker=1&path={directory}&page={page}").cells for page in range(1, 50))
        return any(topic in cells for cells in pages)

    wait_for(is_listed, "it is listed")  # it may change its page meanwhile
    for path in ("/broker/reassignments", f"/broker/reassignments/new?topic={topic}"):
        page = visitor.get(path)
        assert (page.status, "Only one broker is there, so no partition can move" in page.text) == (200, True)
    found = visitor.get("/broker/quorum").cells
    assert found[8] == "● leader"
    assert "metadata.version" in found


def test_what_it_does_not_have_is_a_sentence(visitor: Visitor) -> None:
    for path, sentence in (
        ("/access", "The cluster has no authorizer"),
        ("/access/tokens", "delegation tokens"),
        ("/transaction?id=nobody", "There is no transactional id nobody."),
    ):
        page = visitor.get(path)
        assert page.status in {200, 404}
        assert sentence in page.text


def test_rules_come_and_go(fresh_broker: Callable[..., BrokerProcess]) -> None:
    broker = fresh_broker(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer", super_users="User:ANONYMOUS"
    )
    with console(broker.bootstrap) as address:
        visitor = Visitor(address)
        form = {"principal": "User:alice", "operation": "read", "resource": "topic", "name": "orders"}
        assert visitor.post("/access/new", visitor.get("/access/new"), **form).status == 303
        expected = ["● allow", "User:alice", "*", "read", "topic", "orders", "literal", "Remove"]
        wait_for(lambda: visitor.get("/access").cells[8:] == expected, "the rule is there")
        path = "/access/remove?rule=allow&principal=User:alice&host=*&operation=read&resource=topic&name=orders&pattern=literal"
        assert visitor.post(path, visitor.get(path), typed="User:alice").status == 303
        wait_for(lambda: len(visitor.get("/access").cells) == 9, "the rule is gone")


def test_partitions_records_and_groups(visitor: Visitor, bootstrap: str, unique: Unique) -> None:
    topic, group = made(bootstrap, 1), unique("gone")
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"a", partition=0)
    producer.produce(topic, b"b", partition=0)
    assert producer.flush(60) == 0
    path = f"/topics/{topic}/delete-records"
    wait_for(lambda: visitor.get(path).status == 200, "the console knows the topic")
    assert visitor.post(path, visitor.get(path), typed=topic, partition="0", offset="1").status == 303
    assert visitor.get(f"/topics/{topic}").cells[13:16] == ["1", "2", "2"]
    path = f"/topics/{topic}/partitions"
    assert visitor.post(path, visitor.get(path), partitions="2").status == 303
    wait_for(lambda: visitor.get(f"/topics/{topic}").cells[9::9] == ["0", "1"], "the partition is there")
    with Consumer({"bootstrap.servers": bootstrap, "group.id": group}) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    path = f"/group/forget?id={group}&topic={topic}"
    assert visitor.post(path, visitor.get(path), typed="no", topic=topic).status == 400
    assert visitor.post(path, visitor.get(path), typed=group, topic=topic).status == 303
    assert topic not in visitor.get(f"/group?id={group}").cells
    path = f"/group/delete?id={group}"
    assert visitor.post(path, visitor.get(path), typed=group).status == 303
    assert visitor.get(f"/group?id={group}").status == 404
