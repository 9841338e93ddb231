"""kafka-python 3: produce, consume, groups and administration, against ottla and against Apache Kafka.

Its producer is idempotent by default; its consumer keeps fetch sessions and sends leader epochs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp

from compat_tests.kafka_python_consumers import subscribe
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.times import TODAY_MS
from compat_tests.waiting import collect, wait_for

Unique = Callable[[str], str]
TIMES_MS = TODAY_MS


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


@pytest.fixture
def topic(admin: KafkaAdminClient, unique: Unique) -> str:
    """A topic of three partitions."""
    name = unique("kp")
    admin.create_topics({name: {"num_partitions": 3, "replication_factor": 1}}, wait_for_metadata=True)
    return name


def producer(bootstrap: str, **settings: Any) -> Any:
    return closing(KafkaProducer(bootstrap_servers=bootstrap, **settings))


def consumer(bootstrap: str, *topics: str, **settings: Any) -> Any:
    client = KafkaConsumer(bootstrap_servers=bootstrap, **({"auto_offset_reset": "earliest"} | settings))
    return closing(subscribe(client, *topics) if topics else client)


def drain(reader: KafkaConsumer, count: int) -> list[Any]:
    return collect(lambda: [r for records in reader.poll(timeout_ms=500).values() for r in records], count)


def patiently(ask: Callable[[], Any]) -> Any:
    """The answer, once there is one: right after a start a coordinator may still be loading, and this client's admin says so."""
    answers: list[Any] = []

    def tried() -> bool:
        try:
            answers.append(ask())
        except KafkaError as error:
            if not error.retriable:
                raise
        return bool(answers)

    wait_for(tried, "an answer without a retriable error")
    return answers[0]


def fill(bootstrap: str, topic: str, per_partition: int, partitions: int = 3) -> None:
    """Values `p<partition>-<n>`, a second apart from TIMES_MS on."""
    with producer(bootstrap) as client:
        for n in range(per_partition):
            for p in range(partitions):
                client.send(topic, f"p{p}-{n}".encode(), partition=p, timestamp_ms=TIMES_MS + n * 1000)
        client.flush(30)


@pytest.mark.parametrize("settings", [{"acks": 1, "enable_idempotence": False}, {"acks": "all", "enable_idempotence": False}, {}])
def test_a_record_comes_back_as_it_was_sent(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    headers = [("origin", b"test"), ("empty", b""), ("origin", b"again")]
    sent = [(b"key", b"value"), (None, b"no key"), (b"no value", None), (b"", b""), ("schlüssel".encode(), "значение".encode())]
    with producer(bootstrap, **settings) as client:
        placed = [
            client.send(topic, value, key, headers, partition=1, timestamp_ms=TIMES_MS + n) for n, (key, value) in enumerate(sent)
        ]
        metadata = [future.get(30) for future in placed]
    assert [(m.topic, m.partition, m.offset, m.timestamp) for m in metadata] == [
        (topic, 1, n, TIMES_MS + n) for n in range(len(sent))
    ]
    with consumer(bootstrap, topic) as reader:
        got = drain(reader, len(sent))
    assert [(r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, list(r.headers)) for r in got] == [
        (1, n, TIMES_MS + n, 0, key, value, headers) for n, (key, value) in enumerate(sent)
    ]


def test_acks_0_answers_nothing_and_arrives(bootstrap: str, topic: str) -> None:
    with consumer(bootstrap) as reader:  # until its leader leads, what acks=0 sends is lost
        assert reader.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}
    with producer(bootstrap, acks=0, enable_idempotence=False) as client:
        for n in range(50):
            client.send(topic, str(n).encode(), partition=0)
        client.flush(30)
    with consumer(bootstrap, topic) as reader:
        assert [int(r.value) for r in drain(reader, 50)] == list(range(50))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec(bootstrap: str, topic: str, codec: str) -> None:
    values = [b"%d:" % n + b"compressible " * 40 for n in range(300)]
    with producer(bootstrap, compression_type=codec, linger_ms=50, batch_size=65536) as client:
        for value in values:
            client.send(topic, value, partition=2)
        client.flush(30)
    with consumer(bootstrap, topic) as reader:
        assert [r.value for r in drain(reader, len(values))] == values


def test_a_record_larger_than_the_fetch_limit_is_delivered_and_too_large_a_one_refused(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, max_request_size=8 << 20) as client:
        client.send(topic, b"x" * 900_000, partition=0).get(30)
        client.send(topic, b"small", partition=0).get(30)
        with pytest.raises(MessageSizeTooLargeError):
            client.send(topic, b"x" * (2 << 20), partition=0).get(30)
    with producer(bootstrap) as client:  # an idempotent producer of kafka-python is done after a refusal
        client.send(topic, b"after", partition=0).get(30)
    with consumer(bootstrap, topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1000) as reader:
        assert [len(r.value) for r in drain(reader, 3)] == [900_000, 5, 5]


def test_keys_keep_to_their_partition_and_order(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, linger_ms=20) as client:
        for n in range(600):
            client.send(topic, str(n).encode(), key=str(n % 7).encode())
        client.flush(30)
    with consumer(bootstrap, topic) as reader:
        got = drain(reader, 600)
    assert len({(r.key, r.partition) for r in got}) == 7
    for key in {r.key for r in got}:
        numbers = [int(r.value) for r in got if r.key == key]
        assert numbers == sorted(numbers)


def test_assign_seek_beginning_end_and_offsets_for_times(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 20)
    zero, one, two = parts = [TopicPartition(topic, p) for p in range(3)]
    with consumer(bootstrap) as reader:
        assert reader.partitions_for_topic(topic) == {0, 1, 2}
        assert reader.beginning_offsets(parts) == dict.fromkeys(parts, 0)
        assert reader.end_offsets(parts) == dict.fromkeys(parts, 20)
        found = reader.offsets_for_times({zero: TIMES_MS + 4500, one: 0, two: TIMES_MS + 999_000})
        assert found == {zero: OffsetAndTimestamp(5, TIMES_MS + 5000, 0), one: OffsetAndTimestamp(0, TIMES_MS, 0), two: None}

        reader.assign([zero, one])
        reader.seek(zero, 17)
        reader.seek_to_end(one)
        assert reader.position(one) == 20
        assert [r.value for r in drain(reader, 3)] == [b"p0-17", b"p0-18", b"p0-19"]
        reader.seek_to_beginning(one)
        assert [r.offset for r in drain(reader, 20)] == list(range(20))
        reader.pause(one)
        reader.seek(one, 0)
        reader.seek(zero, 19)
        assert [r.value for r in drain(reader, 1)] == [b"p0-19"]


def test_an_offset_out_of_range_goes_where_the_reset_says(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 5)
    with consumer(bootstrap, auto_offset_reset="earliest") as reader:
        reader.assign([TopicPartition(topic, 0)])
        reader.seek(TopicPartition(topic, 0), 1000)
        assert [r.offset for r in drain(reader, 5)] == [0, 1, 2, 3, 4]


class Member(threading.Thread):
    """A group member that consumes until it is made to leave."""

    def __init__(self, bootstrap: str, topic: str, group: str, **settings: Any) -> None:
        super().__init__()
        self.bootstrap, self.topic = bootstrap, topic
        self.settings = {"group_id": group, "heartbeat_interval_ms": 300, "session_timeout_ms": 10_000} | settings
        self.assignment: set[int] = set()
        self.values: list[bytes] = []
        self.leave = threading.Event()
        self.start()

    def run(self) -> None:
        with consumer(self.bootstrap, self.topic, **self.settings) as reader:
            while not self.leave.is_set():
                for records in reader.poll(timeout_ms=100).values():
                    self.values += [r.value for r in records]
                self.assignment = {p.partition for p in reader.assignment()}

    def stop(self) -> None:
        self.leave.set()
        self.join(30)
        assert not self.is_alive()


def test_a_group_rebalances_when_members_come_and_go(bootstrap: str, topic: str, unique: Unique, admin: KafkaAdminClient) -> None:
    group = unique("kp-group")
    members = [Member(bootstrap, topic, group)]
    try:
        wait_for(lambda: members[0].assignment == {0, 1, 2}, "one member has all partitions")
        members += [Member(bootstrap, topic, group) for _ in range(2)]
        wait_for(
            lambda: sorted(tuple(m.assignment) for m in members) == [(0,), (1,), (2,)], "each of three members has one partition"
        )
        wait_for(lambda: admin.describe_groups([group])[group]["group_state"] == "Stable", "the group is stable")
        described = admin.describe_groups([group])[group]
        assert (described["protocol_type"], len(described["members"])) == ("consumer", 3)
        assert {m["client_host"] for m in described["members"]} == {"/127.0.0.1"}
        fill(bootstrap, topic, 10)
        # A rebalance may hand a record out again, never leave one out.
        wait_for(lambda: len({v for m in members for v in m.values}) == 30, "the group has read everything")
        members[0].stop()
        left = members[1:]
        wait_for(lambda: left[0].assignment | left[1].assignment == {0, 1, 2}, "two members share the partitions")
    finally:
        for member in members:
            member.stop()
    assert {v for m in members for v in m.values} == {f"p{p}-{n}".encode() for p in range(3) for n in range(10)}
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"


def test_committed_offsets_are_where_the_next_member_goes_on(bootstrap: str, topic: str, unique: Unique) -> None:
    fill(bootstrap, topic, 10)
    group, zero = unique("kp-group"), TopicPartition(topic, 0)
    settings = {"group_id": group, "enable_auto_commit": False}
    with consumer(bootstrap, **settings) as first:
        first.assign([zero])
        assert first.committed(zero) is None
        assert len(drain(first, 10)) == 10
        first.commit({zero: OffsetAndMetadata(4, "half way", 0)})
        assert first.committed(zero, metadata=True) == OffsetAndMetadata(4, "half way", 0)
    with consumer(bootstrap, topic, **settings) as second:
        got = drain(second, 26)
        assert [r.offset for r in got if r.partition == 0] == [4, 5, 6, 7, 8, 9]
        second.commit()
    with consumer(bootstrap, topic, **settings) as third:
        assert not third.poll(timeout_ms=1500)
        assert {third.position(TopicPartition(topic, p)) for p in range(3)} == {10}


def test_a_static_member_returns_without_a_rebalance(bootstrap: str, topic: str, unique: Unique, admin: KafkaAdminClient) -> None:
    group = unique("kp-static")

    def member(name: str) -> Member:
        return Member(bootstrap, topic, group, group_instance_id=name)

    members = [one := member("one")]
    try:
        wait_for(lambda: one.assignment == {0, 1, 2}, "one member has all partitions")
        members.append(two := member("two"))
        wait_for(lambda: sorted(len(each.assignment) for each in members) == [1, 2], "they share the partitions")
        fill(bootstrap, topic, 5)  # who reads has no rejoin of its own pending
        wait_for(lambda: sum(len(each.values) for each in members) >= 15, "everything is read")
        wait_for(lambda: admin.describe_groups([group])[group]["group_state"] == "Stable", "no member joins once more")
        wait_for(lambda: sorted(len(each.assignment) for each in members) == [1, 2], "they still share")
        before, kept = two.assignment, one.assignment
        two.stop()  # a static member does not leave: its place waits for it
        described = admin.describe_groups([group])[group]
        assert (described["group_state"], len(described["members"])) == ("Stable", 2)
        assert {m["group_instance_id"] for m in described["members"]} == {"one", "two"}
        members.append(back := member("two"))
        wait_for(lambda: back.assignment == before, "the returned member has its partitions back")
        assert one.assignment == kept
    finally:
        for each in members:
            each.stop()


def test_topics_are_created_described_extended_and_deleted(admin: KafkaAdminClient, unique: Unique) -> None:
    name = unique("kp-admin")
    created = admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "60000"}}})
    assert created["topics"][0]["error_code"] == 0
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
    with pytest.raises(InvalidTopicError):
        admin.create_topics({"not a name": {"num_partitions": 1, "replication_factor": 1}})
    admin.wait_for_topics([name])
    assert name in admin.list_topics()
    described = admin.describe_topics([name])[0]
    assert [p["leader_id"] for p in described["partitions"]] == [1, 1]
    assert [(p["replica_nodes"], p["isr_nodes"]) for p in described["partitions"]] == [([1], [1])] * 2

    admin.create_partitions({name: 5})
    wait_for(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 5, "five partitions are there")

    admin.delete_topics([name])
    wait_for(lambda: name not in admin.list_topics(), "the topic is gone")
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def test_topic_configs(admin: KafkaAdminClient, topic: str) -> None:
    def modified() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        return {key: entry["value"] for key, entry in found.items()}

    assert modified() == {}
    wanted = {"retention.ms": "123456", "cleanup.policy": "compact"}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, wanted)])
    wait_for(lambda: modified() == wanted, "both settings are changed")
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["cleanup.policy"])])
    wait_for(lambda: modified() == {"retention.ms": "123456"}, "one setting is back at its default")
    everything = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")["topic"][topic]
    assert everything["segment.bytes"]["value"] == str(1 << 30)
    broker = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")], config_filter="all")["broker"]["1"]
    assert broker["node.id"]["value"] == "1"
    assert broker["offsets.topic.num.partitions"]["value"] == "4"


def test_deleted_records_are_not_read_again(bootstrap: str, admin: KafkaAdminClient, topic: str) -> None:
    fill(bootstrap, topic, 10)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    result = admin.delete_records({zero: 6, one: -1})
    assert {p: r["low_watermark"] for p, r in result.items()} == {zero: 6, one: 10}
    with consumer(bootstrap) as reader:
        assert reader.beginning_offsets([zero, one]) == {zero: 6, one: 10}
        reader.assign([zero])
        assert [r.offset for r in drain(reader, 4)] == [6, 7, 8, 9]


def test_groups_are_listed_their_offsets_altered_and_deleted(
    bootstrap: str, admin: KafkaAdminClient, topic: str, unique: Unique
) -> None:
    fill(bootstrap, topic, 3)
    group, zero = unique("kp-group"), TopicPartition(topic, 0)
    with consumer(bootstrap, topic, group_id=group, enable_auto_commit=False) as reader:
        drain(reader, 9)
        reader.commit()
        assert [g["group_id"] for g in admin.list_groups(states_filter=["Stable"]) if g["group_id"] == group] == [group]
    offsets = admin.list_group_offsets(group)[group]
    assert {p.partition: o.offset for p, o in offsets.items()} == {0: 3, 1: 3, 2: 3}
    admin.alter_group_offsets(group, {zero: OffsetAndMetadata(1, "", -1)})
    assert admin.list_group_offsets({group: [zero]})[group][zero].offset == 1
    assert admin.delete_groups([group]) == {group: "OK"}
    assert group not in {g["group_id"] for g in admin.list_groups()}
    assert admin.delete_groups([group]) == {group: GroupIdNotFoundError.__name__}


def test_producing_to_an_unknown_topic_creates_it(bootstrap: str, unique: Unique) -> None:
    name = unique("kp-auto")
    with producer(bootstrap) as client:
        assert client.send(name, b"first").get(30).offset == 0
    with consumer(bootstrap, name) as reader:
        assert [r.value for r in drain(reader, 1)] == [b"first"]


def test_what_was_acknowledged_survives_kill_9(fresh_broker: Callable[..., BrokerProcess], unique: Unique) -> None:
    broker, topic, group = fresh_broker(), unique("kp-kill"), unique("kp-group")
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics({topic: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "-1"}}})
    fill(broker.bootstrap, topic, 100)
    with consumer(broker.bootstrap, topic, group_id=group, enable_auto_commit=False) as reader:
        drain(reader, 300)
        reader.commit({TopicPartition(topic, p): OffsetAndMetadata(40 + p, f"m{p}", -1) for p in range(3)})
    broker.kill()
    broker.start()
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        offsets = patiently(lambda: admin.list_group_offsets(group))[group]
        assert {p.partition: (o.offset, o.metadata) for p, o in offsets.items()} == {p: (40 + p, f"m{p}") for p in range(3)}
        assert patiently(lambda: admin.describe_groups([group]))[group]["group_state"] == "Empty"
        assert len(admin.describe_topics([topic])[0]["partitions"]) == 3
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        assert {key: entry["value"] for key, entry in found.items()} == {"retention.ms": "-1"}
    with consumer(broker.bootstrap, topic) as reader:
        got = drain(reader, 300)
    assert sorted(r.value for r in got) == sorted(f"p{p}-{n}".encode() for p in range(3) for n in range(100))
    with producer(broker.bootstrap) as client:
        assert client.send(topic, b"after", partition=0).get(30).offset == 100
    with consumer(broker.bootstrap, topic, group_id=group) as reader:  # goes on at 40, 41 and 42
        assert min(r.offset for r in drain(reader, 60 + 59 + 58 + 1)) == 40
