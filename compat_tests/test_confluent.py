"""confluent-kafka (librdkafka): produce, consume, groups and administration, against ottla and against Apache Kafka.

librdkafka decides by the keys and versions of ApiVersions what it uses at all: codecs, groups, idempotence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from compat_tests.reference.kafka import BrokerProcess
from compat_tests.times import TODAY_MS
from compat_tests.waiting import collect, wait_for

Unique = Callable[[str], str]
TIMES_MS = TODAY_MS


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient, unique: Unique) -> str:
    return create(admin, unique("ck"))


def create(admin: AdminClient, name: str, partitions: int = 3, **settings: str) -> str:
    config = {key.replace("_", "."): value for key, value in settings.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)
    ends = {TopicPartition(name, p): OffsetSpec.latest() for p in range(partitions)}

    def led() -> bool:  # Kafka names a leader before it leads, and what acks=0 sends until then is lost
        try:
            return all(found.result(30).offset == 0 for found in admin.list_offsets(ends).values())
        except KafkaException:
            return False

    wait_for(led, f"{name} has leaders")
    return name


def produce(bootstrap: str, topic: str, records: list[dict[str, Any]], **settings: Any) -> list[Any]:
    """Produce and wait; returns the delivered messages in the order of their reports. Raises on a failed one."""
    delivered: list[Any] = []
    failed: list[Any] = []
    client = Producer({"bootstrap.servers": bootstrap, **{key.replace("_", "."): value for key, value in settings.items()}})
    for record in records:
        client.produce(topic, on_delivery=lambda e, m: failed.append(e) if e else delivered.append(m), **record)
    assert client.flush(60) == 0
    if failed:
        raise KafkaException(failed[0])
    return delivered


def fill(bootstrap: str, topic: str, per_partition: int, partitions: int = 3) -> None:
    """Values `p<partition>-<n>`, a second apart from TIMES_MS on."""
    records = [
        {"value": f"p{p}-{n}", "partition": p, "timestamp": TIMES_MS + n * 1000}
        for n in range(per_partition)
        for p in range(partitions)
    ]
    produce(bootstrap, topic, records)


@contextmanager
def consumer(bootstrap: str, group: str = "unused", **settings: Any) -> Iterator[Consumer]:
    config = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    client = Consumer(config | {key.replace("_", "."): value for key, value in settings.items()})
    try:
        yield client
    finally:
        client.close()


def drain(client: Consumer, count: int) -> list[Any]:
    def poll() -> list[Any]:
        messages = client.consume(count, 0.5)
        for message in messages:
            assert message.error() is None, message.error()
        return messages

    return collect(poll, count)


def read_all(bootstrap: str, topic: str, count: int, partitions: int = 3, **settings: Any) -> list[Any]:
    with consumer(bootstrap, **settings) as client:
        client.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        return drain(client, count)


@pytest.mark.parametrize("settings", [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable_idempotence": True}], ids=str)
def test_a_record_comes_back_as_it_was_sent(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    headers: list[tuple[str, bytes | None]] = [("origin", b"test"), ("empty", b""), ("null", None), ("origin", b"again")]
    sent = [(b"key", b"value"), (None, b"no key"), (b"no value", None), (b"", b""), (None, None)]
    records = [
        {"key": key, "value": value, "headers": headers, "partition": 1, "timestamp": TIMES_MS + n}
        for n, (key, value) in enumerate(sent)
    ]
    delivered = produce(bootstrap, topic, records, **settings)
    if settings != {"acks": 0}:
        assert [(m.partition(), m.offset()) for m in delivered] == [(1, n) for n in range(len(sent))]
    got = read_all(bootstrap, topic, len(sent))
    assert [(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers()) for m in got] == [
        (1, n, TIMES_MS + n, key, value, headers) for n, (key, value) in enumerate(sent)
    ]


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(bootstrap: str, topic: str, codec: str, idempotent: bool) -> None:
    values = [b"%d:" % n + b"compressible " * 40 for n in range(400)]
    records = [{"value": value, "partition": 2} for value in values]
    produce(bootstrap, topic, records, compression_type=codec, linger_ms=20, enable_idempotence=idempotent)
    got = read_all(bootstrap, topic, len(values), check_crcs=True)
    assert [m.value() for m in got] == values


def test_large_messages(bootstrap: str, admin: AdminClient, unique: Unique) -> None:
    name = create(admin, unique("ck-large"), 1, max_message_bytes="6000000")
    sizes = [5_000_000, 10, 3_000_000, 1]
    produce(bootstrap, name, [{"value": b"x" * size} for size in sizes], message_max_bytes=8_000_000)
    got = read_all(bootstrap, name, len(sizes), 1, fetch_message_max_bytes=1000)
    assert [len(m.value()) for m in got] == sizes
    with pytest.raises(KafkaException) as refused:
        produce(bootstrap, name, [{"value": b"x" * 7_000_000}], message_max_bytes=8_000_000)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_many_records_keep_their_order_by_key(bootstrap: str, topic: str) -> None:
    records = [{"key": str(n % 11), "value": str(n)} for n in range(20_000)]
    produce(bootstrap, topic, records, linger_ms=5, compression_type="lz4", enable_idempotence=True)
    got = read_all(bootstrap, topic, len(records))
    assert len({(m.key(), m.partition()) for m in got}) == 11
    for key in {m.key() for m in got}:
        numbers = [int(m.value()) for m in got if m.key() == key]
        assert numbers == sorted(numbers)


def test_assign_seek_watermarks_and_offsets_for_times(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 20)
    with consumer(bootstrap) as client:
        assert client.get_watermark_offsets(TopicPartition(topic, 0), timeout=30) == (0, 20)
        asked = [
            TopicPartition(topic, 0, TIMES_MS + 4500),
            TopicPartition(topic, 1, 0),
            TopicPartition(topic, 2, TIMES_MS + 999_000),
        ]
        assert [p.offset for p in client.offsets_for_times(asked, timeout=30)] == [5, 0, -1]
        client.assign([TopicPartition(topic, 0, 17)])
        assert [m.value() for m in drain(client, 3)] == [b"p0-17", b"p0-18", b"p0-19"]
        client.seek(TopicPartition(topic, 0, 2))
        assert [m.offset() for m in drain(client, 18)] == list(range(2, 20))
        client.assign([TopicPartition(topic, 1, -1)])  # the end
        assert client.poll(1.0) is None


def test_a_group_rebalances_and_goes_on_from_its_commits(bootstrap: str, topic: str, unique: Unique) -> None:
    group = unique("ck-group")
    settings = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 300}
    fill(bootstrap, topic, 10)
    with consumer(bootstrap, group, **settings) as first:
        first.subscribe([topic])
        got = drain(first, 30)
        first.commit(asynchronous=False)
        with consumer(bootstrap, group, **settings) as second:
            second.subscribe([topic])

            def shared() -> bool:
                for client in (first, second):
                    message = client.poll(0.2)
                    assert message is None or message.error() is None
                sizes = sorted((len(first.assignment()), len(second.assignment())))
                return sizes == [1, 2]

            wait_for(shared, "two members share three partitions")
            fill(bootstrap, topic, 5)

            def poll() -> list[Any]:
                return [m for client in (first, second) for m in client.consume(10, 0.1)]

            got += collect(poll, 15)
            first.commit(asynchronous=False)
            second.commit(asynchronous=False)
    with consumer(bootstrap, group, **settings) as third:
        third.subscribe([topic])
        wait_for(lambda: third.poll(0.2) is None and len(third.assignment()) == 3, "the third has all partitions")
        committed = third.committed([TopicPartition(topic, p) for p in range(3)], timeout=30)
        assert [p.offset for p in committed] == [15, 15, 15]
        assert third.poll(0.5) is None
    assert len({(m.partition(), m.offset()) for m in got}) == len(got) == 45


def test_cooperative_rebalance(bootstrap: str, topic: str, unique: Unique) -> None:
    group = unique("ck-coop")
    settings = {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 300}
    with consumer(bootstrap, group, **settings) as first, consumer(bootstrap, group, **settings) as second:
        first.subscribe([topic])
        wait_for(lambda: first.poll(0.1) is None and len(first.assignment()) == 3, "one member has all")
        second.subscribe([topic])

        def shared() -> bool:
            first.poll(0.1)
            second.poll(0.1)
            return sorted((len(first.assignment()), len(second.assignment()))) == [1, 2]

        wait_for(shared, "two members share")


def test_a_static_member_keeps_its_partitions(bootstrap: str, topic: str, admin: AdminClient, unique: Unique) -> None:
    group = unique("ck-static")
    settings = {"group_instance_id": "one", "session_timeout_ms": 20_000}
    members = []
    for _ in range(2):
        with consumer(bootstrap, group, **settings) as client:
            client.subscribe([topic])
            wait_for(
                lambda: client.poll(0.1) is None and len(client.assignment()) == 3,
                "the member has all partitions",
            )
        described = admin.describe_consumer_groups([group])[group].result(30)
        assert described.state == ConsumerGroupState.STABLE  # it closed without leaving
        members.append([(m.group_instance_id, len(m.assignment.topic_partitions)) for m in described.members])
    assert members == [[("one", 3)], [("one", 3)]]


def test_topics(admin: AdminClient, unique: Unique) -> None:
    name = create(admin, unique("ck-admin"), 2, retention_ms="60000")
    with pytest.raises(KafkaException) as there:
        create(admin, name)
    assert there.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaException) as invalid:
        create(admin, "not a name")
    assert invalid.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
    wait_for(lambda: len(admin.list_topics(name, timeout=30).topics[name].partitions) == 2, "two partitions")
    described = admin.describe_topics(TopicCollection([name]))[name].result(30)
    assert [(p.id, p.leader.id, [n.id for n in p.isr]) for p in described.partitions] == [(0, 1, [1]), (1, 1, [1])]
    admin.create_partitions([NewPartitions(name, 4)])[name].result(30)
    wait_for(lambda: len(admin.list_topics(name, timeout=30).topics[name].partitions) == 4, "four partitions")
    admin.delete_topics([name])[name].result(30)
    wait_for(lambda: name not in admin.list_topics(timeout=30).topics, "the topic is gone")
    with pytest.raises(KafkaException) as gone:
        admin.delete_topics([name])[name].result(30)
    assert gone.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_configs(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def value(key: str) -> Any:
        return admin.describe_configs([resource])[resource].result(30)[key].value

    changes = [
        ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)])[resource].result(30)
    wait_for(lambda: value("retention.ms") == "5000" and value("cleanup.policy") == "delete,compact", "the change is there")
    bad = [ConfigEntry("retention.ms", "x", incremental_operation=AlterConfigOpType.SET)]
    refused = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=bad)
    with pytest.raises(KafkaException) as error:
        admin.incremental_alter_configs([refused])[refused].result(30)
    assert error.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_records_are_deleted_and_offsets_listed(bootstrap: str, admin: AdminClient, topic: str) -> None:
    fill(bootstrap, topic, 10)
    zero = TopicPartition(topic, 0, 6)
    assert admin.delete_records([zero])[zero].result(30).low_watermark == 6

    def offset(spec: OffsetSpec) -> int:
        where = TopicPartition(topic, 0)
        return int(admin.list_offsets({where: spec})[where].result(30).offset)

    assert offset(OffsetSpec.earliest()) == 6
    assert offset(OffsetSpec.latest()) == 10
    assert offset(OffsetSpec.max_timestamp()) == 9
    assert offset(OffsetSpec.for_timestamp(TIMES_MS + 7500)) == 8
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0, 0)])  # out of range: back to the earliest
        assert [m.offset() for m in drain(client, 4)] == [6, 7, 8, 9]


def test_groups(bootstrap: str, admin: AdminClient, topic: str, unique: Unique) -> None:
    group = unique("ck-group")
    where = [TopicPartition(topic, p, 3 + p) for p in range(3)]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, where)])[group].result(30)
    listed = {g.group_id: g.state for g in admin.list_consumer_groups().result(30).valid}
    assert listed[group] == ConsumerGroupState.EMPTY
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    assert [(p.partition, p.offset) for p in sorted(found.topic_partitions)] == [(0, 3), (1, 4), (2, 5)]
    admin.delete_consumer_groups([group])[group].result(30)
    with pytest.raises(KafkaException) as gone:
        admin.delete_consumer_groups([group])[group].result(30)
    assert gone.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_producing_to_an_unknown_topic_creates_it(bootstrap: str, unique: Unique) -> None:
    name = unique("ck-auto")
    produce(bootstrap, name, [{"value": "first"}])
    assert [m.value() for m in read_all(bootstrap, name, 1, 1)] == [b"first"]


def test_kill_9_under_load_loses_and_doubles_nothing(fresh_broker: Callable[..., BrokerProcess], unique: Unique) -> None:
    """An idempotent producer goes on while its broker is killed and comes back: each record once, in order."""
    broker, count = fresh_broker(), 20_000
    topic = create(AdminClient({"bootstrap.servers": broker.bootstrap}), unique("ck-kill"), 2)
    acknowledged: list[tuple[int | None, int | None, int]] = []
    failed: list[Any] = []
    client = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 2, "reconnect.backoff.max.ms": 200}
    )
    for n in range(count):
        client.produce(
            topic,
            value=str(n),
            partition=n % 2,
            on_delivery=lambda e, m: (
                failed.append(e) if e else acknowledged.append((m.partition(), m.offset(), int(m.value() or b"")))
            ),
        )
        client.poll(0)
        if n == count // 2:
            wait_for(lambda: client.poll(0.01) is not None and len(acknowledged) > 1000, "some records are acknowledged")
            broker.kill()
            broker.start()
    assert client.flush(60) == 0
    assert not failed
    got = read_all(broker.bootstrap, topic, count, 2)
    for p in range(2):
        assert [int(m.value()) for m in got if m.partition() == p] == list(range(p, count, 2))
    assert {(m.partition(), m.offset(), int(m.value())) for m in got} == set(acknowledged)


def test_a_group_survives_kill_9(fresh_broker: Callable[..., BrokerProcess], unique: Unique) -> None:
    """The member comes back by itself; what it committed is still committed."""
    broker, group = fresh_broker(), unique("ck-group")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = create(admin, unique("ck-survive"), 2)
    fill(broker.bootstrap, topic, 10, 2)
    with consumer(broker.bootstrap, group, reconnect_backoff_max_ms=200, session_timeout_ms=30_000) as client:
        client.subscribe([topic])
        drain(client, 20)
        client.commit(asynchronous=False)
        broker.kill()
        broker.start()
        fill(broker.bootstrap, topic, 5, 2)
        deadline = time.monotonic() + 60
        late: list[Any] = []
        while len(late) < 10 and time.monotonic() < deadline:  # transport errors while it was away are the client's own notes
            late += [m for m in client.consume(10, 0.5) if m.error() is None]
        assert sorted((m.partition(), m.offset()) for m in late) == [(p, 10 + n) for p in range(2) for n in range(5)]
        committed = client.committed([TopicPartition(topic, p) for p in range(2)], timeout=30)
        assert [p.offset for p in committed] == [10, 10]
