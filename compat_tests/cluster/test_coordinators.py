"""Groups and transactions in a cluster of brokers of ottla and Apache Kafka 4.4.0 whose internal topics have three replicas: what
was committed survives any node, and records that are copied in transactions are there once, whoever coordinates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from compat_tests.cluster.mixed import Mixed
from compat_tests.topics import committed_records
from compat_tests.waiting import wait_for

OTTLA_1, OTTLA_2, KAFKA = 1, 2, 3
NODES = (OTTLA_1, OTTLA_2, KAFKA)
PARTITIONS = 3
SETTINGS = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": str(PARTITIONS),
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}
SPREAD = [[OTTLA_1, OTTLA_2, KAFKA], [OTTLA_2, KAFKA, OTTLA_1], [KAFKA, OTTLA_1, OTTLA_2]]
"""Replicas by partition: each broker leads one."""
IDS = ("a", "b", "c")
"""Ids that Java's hash puts into the partitions 1, 2 and 0 of three."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    mixed = Mixed(tmp_path_factory.mktemp("coordinators"), ["ottla", "ottla", "kafka"], SETTINGS)
    mixed.start()
    try:
        yield mixed
    finally:
        mixed.stop()


class Copier:
    """Copies a topic into another, record for record, in transactions that commit where its group has read to."""

    def __init__(self, cluster: Mixed, source: str, target: str, name: str, protocol: str) -> None:
        self.target = target
        self.consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": f"{source}-{name}", "group.protocol": protocol}
            | {"enable.auto.commit": False, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        )
        self.consumer.subscribe([source])
        self.producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "transaction.timeout.ms": 20_000, "linger.ms": 0}
            # librdkafka sends offsets to the group's coordinator that it knows, and waits for it if it is dead, until it has not
            # used this knowledge for so long.
            | {"metadata.max.age.ms": 2_000, "topic.metadata.refresh.interval.ms": 1_000}
        )
        self.producer.init_transactions(60)
        self.copied = 0

    def copy(self, most: int) -> int:
        """Copies up to `most` records in one transaction; returns how many."""
        records = [record for record in self.consumer.consume(most, 1.0) if record.error() is None]
        if not records:
            return 0
        self.producer.begin_transaction()
        try:
            for record in records:
                partition = record.partition()
                assert partition is not None
                self.producer.produce(self.target, record.value(), record.key(), partition=partition)
            self.producer.send_offsets_to_transaction(
                self.consumer.position(self.consumer.assignment()), self.consumer.consumer_group_metadata(), 60
            )
            self.producer.commit_transaction(60)
        except KafkaException as error:
            failure = error.args[0]
            assert isinstance(failure, KafkaError)
            if failure.retriable():
                raise
            assert failure.txn_requires_abort(), failure
            self.producer.abort_transaction(60)
            for position in self.consumer.committed(self.consumer.assignment(), 60):
                self.consumer.seek(TopicPartition(position.topic, position.partition, max(position.offset, 0)))
            return 0
        self.copied += len(records)
        return len(records)

    def close(self) -> None:
        self.consumer.close()


def fill(cluster: Mixed, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def values(cluster: Mixed, topic: str) -> Counter[int]:
    """Returns what a reader of committed records finds."""
    return Counter(int(message.value() or b"") for message in committed_records(cluster.bootstrap, topic, PARTITIONS))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_copies_in_transactions_are_exact_whoever_coordinates(cluster: Mixed, protocol: str) -> None:
    source, target = f"source-{protocol}", f"target-{protocol}"
    cluster.create(source, SPREAD)
    cluster.create(target, SPREAD)
    fill(cluster, source, 300)
    for name in IDS:  # each has another coordinator
        copier = Copier(cluster, source, target, name, protocol)
        try:
            while copier.copied < 300:
                copier.copy(40)
        finally:
            copier.close()
    assert values(cluster, target) == Counter({number: len(IDS) for number in range(300)})
    led = {leader for leader, _ in cluster.state("__transaction_state")}
    assert led == set(NODES)


def test_copies_stay_exact_while_each_node_dies_and_comes_back(cluster: Mixed) -> None:
    cluster.create("source", SPREAD)
    cluster.create("target", SPREAD)
    fill(cluster, "source", 900)
    copiers = [Copier(cluster, "source", "target", f"again-{name}", "classic") for name in IDS]

    def all_reach(wanted: int) -> bool:
        for copier in copiers:
            if copier.copied < wanted:
                copier.copy(30)
        return min(copier.copied for copier in copiers) >= wanted

    try:
        for turn, node in enumerate(NODES, 1):
            cluster.brokers[node].kill()
            wait_for(partial(all_reach, 200 * turn), lambda: f"{[each.copied for each in copiers]}: {cluster.tails()}", 120)
            cluster.brokers[node].start()
            for topic in ("source", "target", "__transaction_state", "__consumer_offsets"):
                cluster.wait_for_isr(topic, SPREAD)
                cluster.elect_preferred(topic, PARTITIONS)
        wait_for(partial(all_reach, 900), lambda: f"{[each.copied for each in copiers]}: {cluster.tails()}", 120)
    finally:
        for copier in copiers:
            copier.close()
    assert values(cluster, "target") == Counter({number: len(IDS) for number in range(900)})


def test_share_groups_keep_their_state_with_a_coordinator_elsewhere(cluster: Mixed) -> None:
    cluster.create("shared", SPREAD)
    fill(cluster, "shared", 300)
    for group in (f"shares-{name}" for name in IDS):
        earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[earliest])
        for altered in cluster.admin.incremental_alter_configs([resource]).values():
            altered.result(30)
        seen: Counter[tuple[int, int]] = Counter()
        for wanted in (100, 300):  # the second member goes on where the first one has left
            consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
            consumer.subscribe(["shared"])
            try:
                wait_for(partial(_take, consumer, seen, wanted), cluster.tails, 90)
                assert not [error for error in consumer.commit_sync(30.0).values() if error is not None]
            finally:
                consumer.close()
        assert seen == Counter({(partition, offset): 1 for partition in range(PARTITIONS) for offset in range(100)})
    assert {leader for leader, _ in cluster.state("__share_group_state")} == set(NODES)


def _take(consumer: ShareConsumer, seen: Counter[tuple[int, int]], wanted: int) -> bool:
    """Polls once; returns whether so many records were delivered."""
    for message in consumer.poll(0.3):
        assert message.error() is None, message.error()
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        seen[partition, offset] += 1
    return sum(seen.values()) >= wanted
