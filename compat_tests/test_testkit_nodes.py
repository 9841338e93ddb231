"""Simulated nodes of the test kit (docs/testkit.md), as stock clients see them: leaders and coordinators that move under load."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla.testing
from compat_tests.copiers import BATCH_RECORDS, PARTITIONS, SOURCE, Copier, JavaCopier, KafkaPythonCopier
from compat_tests.java_client import Java, running
from compat_tests.reference import jvm
from compat_tests.testkit_port import Served
from compat_tests.waiting import collect

LEADER_MOVES: Final = 100
COORDINATOR_MOVES: Final = 20
NODES: Final = (1, 2, 3)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("java")) as program:
        yield program


class Errors(list[str]):
    """The errors that a client reports to its application, but for what says only that a connection ended."""

    def add(self, error: KafkaError) -> None:
        if error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self.append(str(error))


def test_librdkafka_follows_leaders_and_coordinators_under_load() -> None:
    errors = Errors()
    delivered: list[bytes] = []

    def deliver(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            errors.append(str(error))
        delivered.append(message.value())

    with ottla.testing.Broker(nodes=3) as broker:
        broker.create_topic("orders", 3)
        names = {"bootstrap.servers": broker.bootstrap, "error_cb": errors.add, "log_level": 0}
        producer = Producer({**names, "linger.ms": 0, "enable.idempotence": True})
        consumer = Consumer({**names, "group.id": "billing", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 50})
        consumer.subscribe(["orders"])
        read: list[bytes] = []

        def poll() -> list[bytes]:
            messages = consumer.consume(1000, 0.02)
            errors.extend(str(message.error()) for message in messages if message.error())
            return [message.value() or b"" for message in messages]

        for turn in range(LEADER_MOVES):
            for partition in range(3):
                producer.produce("orders", f"{turn}-{partition}".encode(), partition=partition, on_delivery=deliver)
            broker.move_leader("orders", turn % 3, to=NODES[turn // 3 % 3])
            if turn % (LEADER_MOVES // COORDINATOR_MOVES) == 0:
                broker.move_coordinator(group="billing", to=NODES[turn // 5 % 3])
            producer.poll(0)
            read += poll()
        assert producer.flush(30) == 0
        read += collect(poll, 3 * LEADER_MOVES - len(read))
        assert len(read) == len(set(read)) == len(delivered)
        assert set(read) == set(delivered)
        consumer.close()
    assert errors == []


COPIERS: Final[dict[str, Callable[[str, Java], Copier]]] = {
    "java": lambda bootstrap, java: JavaCopier(java.at(bootstrap), "copy"),
    "kafka-python": lambda bootstrap, java: KafkaPythonCopier(bootstrap, "copy"),
}


@pytest.mark.parametrize("client", COPIERS)
def test_transactions_go_on_while_leaders_and_coordinators_move(client: str, java: Java) -> None:
    """A copier reads as a member of a group, and writes in transactions with the group's offsets. It is told of no error, and
    each record is copied once."""
    count = COORDINATOR_MOVES * BATCH_RECORDS // 2
    with ottla.testing.Broker(nodes=3) as broker:
        for topic in (SOURCE, "copy"):
            broker.create_topic(topic, len(PARTITIONS))
        filler = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(count):
            filler.produce(SOURCE, str(number).encode(), partition=number % len(PARTITIONS))
        assert filler.flush(30) == 0
        for topic, index in itertools.product((SOURCE, "copy"), PARTITIONS):
            broker.move_leader(topic, index, to=1)
        places = itertools.cycle(itertools.product(NODES[1:] + NODES[:1], (SOURCE, "copy"), PARTITIONS))
        nodes = itertools.cycle(NODES)
        moves = 0

        def move(**coordinator: str) -> None:
            """Moves three leaders and a coordinator."""
            nonlocal moves
            for _ in range(3):
                node, topic, index = next(places)
                broker.move_leader(topic, index, to=node)
            broker.move_coordinator(**coordinator, to=next(nodes))
            moves += 1

        copier = COPIERS[client](broker.bootstrap, java)
        copier.open()
        copied = 0
        while copied < count or 3 * moves < LEADER_MOVES or moves < COORDINATOR_MOVES:
            found = copier.read() if copied < count else []
            if copied < count and not found:
                continue
            move(group="copy")
            if found:
                positions = {partition: at + 1 for partition, at, _ in found}
                copier.write([(partition, value) for partition, _, value in found], positions)
                move(transactional_id="copy")
                copier.commit()
                copied += len(found)
        copier.close()
        reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "r", "isolation.level": "read_committed"})
        reader.assign([TopicPartition("copy", index, 0) for index in PARTITIONS])
        copies = collect(lambda: [message.value() for message in reader.consume(1000, 0.2) if not message.error()], count)
        reader.close()
        assert sorted(map(int, copies)) == list(range(count))


def test_a_served_broker_shows_three_nodes_to_tools_and_says_that_they_are_simulated(tmp_path: Path) -> None:
    served = Served(tmp_path, "--test-nodes", "3")
    ports = served.bootstrap.split(",")
    assert len(ports) == 3
    served.call("PUT", "/v1/topics/orders", {"partitions": 3})
    for index in range(3):
        served.call("POST", f"/v1/partitions/orders/{index}", {"leader": index + 1})
    served.call("POST", "/v1/nodes/2", {"rack": "b"})
    served.call("POST", "/v1/nodes/3", {"state": "down"})
    state = served.call("GET", "/v1/state")
    assert state["simulated"]
    assert state["cluster_id"].startswith("SIMULATED3-")
    metadata = AdminClient({"bootstrap.servers": served.bootstrap, "log_level": 0}).list_topics(timeout=30)
    assert metadata.cluster_id == state["cluster_id"]
    assert sorted(metadata.brokers) == [1, 2]
    served.call("POST", "/v1/nodes/3", {"state": "up"})
    served.call("POST", "/v1/partitions/orders/2", {"leader": 3})
    command = [*jvm.java("kafka-tools"), "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", served.bootstrap]
    shown = subprocess.run([*command, "--describe", "--topic", "orders"], capture_output=True, text=True, timeout=60, check=True)
    lines = [line.split("\t") for line in shown.stdout.splitlines() if "Partition:" in line]
    leaders = [next(cell for cell in line if cell.startswith("Leader:")) for line in lines]
    assert leaders == ["Leader: 1", "Leader: 2", "Leader: 3"]
    served.end()
    text = served.log.read_text()
    assert "3 SIMULATED nodes" in text
    assert f"bootstrap {served.bootstrap}" in text
    assert "its 3 nodes are simulated" in text


def test_nodes_need_a_test_port(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla", "--port", "0", "--test-nodes", "3", "--data-dir", str(tmp_path / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "ottla.test.nodes: nodes are simulated only for a test; give the broker a test port (--test-port 0)" in ended.stderr
