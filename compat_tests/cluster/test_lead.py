"""A broker of ottla leads partitions that a broker of Apache Kafka 4.4.0 follows, in one cluster with a controller of Kafka: the
same bytes on both, followers that fall behind and come back, acks=all and min.insync.replicas.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster.nodes import KafkaBroker, KafkaController, OttlaBroker
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for

KAFKA, OTTLA = 1, 2
SESSION_MS = 10_000
LAG_MS = 1_000


class Nodes:
    """The brokers of the cluster, and a client of it."""

    def __init__(self, kafka: KafkaBroker, ottla: OttlaBroker) -> None:
        self.kafka = kafka
        self.ottla = ottla
        self.bootstrap = f"{kafka.bootstrap},{ottla.bootstrap}"
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, topic: str, replicas: list[int], **settings: str) -> None:
        config = {name.replace("_", "."): value for name, value in settings.items()}
        self.admin.create_topics([NewTopic(topic, 1, replica_assignment=[replicas], config=config)])[topic].result(30)
        self.until(topic, leader=replicas[0], isr=set(replicas))

    def state(self, topic: str) -> tuple[int, list[int], set[int]]:
        """Returns the leader, the replicas and the in-sync replicas, as the cluster has them."""
        partition = self.admin.list_topics(topic, 5).topics[topic].partitions[0]
        return partition.leader, list(partition.replicas), set(partition.isrs)

    def until(self, topic: str, *, leader: int, isr: set[int]) -> None:
        def holds() -> bool:
            try:
                now = self.state(topic)
            except (KafkaException, KeyError):  # asked of the broker that was killed, or before the topic is known there
                return False
            return now[0] == leader and now[2] == isr

        wait_for(
            holds, lambda: f"{topic} is {self.state(topic)}, not led by {leader} with {isr} in sync; {self.ottla.log_tail()}"
        )

    def produce(self, topic: str, texts: list[str], *, acks: str = "all", timeout_s: int = 60) -> list[str]:
        """Returns the texts that were acknowledged."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "acks": acks, "enable.idempotence": acks == "all"}
            | {"message.timeout.ms": timeout_s * 1000, "linger.ms": 0, "batch.num.messages": 20}
        )
        done: list[str] = []

        def delivered(text: str, error: object, message: object) -> None:
            if error is None:
                done.append(text)

        for text in texts:
            producer.produce(topic, text.encode(), on_delivery=partial(delivered, text))
        assert producer.flush(timeout_s + 30) == 0
        return done

    def consume(self, topic: str) -> list[str]:
        """Returns all records of the topic, in their order."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.partition.eof": True})
        found: list[str] = []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while True:
                message = consumer.poll(30)
                assert message is not None, f"{len(found)} records, and no end"
                if message.error() is not None:
                    return found
                found.append((message.value() or b"").decode())
        finally:
            consumer.close()

    def same_bytes(self, topic: str) -> None:
        """Waits until both brokers have the same records and leader epochs on disk."""

        def files(node: BrokerProcess) -> dict[str, bytes]:
            return {path.name: path.read_bytes() for path in sorted((node.data_dir / f"{topic}-0").glob("*.log"))}

        wait_for(lambda: files(self.kafka) == files(self.ottla), f"{topic} has the same bytes on both brokers")
        assert any(files(self.ottla).values())


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A session is longer than the lag after which a follower falls out, so that it is the leader who takes it out."""
    session = {"broker.session.timeout.ms": str(SESSION_MS)}
    controller = KafkaController(tmp_path_factory.mktemp("controller"), session)
    controller.start()
    kafka = KafkaBroker(tmp_path_factory.mktemp("kafka"), KAFKA, controller.bootstrap, session)
    ottla = OttlaBroker(
        tmp_path_factory.mktemp("ottla"), OTTLA, controller.bootstrap, session | {"replica.lag.time.max.ms": str(LAG_MS)}
    )
    try:
        kafka.start()
        ottla.start()
        yield Nodes(kafka, ottla)
    finally:
        for node in (ottla, kafka, controller):
            if node.process is not None:
                node.process.send_signal(signal.SIGCONT)
            node.stop()


def numbered(count: int, prefix: str = "") -> list[str]:
    return [f"{prefix}{number:05}" for number in range(count)]


def test_kafka_follows_byte_for_byte(nodes: Nodes) -> None:
    nodes.create("followed", [OTTLA, KAFKA], min_insync_replicas="2", segment_bytes="1048576")
    texts = numbered(2_000, "x" * 1_000)
    assert sorted(nodes.produce("followed", texts)) == texts
    assert nodes.consume("followed") == texts
    nodes.same_bytes("followed")


def test_a_follower_that_stands_still_is_taken_out_and_comes_back(nodes: Nodes) -> None:
    nodes.create("stopped", [OTTLA, KAFKA], min_insync_replicas="2")
    assert nodes.produce("stopped", ["before"]) == ["before"]
    ottla = AdminClient({"bootstrap.servers": nodes.ottla.bootstrap})
    assert nodes.kafka.process is not None
    nodes.kafka.process.send_signal(signal.SIGSTOP)
    try:
        producer = Producer({"bootstrap.servers": nodes.ottla.bootstrap, "acks": "1"})
        producer.produce("stopped", b"alone")
        assert producer.flush(30) == 0

        def in_sync() -> list[int]:
            return list(ottla.list_topics("stopped", 10).topics["stopped"].partitions[0].isrs)

        wait_for(lambda: in_sync() == [OTTLA], lambda: f"in sync are {in_sync()}")
        refused = Producer({"bootstrap.servers": nodes.ottla.bootstrap, "acks": "all", "retries": 0})
        codes: list[str] = []
        refused.produce("stopped", b"refused", on_delivery=lambda error, message: codes.append(error.name() if error else "none"))
        assert refused.flush(30) == 0
        assert codes == ["NOT_ENOUGH_REPLICAS"]
    finally:
        nodes.kafka.process.send_signal(signal.SIGCONT)
    nodes.until("stopped", leader=OTTLA, isr={KAFKA, OTTLA})
    assert nodes.produce("stopped", ["after"]) == ["after"]
    assert nodes.consume("stopped") == ["before", "alone", "after"]
    nodes.same_bytes("stopped")
