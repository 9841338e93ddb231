"""ottla follows one leader of Apache Kafka after another: what a dead leader gave only to ottla is cut, as by Kafka's followers.

Two brokers of Kafka and one of ottla have the replicas. While Kafka's follower is paused, for less than its session, the leader
takes records that only ottla fetches, and is killed: the other broker of Kafka then leads, without these records. The same the
other way round: ottla leads, takes records that nobody fetches, is killed, and comes back as a follower.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster.nodes import KafkaBroker, KafkaController, OttlaBroker
from compat_tests.cluster.producing import produce
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for

FIRST, OTTLA, SECOND = 1, 2, 3
SESSION = {"broker.session.timeout.ms": "6000"}
"""Long enough for a pause in which records are produced and fetched, on a busy machine."""


class Trio:
    def __init__(self, directory: Path) -> None:
        self.controller = KafkaController(directory / "controller", SESSION)
        controllers = self.controller.bootstrap
        self.kafkas = {node: KafkaBroker(directory / f"kafka-{node}", node, controllers, SESSION) for node in (FIRST, SECOND)}
        self.ottla = OttlaBroker(directory / "ottla", OTTLA, controllers, SESSION | {"replica.fetch.backoff.ms": "200"})
        self.clients: dict[str, AdminClient] = {}

    @property
    def nodes(self) -> list[BrokerProcess]:
        return [self.controller, *self.kafkas.values(), self.ottla]

    def partition(self, through: int, topic: str) -> tuple[int, list[int]]:
        """The leader and the in-sync replicas, as one of the brokers has them."""
        bootstrap = self.kafkas[through].bootstrap
        admin = self.clients.setdefault(bootstrap, AdminClient({"bootstrap.servers": bootstrap}))
        found = admin.list_topics(topic, 30).topics[topic].partitions[0]
        return found.leader, sorted(found.isrs)

    def wait_for(self, through: int, topic: str, leader: int, isr: list[int]) -> None:
        wait_for(
            lambda: self.partition(through, topic) == (leader, isr),
            lambda: f"{self.partition(through, topic)}\n{self.ottla.log_tail()}",
        )

    def wait_until_equal(self, node: int, topic: str) -> bytes:
        """Waits until ottla's segment is that of a broker of Kafka, and returns it."""

        def read(broker: BrokerProcess) -> bytes:
            path = broker.data_dir / f"{topic}-0" / "00000000000000000000.log"
            return path.read_bytes() if path.exists() else b""

        leader = self.kafkas[node]
        wait_for(
            lambda: read(leader) and read(leader) == read(self.ottla),
            lambda: f"{len(read(leader))} and {len(read(self.ottla))} bytes\n{self.ottla.log_tail()}",
        )
        return read(leader)


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    made = Trio(tmp_path_factory.mktemp("elections"))
    try:
        for node in made.nodes:
            node.start()
        yield made
    finally:
        for node in reversed(made.nodes):
            node.stop()


def test_what_only_ottla_had_as_the_leader_is_cut_when_it_comes_back(trio: Trio) -> None:
    topic = "deposed"
    first, ottla = trio.kafkas[FIRST], trio.ottla
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[OTTLA, FIRST]])])[topic].result(30)
    produce(ottla.bootstrap, topic, 50)
    trio.wait_for(FIRST, topic, OTTLA, [FIRST, OTTLA])
    common = trio.wait_until_equal(FIRST, topic)
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    try:
        produce(ottla.bootstrap, topic, 1, acks=1)  # the answer to a Fetch that the paused broker had sent
        produce(ottla.bootstrap, topic, 20, acks=1)
        longer = (ottla.data_dir / f"{topic}-0" / "00000000000000000000.log").read_bytes()
        ottla.kill()
    finally:
        first.process.send_signal(signal.SIGCONT)
    trio.wait_for(FIRST, topic, FIRST, [FIRST])
    produce(first.bootstrap, topic, 10)
    ottla.start()
    trio.wait_for(FIRST, topic, FIRST, [FIRST, OTTLA])
    found = trio.wait_until_equal(FIRST, topic)
    assert found.startswith(common)
    assert len(longer) > len(common)
    assert not found.startswith(longer)


def test_what_only_ottla_had_of_a_dead_leader_is_cut(trio: Trio) -> None:
    topic = "diverging"
    first, second = trio.kafkas[FIRST], trio.kafkas[SECOND]
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[FIRST, SECOND, OTTLA]])])[topic].result(30)
    produce(first.bootstrap, topic, 50)
    trio.wait_for(FIRST, topic, FIRST, [FIRST, OTTLA, SECOND])
    common = trio.wait_until_equal(FIRST, topic)
    assert second.process is not None
    second.process.send_signal(signal.SIGSTOP)
    try:
        produce(first.bootstrap, topic, 1, acks=1)  # the answer to a Fetch that the paused broker had sent
        trio.wait_until_equal(FIRST, topic)
        produce(first.bootstrap, topic, 20, acks=1)
        longer = trio.wait_until_equal(FIRST, topic)
        first.kill()
    finally:
        second.process.send_signal(signal.SIGCONT)
    assert len(longer) > len(common)
    trio.wait_for(SECOND, topic, SECOND, [OTTLA, SECOND])
    produce(second.bootstrap, topic, 10)
    found = trio.wait_until_equal(SECOND, topic)
    assert found.startswith(common)
    assert not found.startswith(longer)
    first.start()
    trio.wait_for(SECOND, topic, SECOND, [FIRST, OTTLA, SECOND])
    assert (first.data_dir / f"{topic}-0" / "00000000000000000000.log").read_bytes() == found
    for broker in (trio.ottla, first, second):
        broker.stop()
    places = [broker.data_dir / f"{topic}-0" for broker in (first, second, trio.ottla)]
    (epochs,) = {(place / "leader-epoch-checkpoint").read_text() for place in places}
    assert re.fullmatch(r"0\n2\n0 0\n1 5[01]\n", epochs), epochs
