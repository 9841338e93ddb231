"""A broker of ottla leads partitions that a broker of Apache Kafka 4.4.0 follows, in one cluster with a controller of Kafka: the
same bytes on both, followers that fall behind and come back, acks=all and min.insync.replicas, a leader that is killed, and moves
with Kafka's own tool. No record that was acknowledged is lost.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from compat_tests.cluster.nodes import KafkaBroker, KafkaController, OttlaBroker, connect
from compat_tests.commands import ottla
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.test_apache_tools import Tools
from compat_tests.waiting import wait_for
from compat_tests.wire import Connection
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

KAFKA, OTTLA = 1, 2
SESSION_MS = 10_000
LAG_MS = 3_000


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

    def connect(self) -> Connection:
        """Returns a connection to ottla."""
        return connect(self.ottla)

    def consume(self, topic: str, first: int = 0, rack: str = "") -> list[str]:
        """Returns all records of the topic from an offset on, in their order."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.partition.eof": True, "client.rack": rack}
        )
        found: list[str] = []
        try:
            consumer.assign([TopicPartition(topic, 0, first)])
            while True:
                message = consumer.poll(30)
                assert message is not None, f"{len(found)} records, and no end"
                if message.error() is not None:
                    return found
                found.append((message.value() or b"").decode())
        finally:
            consumer.close()

    def ottla_and_kafka_describe(self, topic: str, *, lag: int, end: int) -> None:
        """Has `ottla topic describe` ask both brokers."""
        (described,) = ottla("topic", "describe", topic, "--json", bootstrap=self.kafka.bootstrap).objects
        (partition,) = described[0]["partitions"] if isinstance(described, list) else described["partitions"]
        assert (partition["leader"], partition["lag"], partition["end_offset"]) == (OTTLA, {str(KAFKA): lag}, end)

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
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    controller = KafkaController(tmp_path_factory.mktemp("controller"), session)
    controller.start()
    kafka = KafkaBroker(tmp_path_factory.mktemp("kafka"), KAFKA, controller.bootstrap, session | {"broker.rack": "east"})
    settings = session | {"broker.rack": "west", "replica.selector.class": selector, "replica.lag.time.max.ms": str(LAG_MS)}
    ottla = OttlaBroker(tmp_path_factory.mktemp("ottla"), OTTLA, controller.bootstrap, settings)
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
    nodes.ottla_and_kafka_describe("followed", lag=0, end=len(texts))


def test_deleted_records_are_gone_on_the_follower_when_the_answer_comes(nodes: Nodes) -> None:
    nodes.create("shortened", [OTTLA, KAFKA])
    texts = numbered(50)
    assert nodes.produce("shortened", texts) == texts
    connection = nodes.connect()
    try:
        partitions = [DeleteRecordsPartition(0, 20)]
        answer = connection.call(DeleteRecordsRequest([DeleteRecordsTopic("shortened", partitions)], 30_000), 2)
        (result,) = answer.topics[0].partitions
        assert (result.error_code, result.low_watermark) == (0, 20)
    finally:
        connection.close()
    checkpoint = AdminClient({"bootstrap.servers": nodes.kafka.bootstrap})
    found = checkpoint.list_offsets({TopicPartition("shortened", 0): OffsetSpec.earliest()})
    assert found[TopicPartition("shortened", 0)].result(30).offset == 20
    assert nodes.consume("shortened", 20) == texts[20:]


def test_a_consumer_is_sent_to_the_replica_in_its_rack(nodes: Nodes) -> None:
    nodes.create("nearby", [OTTLA, KAFKA])
    texts = numbered(20)
    assert nodes.produce("nearby", texts) == texts
    connection = nodes.connect()
    try:

        def preferred(rack: str) -> int:
            topics = [FetchTopic("nearby", partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])]
            answer = connection.call(FetchRequest(max_wait_ms=0, rack_id=rack, topics=topics), 12)
            (data,) = answer.responses[0].partitions
            assert data.error_code == 0
            return int(data.preferred_read_replica)

        wait_for(lambda: preferred("east") == KAFKA, "the follower is known to have the first offset")
        assert [preferred(rack) for rack in ("west", "north", "")] == [-1, -1, -1]
    finally:
        connection.close()
    wait_for(lambda: nodes.consume("nearby", rack="east") == texts, "the follower knows that all of it may be read")


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


def test_a_leader_that_is_killed_comes_back_and_leads_again(nodes: Nodes) -> None:
    nodes.create("killed", [OTTLA, KAFKA])
    acknowledged = nodes.produce("killed", numbered(200, "a"))
    nodes.ottla.kill()
    nodes.until("killed", leader=KAFKA, isr={KAFKA})
    acknowledged += nodes.produce("killed", numbered(200, "b"))
    nodes.ottla.start()
    nodes.until("killed", leader=KAFKA, isr={KAFKA, OTTLA})
    nodes.same_bytes("killed")
    partition = TopicPartition("killed", 0)
    elected = nodes.admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(30)
    assert elected[partition] is None
    nodes.until("killed", leader=OTTLA, isr={KAFKA, OTTLA})
    acknowledged += nodes.produce("killed", numbered(200, "c"))
    assert len(acknowledged) == 600
    assert nodes.consume("killed") == acknowledged
    nodes.same_bytes("killed")


def test_kafka_reassign_partitions_moves_a_topic_here_and_back(nodes: Nodes, tmp_path: Path) -> None:
    nodes.create("moved", [KAFKA])
    texts = numbered(500, "y" * 500)
    assert nodes.produce("moved", texts) == texts
    tools = Tools(nodes.kafka.bootstrap)
    for target, name in ((OTTLA, "there"), (KAFKA, "back")):
        plan = tmp_path / f"{name}.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [target]}]}))
        tools.run("reassign-partitions", "--execute", "--reassignment-json-file", str(plan))
        more = numbered(100, name)
        assert nodes.produce("moved", more) == more
        texts += more
        nodes.until("moved", leader=target, isr={target})
        assert nodes.consume("moved") == texts


def test_an_unclean_election_is_the_controllers_and_ottla_recovers(nodes: Nodes) -> None:
    """ottla leads without having been in sync, because an administrator says so, and Kafka cuts what only it had."""
    nodes.create("unclean", [KAFKA, OTTLA])
    assert nodes.produce("unclean", ["both"]) == ["both"]
    nodes.ottla.stop()
    nodes.until("unclean", leader=KAFKA, isr={KAFKA})
    assert nodes.produce("unclean", ["kafka alone"]) == ["kafka alone"]
    nodes.kafka.stop()
    nodes.ottla.start()
    admin = AdminClient({"bootstrap.servers": nodes.ottla.bootstrap})
    partition = TopicPartition("unclean", 0)

    def elected() -> bool:
        try:
            return admin.elect_leaders(ElectionType.UNCLEAN, [partition]).result(30)[partition] is None
        except KafkaException:
            return False

    wait_for(elected, nodes.ottla.log_tail)
    nodes.until("unclean", leader=OTTLA, isr={OTTLA})
    assert nodes.produce("unclean", ["ottla alone"]) == ["ottla alone"]
    nodes.kafka.start()
    nodes.until("unclean", leader=OTTLA, isr={KAFKA, OTTLA})
    assert nodes.consume("unclean") == ["both", "ottla alone"]
    nodes.same_bytes("unclean")
