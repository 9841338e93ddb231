"""One broker of ottla joins a controller of Apache Kafka 4.4.0 and serves topics of one replica: the join, clients, a restart.

The controllers take a broker back only when the session of its last start is over, or when it left in order: so a kill -9 costs
`broker.session.timeout.ms`, 2 s here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from compat_tests.cluster.nodes import CONTROLLER_ID, KafkaController, OttlaBroker
from compat_tests.reference.kafka import CLUSTER_ID
from compat_tests.test_apache_tools import Tools
from compat_tests.waiting import collect, wait_for

NODE_ID = 1
RECORDS = 200


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaController]:
    process = KafkaController(tmp_path_factory.mktemp("controller"))
    process.start()
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="module")
def broker(controller: KafkaController, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBroker]:
    process = OttlaBroker(tmp_path_factory.mktemp("broker"), NODE_ID, controller.bootstrap)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def produce(broker: OttlaBroker, topic: str, texts: list[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "enable.idempotence": True})
    failed: list[object] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(error)

    for text in texts:
        producer.produce(topic, text.encode(), on_delivery=delivered)
    assert producer.flush(60) == 0
    assert not failed


def consume(broker: OttlaBroker, topic: str, group: str, count: int) -> list[str]:
    """Reads so many records by a group that commits them."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    try:
        consumer.subscribe([topic])
        records = collect(lambda: consumer.consume(count, 0.5), count)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(record.value().decode() for record in records)


def test_the_cluster_is_seen_through_the_broker(controller: KafkaController, broker: OttlaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    cluster = admin.describe_cluster().result(30)
    assert cluster.cluster_id == CLUSTER_ID
    assert [(node.id, node.port) for node in cluster.nodes] == [(NODE_ID, broker.port)]
    path = broker.data_dir / "__cluster_metadata-0" / "quorum-state"

    def saved() -> tuple[int, int]:
        quorum = json.loads(path.read_text())
        return quorum["leaderId"], quorum["data_version"]

    wait_for(lambda: saved() == (CONTROLLER_ID, 1), lambda: f"quorum-state has {saved()}")


def test_a_topic_made_through_the_broker_is_produced_to_and_fetched(broker: OttlaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("made", 3, 1, config={"retention.ms": "600000"})])["made"].result(30)
    texts = [f"{n:04}" for n in range(RECORDS)]
    produce(broker, "made", texts)
    assert consume(broker, "made", "readers", RECORDS) == texts
    admin.create_partitions([NewPartitions("made", 5)])["made"].result(30)
    wait_for(lambda: len(admin.list_topics("made", 10).topics["made"].partitions) == 5, "five partitions")
    admin.delete_topics(["made"])["made"].result(30)
    wait_for(lambda: "made" not in admin.list_topics(timeout=10).topics, "the topic is gone")


def test_a_topic_is_made_by_kafka_topics_and_one_on_demand(broker: OttlaBroker) -> None:
    tools = Tools(broker.bootstrap)
    assert "Created topic tooled" in tools.run("topics", "--create", "--topic", "tooled", "--partitions", "2")
    described = tools.run("topics", "--describe", "--topic", "tooled")
    assert len(re.findall(rf"Partition:\s*\d\s+Leader:\s*{NODE_ID}\s+Replicas:\s*{NODE_ID}\s+Isr:\s*{NODE_ID}", described)) == 2
    produce(broker, "tooled", ["a", "b"])
    produce(broker, "on-demand", ["c"])
    assert consume(broker, "tooled", "tooled-readers", 2) == ["a", "b"]
    assert consume(broker, "on-demand", "on-demand-readers", 1) == ["c"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_starts_again_has_its_partitions_back(controller: KafkaController, tmp_path: Path, how: str) -> None:
    node_id = {"stop": 11, "kill": 12}[how]
    broker = OttlaBroker(tmp_path, node_id, controller.bootstrap)
    topic = f"again-{how}"
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(topic, 1, replica_assignment=[[node_id]])])[topic].result(30)
        produce(broker, topic, ["before"])
        if how == "stop":
            assert broker.stop() == 0
            assert (broker.data_dir / ".kafka_cleanshutdown").exists()
        else:
            broker.kill()
        broker.start()
        produce(broker, topic, ["after"])
        assert consume(broker, topic, f"{topic}-readers", 2) == ["after", "before"]
        metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(topic, 30)
        assert metadata.topics[topic].partitions[0].leader == node_id
    finally:
        broker.stop()


def test_another_cluster_is_refused_and_nothing_is_served(controller: KafkaController, tmp_path: Path) -> None:
    class Stranger(OttlaBroker):
        def environment(self) -> dict[str, str]:
            return super().environment() | {"CLUSTER_ID": "AAAAAAAAAAAAAAAAAAAAAw"}

    stranger = Stranger(tmp_path, 21, controller.bootstrap)
    with pytest.raises(RuntimeError, match="belongs to another cluster than AAAAAAAAAAAAAAAAAAAAAw"):
        stranger.start()
