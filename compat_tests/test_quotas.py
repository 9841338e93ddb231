"""Quotas as clients feel them, on both brokers: their `throttle_time_ms`, what they are answered, and that their
connection is not served until then. Each test is its own client by its id, or its address, so that nobody else is slowed down;
and the brokers are those of quotas only, for other tests see that there are none.

Waits are computed by the broker from what came when, so they are compared with what Kafka's arithmetic allows, not to the
millisecond (tests/server/quotas/test_rates.py does that).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.brokers import CLASSES, Address, SharedBrokers
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import collect, wait_for
from compat_tests.wire import Connection, Wire, batch, encode
from ottla.wire.messages import create_partitions, create_topics, delete_topics, fetch, metadata, produce
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, RequestEntityData, RequestEntryData
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

Unique = Callable[[str], str]
Entity = tuple[tuple[str, str | None], ...]
EXCEEDED = 89
EXACT, DEFAULT = 0, 1
ALL_AT_ONCE_S = 10
"""A client that was quiet may use up what its rate gives in so many seconds."""


class Client(Connection):
    """A connection with a client id of its own, which knows how long its last answer took."""

    def __init__(self, address: Address, client_id: str) -> None:
        super().__init__(address)
        self.client_id = client_id
        self.took_ms = 0.0

    def send(self, request: Any, version: int) -> int:
        self.correlation_id += 1
        self.send_frame(encode(request, version, self.correlation_id, self.client_id))
        return self.correlation_id

    def call(self, request: Any, version: int, timeout_s: float = 30) -> Any:
        began = time.monotonic()
        answer = super().call(request, version, timeout_s)
        self.took_ms = (time.monotonic() - began) * 1000
        return answer


class Rig:
    """One test's clients: all of one id."""

    def __init__(self, broker: Address, name: str) -> None:
        self.broker, self.client_id = broker, name
        self.wire = Wire(broker, name)
        self._clients: list[Client] = []
        self._markers = 0

    def client(self) -> Client:
        self._clients.append(Client(self.broker, self.client_id))
        return self._clients[-1]

    def quota(self, *entity: tuple[str, str | None], **values: float | None) -> None:
        """In force when this returns; None removes. Nobody is the test's client id.

        A Kafka broker describes a quota a moment before it counts; but when it describes the next change, the one before counts.
        """
        whose = entity or (("client-id", self.client_id),)
        self._alter(whose, values)
        self._markers += 1
        self._alter((("client-id", f"{self.client_id}-marker"),), {"producer_byte_rate": float(self._markers)})

    def _alter(self, entity: Entity, values: Mapping[str, float | None]) -> None:
        """Described when this returns."""
        alter(self.wire, entity, values)
        wait_for(lambda: values.items() <= (dict.fromkeys(values) | quotas(self.wire, entity)).items(), "the broker describes it")

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.wire.close()


def alter(wire: Wire, entity: Entity, values: Mapping[str, float | None]) -> None:
    ops = [OpData(key, value or 0.0, value is None) for key, value in values.items()]
    request = AlterClientQuotasRequest([RequestEntryData([RequestEntityData(*each) for each in entity], ops)])
    assert [each.error_code for each in wire.call(request, 1).entries] == [0]


def quotas(wire: Wire, entity: Entity) -> dict[str, float]:
    parts = [ComponentData(kind, EXACT if name else DEFAULT, name) for kind, name in entity]
    answer = wire.call(DescribeClientQuotasRequest(parts, strict=True), 1)
    assert answer.error_code == 0
    return {value.key: value.value for entry in answer.entries for value in entry.values}


@pytest.fixture(scope="session")
def broker(kind: str, shared_brokers: SharedBrokers) -> Address:
    return shared_brokers.get(kind, "-quotas")


@pytest.fixture
def rig(broker: Address, unique: Unique) -> Iterator[Rig]:
    made = Rig(broker, unique("quota"))
    yield made
    made.close()


def produced(topic: str, size: int) -> produce.ProduceRequest:
    data = produce.PartitionProduceData(0, batch(b"x" * size))
    return produce.ProduceRequest(None, -1, 1000, [produce.TopicProduceData(topic, partition_data=[data])])


def fetched(topic: str) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=10**6)
    return fetch.FetchRequest(
        max_wait_ms=100, min_bytes=1, max_bytes=10**6, topics=[fetch.FetchTopic(topic, partitions=[partition])]
    )


def size_of(answer: Any) -> int:
    return sum(len(data.records or b"") for topic in answer.responses for data in topic.partitions)


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_producer_over_its_rate_is_muted(rig: Rig, version: int) -> None:
    topic = rig.wire.create("t")
    rig.quota(producer_byte_rate=2000.0)
    client, began = rig.client(), time.monotonic()
    assert [client.call(produced(topic, 9_800), version).throttle_time_ms for _ in range(2)] == [0, 0]
    over = client.call(produced(topic, 1_000), version)
    passed_ms = (time.monotonic() - began) * 1000  # they count
    assert over.responses[0].partition_responses[0].error_code == 0
    assert 300 - passed_ms < over.throttle_time_ms < 600  # 20,900 bytes and some of 20,000
    assert over.throttle_time_ms > 0
    told_ms = over.throttle_time_ms
    assert client.call(produced(topic, 1), version).throttle_time_ms > 0
    assert client.took_ms > told_ms - 50
    rig.quota(producer_byte_rate=None)
    assert rig.client().call(produced(topic, 100_000), version).throttle_time_ms == 0


@pytest.mark.parametrize("version", [4, 7, 12])
def test_a_consumer_over_its_rate_is_answered_nothing(rig: Rig, version: int) -> None:
    topic = rig.wire.create("t")
    for _ in range(2):
        rig.wire.produce(topic, batch(b"x" * 9_000))
    rig.quota(consumer_byte_rate=1024.0)
    client = rig.client()
    header = client.call(fetched(topic), version)  # what it may have at once, and the bytes of the answer around it
    assert (size_of(header), 0 < header.throttle_time_ms < 200) == (0, True)
    assert size_of(client.call(fetched(topic), version)) == 1024 * ALL_AT_ONCE_S
    again = client.call(fetched(topic), version)
    assert (size_of(again), 9_000 < again.throttle_time_ms < 10_300) == (0, True)


def test_time_is_a_quota(rig: Rig) -> None:
    """The longest wait is one window."""
    rig.quota(request_percentage=0.0001)
    client = rig.client()
    assert [client.call(metadata.MetadataRequest([]), 9).throttle_time_ms for _ in range(2)] == [1000, 1000]
    assert client.took_ms > 950
    older = client.call(metadata.MetadataRequest([]), 2)  # has no field for it
    assert older.throttle_time_ms == 0
    client.call(metadata.MetadataRequest([]), 2)
    assert client.took_ms > 950


def test_changes_are_a_quota(rig: Rig) -> None:
    """From a bucket of 1.1 tokens: new versions are refused, each topic, once it is overdrawn; older ones have to wait."""
    rig.quota(controller_mutation_rate=0.1)

    def create(version: int, *counts: int) -> tuple[list[str], list[int], int]:
        names = [rig.wire.name(f"v{version}-{count}") for count in counts]
        topics = [create_topics.CreatableTopic(name, count, 1) for name, count in zip(names, counts, strict=True)]
        answer = rig.client().call(create_topics.CreateTopicsRequest(topics, 10_000), version)
        codes = {topic.name: topic.error_code for topic in answer.topics}
        return names, [codes[name] for name in names], round(answer.throttle_time_ms / 10_000)

    (made,), *told = create(6, 3)
    assert told == [[0], 0]  # of 1.1 tokens
    assert create(6, 4)[1:] == ([EXCEEDED], 2)
    assert create(7, 1, 2)[1:] == ([EXCEEDED] * 2, 2)
    assert create(5, 1, 2)[1:] == ([0, 0], 5)
    more = create_partitions.CreatePartitionsRequest([create_partitions.CreatePartitionsTopic(made, 4, None)], 10_000)
    strict = rig.client().call(more, 3)
    assert ([each.error_code for each in strict.results], round(strict.throttle_time_ms / 10_000)) == ([EXCEEDED], 5)
    older = rig.client().call(more, 2)
    assert ([each.error_code for each in older.results], round(older.throttle_time_ms / 10_000)) == ([0], 6)
    deleted = rig.client().call(delete_topics.DeleteTopicsRequest(topic_names=[made], timeout_ms=10_000), 5)
    assert [(each.name, each.error_code) for each in deleted.responses] == [(made, EXCEEDED)]
    gone = rig.client().call(delete_topics.DeleteTopicsRequest(topic_names=[made], timeout_ms=10_000), 4)
    assert ([each.error_code for each in gone.responses], round(gone.throttle_time_ms / 10_000)) == ([0], 10)


def test_the_user_comes_before_the_client(rig: Rig) -> None:
    """All clients of a plain listener are the user ANONYMOUS."""
    both = (("user", "ANONYMOUS"), ("client-id", rig.client_id))
    rig.quota(request_percentage=1e-6)
    rig.quota(*both, request_percentage=1e9)
    try:
        assert rig.client().call(metadata.MetadataRequest([]), 9).throttle_time_ms == 0
    finally:
        rig.quota(*both, request_percentage=None)
    assert rig.client().call(metadata.MetadataRequest([]), 9).throttle_time_ms == 1000


def test_librdkafka_reports_the_throttling(rig: Rig) -> None:
    """And all of its records arrive."""
    topic = rig.wire.create("t")
    rig.quota(producer_byte_rate=2250.0, consumer_byte_rate=2250.0)  # a little less than comes at once
    waits: list[float] = []
    common = {
        "bootstrap.servers": rig.broker.bootstrap,
        "client.id": rig.client_id,
        "throttle_cb": lambda event: waits.append(event.throttle_time),
    }
    producer = Producer({**common, "linger.ms": 0, "batch.num.messages": 1})
    for number in range(11):
        producer.produce(topic, str(number).ljust(2000))
    assert producer.flush(60) == 0
    assert max(waits) > 0
    waits.clear()
    consumer = Consumer({**common, "group.id": rig.client_id, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    records = collect(lambda: consumer.consume(100, 1.0), 11, 60)
    consumer.close()
    assert [int(record.value()) for record in records] == list(range(11))
    assert max(waits) > 0


def test_addresses_that_come_too_fast_are_turned_away(rig: Rig) -> None:
    """Such connections are closed after a while, without an answer; those from other addresses are not affected."""
    source = f"127.{sum(rig.client_id.encode()) % 200 + 1}.{time.time_ns() % 200}.7"
    rig.quota(("ip", source), connection_creation_rate=1.0)
    found = [attempts_from(rig.broker, source) for _ in range(12)]
    assert found[:9] == [True] * 9
    assert found[-1] is False
    assert attempts_from(rig.broker, "127.0.0.1")
    rig.quota(("ip", source), connection_creation_rate=None)
    assert attempts_from(rig.broker, source)


def attempts_from(address: Address, source: str) -> bool:
    """Returns whether a new connection from `source` is served."""
    with socket.create_connection(("127.0.0.1", address.port), 30, (source, 0)) as client:
        client.sendall(bytes.fromhex("0000000a 0012 0000 00000001 0000"))  # ApiVersions v0
        try:
            return bool(client.recv(4))
        except ConnectionResetError:
            return False


def test_quotas_go_from_broker_to_broker(tmp_path: Path, unique: Unique) -> None:
    """One directory, served by ottla, Kafka, and ottla again; each finds what the one before set, and removes some of it."""
    everybody, both, host = (("user", None),), (("user", "a/b %"), ("client-id", None)), (("ip", "192.0.2.1"),)
    turns: list[tuple[str, dict[Entity, dict[str, float | None]]]] = [
        ("ottla", {everybody: {"request_percentage": 1e6, "producer_byte_rate": 1e12}, host: {"connection_creation_rate": 7.0}}),
        ("kafka", {both: {"consumer_byte_rate": 1e12}, everybody: {"request_percentage": None}}),
        ("ottla", {host: {"connection_creation_rate": None}}),
        ("kafka", {}),
    ]
    expected: dict[Entity, dict[str, float]] = {everybody: {}, both: {}, host: {}}
    first: BrokerProcess | None = None
    for number, (kind, changes) in enumerate(turns):
        broker = CLASSES[kind](tmp_path / f"{kind}-{number}", first.settings if first else {}, first.port if first else None)
        broker.data_dir = (first or broker).data_dir
        first = first or broker
        broker.start()
        rig = Rig(Address(kind, broker.port, 0, ""), unique("swap"))
        try:
            for entity, wanted in expected.items():
                assert quotas(rig.wire, entity) == wanted, (kind, entity)
            for entity, values in changes.items():
                kept = {key: value for key, value in expected[entity].items() if key not in values}
                expected[entity] = kept | {key: value for key, value in values.items() if value is not None}
                alter(rig.wire, entity, values)
        finally:
            rig.close()
            broker.stop()
