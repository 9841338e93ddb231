"""Groups and transactions in a cluster of brokers of ottla and Apache Kafka 4.4.0 whose internal topics have three replicas: what
was committed survives any node, records that are copied in transactions are there once, whoever coordinates, and a transaction
that hangs in a partition is found and ended although its coordinator is on another node than the partition's leader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from compat_tests.cluster.copying import Copier, committed_values, fill
from compat_tests.cluster.mixed import Mixed
from compat_tests.test_apache_tools import Tools
from compat_tests.waiting import wait_for
from compat_tests.wire import batch
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

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


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_copies_in_transactions_are_exact_whoever_coordinates(cluster: Mixed, protocol: str) -> None:
    source, target = f"source-{protocol}", f"target-{protocol}"
    cluster.create(source, SPREAD)
    cluster.create(target, SPREAD)
    fill(cluster, source, 300, PARTITIONS)
    for name in IDS:  # each has another coordinator
        copier = Copier(cluster, source, target, name, protocol)
        try:
            while copier.copied < 300:
                copier.copy(40)
        finally:
            copier.close()
    assert committed_values(cluster, target, PARTITIONS) == Counter({number: len(IDS) for number in range(300)})
    led = {leader for leader, _ in cluster.state("__transaction_state")}
    assert led == set(NODES)


def test_copies_stay_exact_while_each_node_dies_and_comes_back(cluster: Mixed) -> None:
    cluster.create("source", SPREAD)
    cluster.create("target", SPREAD)
    fill(cluster, "source", 900, PARTITIONS)
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
    assert committed_values(cluster, "target", PARTITIONS) == Counter({number: len(IDS) for number in range(900)})


def test_share_groups_keep_their_state_with_a_coordinator_elsewhere(cluster: Mixed) -> None:
    cluster.create("shared", SPREAD)
    fill(cluster, "shared", 300, PARTITIONS)
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


class Hanging:
    """A transaction without an end: its coordinator has committed what it knew of, and a late batch came after the marker, to a
    partition that did not ask. Its record is at offset 2, behind one record and the marker."""

    def __init__(self, cluster: Mixed, topic: str, partition: int, coordinator: int) -> None:
        self.cluster, self.topic, self.partition = cluster, topic, partition
        self.leader, self.coordinator = SPREAD[partition][0], coordinator
        states = cluster.state("__transaction_state")
        self.name = next(name for name in "abcdefghi" if states[ord(name) % PARTITIONS][0] == coordinator)
        self.producer_id, self.epoch, self._sequence = -1, -1, 0
        wait_for(self._begin, cluster.tails)

    def _begin(self) -> bool:
        """Returns whether the coordinator, which may be loading yet, has given it a producer id."""
        begun = self.cluster.call(self.coordinator, InitProducerIdRequest(self.name, 60_000), 4)
        self.producer_id, self.epoch = begun.producer_id, begun.producer_epoch
        return bool(begun.error_code == 0)

    def add(self) -> None:
        """Has the coordinator know the partition."""
        topics = [AddPartitionsToTxnTopic(self.topic, [self.partition])]
        answer = self.cluster.call(
            self.coordinator, AddPartitionsToTxnRequest([], self.name, self.producer_id, self.epoch, topics), 3
        )
        (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert result.partition_error_code == 0, answer

    def write(self) -> bool:
        """Returns whether the partition took the next record."""
        records = batch(
            b"v", producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=self._sequence, transactional=True
        )
        data = TopicProduceData(self.topic, partition_data=[PartitionProduceData(self.partition, records)])
        answer = self.cluster.call(self.leader, ProduceRequest(self.name, -1, 30_000, [data]), 9)
        code: int = answer.responses[0].partition_responses[0].error_code
        self._sequence += code == 0
        return code == 0

    def commit(self) -> None:
        request = EndTxnRequest(self.name, self.producer_id, self.epoch, True)
        assert self.cluster.call(self.coordinator, request, 4).error_code == 0

    def stable(self) -> tuple[int, list[int]]:
        """Returns up to where a reader of committed records may read, and where the aborted transactions begin."""
        wanted = FetchPartition(self.partition, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(max_bytes=1 << 20, isolation_level=1, topics=[FetchTopic(self.topic, partitions=[wanted])])
        (data,) = self.cluster.call(self.leader, request, 12).responses[0].partitions
        assert data.error_code == 0, data
        return data.last_stable_offset, [each.first_offset for each in data.aborted_transactions or ()]

    def wait_until_stable(self, offset: int, aborted: list[int]) -> None:
        wait_for(lambda: self.stable() == (offset, aborted), lambda: f"{self.stable()}\n{self.cluster.tails()}")


def verify_partitions(cluster: Mixed, value: str) -> None:
    """Has all brokers ask, or not ask, whether a partition belongs to a transaction."""
    config = AlterableConfig("transaction.partition.verification.enable", 0, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.BROKER.value, "", [config])])
    assert [each.error_code for each in cluster.call(OTTLA_1, request, 1).responses] == [0]


def test_hanging_transactions_are_found_and_ended_over_nodes(cluster: Mixed) -> None:
    """Each partition is led by another node than that of its transaction's coordinator. A transaction that is open, and known to
    its coordinator, is not taken for one that hangs."""
    cluster.create("hanging", SPREAD)
    Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "makes the topic"}).init_transactions(60)
    cluster.wait_for_isr("__transaction_state", [NODES] * PARTITIONS)
    hanging = [Hanging(cluster, "hanging", at, SPREAD[at][1]) for at in range(PARTITIONS)]
    for each in hanging:
        each.add()
        assert each.write()
        each.commit()
        each.wait_until_stable(2, [])
    verify_partitions(cluster, "false")
    try:
        for each in hanging:
            wait_for(each.write, cluster.tails)
    finally:
        verify_partitions(cluster, "true")
    known = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "known"})
    known.init_transactions(60)
    known.begin_transaction()
    for at in range(PARTITIONS):
        known.produce("hanging", b"v", partition=at)
    assert known.flush(60) == 0
    tools = Tools(cluster.bootstrap)
    listed = tools.run("transactions", "find-hanging", "--broker-id", str(KAFKA), "--max-transaction-timeout", "0")
    found = [line.split() for line in listed.splitlines() if line.startswith("hanging")]
    assert sorted((each[1], each[2], each[5]) for each in found) == [
        (str(each.partition), str(each.producer_id), "2") for each in hanging
    ], listed
    for each in hanging:
        assert each.stable() == (2, [])
        tools.run("transactions", "abort", "--topic", "hanging", "--partition", str(each.partition), "--start-offset", "2")
        assert each.stable() == (3, [2])
    known.commit_transaction(60)
    for each in hanging:
        each.wait_until_stable(6, [2])
