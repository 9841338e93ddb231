"""One broker of ottla joins a controller of Apache Kafka 4.4.0 and serves topics of one replica: the join, clients,
restarts of both, and what keeps a broker from joining: one line, exit code 1, and nothing written.

The controllers take a broker back only when the session of its last start is over, or when it left in order: so a kill -9 costs
`broker.session.timeout.ms`, 2 s here.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from compat_tests.cluster.nodes import CONTROLLER_ID, KafkaController, OttlaBroker, connect
from compat_tests.reference.kafka import CLUSTER_ID, HOST, free_port
from compat_tests.test_apache_tools import Tools
from compat_tests.waiting import collect, wait_for
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.metadata_records import METADATA_VERSION

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


class Unformatted(OttlaBroker):
    """A broker that is told a cluster id for its directory, and is expected to end."""

    cluster_id: str | None = None

    def environment(self) -> dict[str, str]:
        environment = super().environment()
        environment.pop("CLUSTER_ID")
        return environment if self.cluster_id is None else environment | {"CLUSTER_ID": self.cluster_id}

    def last_line(self) -> str:
        """Starts, and returns the last line of what the broker said when it ended with exit code 1."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        done = subprocess.run(
            self.command(), cwd=self.directory, env=self.environment(), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1, done.stderr
        return done.stderr.splitlines()[-1]


def test_another_cluster_is_refused_and_nothing_is_written(controller: KafkaController, tmp_path: Path) -> None:
    stranger = Unformatted(tmp_path, 21, controller.bootstrap)
    stranger.cluster_id = "AAAAAAAAAAAAAAAAAAAAAw"
    said = stranger.last_line()
    assert said.startswith(f"ottla: --cluster-id: {controller.bootstrap} belongs to another cluster than AAAAAAAAAAAAAAAAAAAAAw")
    assert not stranger.data_dir.exists()


def test_a_directory_that_was_formatted_for_another_cluster(controller: KafkaController, tmp_path: Path) -> None:
    stranger = Unformatted(tmp_path, 21, controller.bootstrap)
    stranger.data_dir.mkdir(parents=True)
    meta = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAw\nnode.id=21\ndirectory.id=0PTJG8ptL8_TQgsdUAkd_w\n"
    (stranger.data_dir / "meta.properties").write_text(meta)
    assert stranger.last_line() == (
        f"ottla: {controller.bootstrap} belongs to another cluster than AAAAAAAAAAAAAAAAAAAAAw, for which log.dirs is formatted: "
        "check controller.quorum.bootstrap.servers, or name other log.dirs"
    )


class Unstable(KafkaController):
    """A controller of a cluster that uses what Apache Kafka 4.4.0 has only for trials: the next metadata.version."""

    format_options = ("--standalone", "--feature", f"metadata.version={METADATA_VERSION + 1}")


def test_a_level_above_ours_is_refused(tmp_path: Path) -> None:
    controller = Unstable(tmp_path / "controller", {"unstable.feature.versions.enable": "true"})
    broker = Unformatted(tmp_path / "broker", 21, controller.bootstrap)
    broker.cluster_id = CLUSTER_ID
    controller.start()
    try:
        said = broker.last_line()
    finally:
        controller.stop()
    assert said.startswith(
        "ottla: the controllers refuse node.id 21 with UNSUPPORTED_VERSION: a feature of the cluster is finalized"
    )
    assert f"it has metadata.version 7 to {METADATA_VERSION}" in said
    assert "`kafka-features.sh downgrade` lowers one" in said


def test_a_directory_that_is_not_formatted_is_refused_with_the_command(controller: KafkaController, tmp_path: Path) -> None:
    stranger = Unformatted(tmp_path, 21, controller.bootstrap)
    assert "is not formatted, so its cluster is not known; format it with `ottla format --cluster-id ID" in stranger.last_line()
    assert not stranger.data_dir.exists()


def test_a_directory_of_another_node_is_refused(controller: KafkaController, tmp_path: Path) -> None:
    stranger = Unformatted(tmp_path, 21, controller.bootstrap)
    stranger.data_dir.mkdir(parents=True)
    meta = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=22\ndirectory.id=0PTJG8ptL8_TQgsdUAkd_w\n"
    (stranger.data_dir / "meta.properties").write_text(meta)
    said = stranger.last_line()
    assert f"log.dirs: {stranger.data_dir} belongs to node 22 of cluster {CLUSTER_ID}; this is node 21 of" in said
    assert [path.name for path in stranger.data_dir.iterdir()] == ["meta.properties"]


def test_a_node_id_in_use_is_refused(controller: KafkaController, broker: OttlaBroker, tmp_path: Path) -> None:
    twin = Unformatted(tmp_path, NODE_ID, controller.bootstrap, {"initial.broker.registration.timeout.ms": "3000"})
    twin.cluster_id = CLUSTER_ID
    said = twin.last_line()
    assert said.startswith(f"ottla: node.id {NODE_ID} could not register within 3000 ms (initial.broker.registration.timeout.ms)")
    assert said.endswith(
        "DUPLICATE_BROKER_REGISTRATION; another broker of this node.id seems to run: stop it, or give this one another node.id"
    )


def test_without_a_controller_it_goes_on_trying_and_writes_nothing(tmp_path: Path) -> None:
    waiting = Unformatted(tmp_path, 23, f"{HOST}:{free_port()}")
    waiting.cluster_id = CLUSTER_ID
    waiting.properties.write_text("".join(f"{key}={value}\n" for key, value in waiting.settings.items()))
    with open(waiting.log_file, "wb") as log:
        waiting.process = waiting.spawn(log)
    try:
        said = "no controller has answered for"
        wait_for(lambda: said in waiting.log_file.read_text(), waiting.log_tail)
        assert waiting.process.poll() is None
        assert not waiting.answers()
        assert not waiting.data_dir.exists()
    finally:
        assert waiting.stop() == 0


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_outlives_its_controller(tmp_path: Path, how: str) -> None:
    controller = KafkaController(tmp_path / "controller")
    controller.start()
    broker = OttlaBroker(tmp_path / "broker", NODE_ID, controller.bootstrap)
    try:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("before", 1, 1)])["before"].result(30)
        produce(broker, "before", ["a"])  # which brings a block of producer ids: without a controller there are no new ones
        getattr(controller, how)()
        produce(broker, "before", ["b"])
        controller.start()
        admin.create_topics([NewTopic("after", 1, 1)])["after"].result(60)
        produce(broker, "after", ["again"])
        assert consume(broker, "before", f"readers-{how}", 2) == ["a", "b"]
        assert broker.stop() == 0
    finally:
        broker.kill()
        controller.stop()


def test_a_reassignment_goes_to_the_controllers(broker: OttlaBroker) -> None:
    """Both ways: the answer about a broker that does not exist is the controllers', and so is the list of what moves."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("moved", 1, 1)])["moved"].result(30)
    connection = connect(broker)
    try:
        asked = ReassignableTopic("moved", [ReassignablePartition(0, [NODE_ID, 99])])
        answer = connection.call(AlterPartitionReassignmentsRequest(5000, True, [asked]), 1)
        (refused,) = answer.responses[0].partitions
        assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert not refused.error_message.startswith("There are no brokers"), "these are our own words"
        assert connection.call(ListPartitionReassignmentsRequest(5000), 0).topics == []
    finally:
        connection.close()
