"""The test kit's faults, by HTTP, and what clients of three libraries make of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import CorruptRecordException as AioCorrupt
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import CorruptRecordError

from compat_tests.testkit_port import Served
from compat_tests.waiting import TIMEOUT_S, wait_for

Unique = Callable[[str], str]


QUICK: Final = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=500",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
)


class BrokerUnderTest(Served):
    """A broker whose groups and transactions are quick, with faults."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, *(word for setting in QUICK for word in ("--override", setting)))

    def fault(self, on: dict[str, Any], do: dict[str, Any], **rules: Any) -> str:
        """Installs a fault; its id."""
        return str(self.call("POST", "/v1/faults", {"on": on, "do": do, **rules})["id"])

    def hits(self, fault: str) -> int:
        return int(self.call("GET", f"/v1/faults/{fault}")["hits"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUnderTest]:
    broker = BrokerUnderTest(tmp_path_factory.mktemp("tested"))
    yield broker
    broker.end()


@pytest.fixture
def tested(running: BrokerUnderTest) -> Iterator[BrokerUnderTest]:
    yield running
    running.call("DELETE", "/v1/faults")


def produce_confluent(bootstrap: str, topic: str, **settings: Any) -> None:
    errors: list[Any] = []
    quick = {"retry.backoff.ms": 20, "linger.ms": 0, **{name.replace("_", "."): value for name, value in settings.items()}}
    producer = Producer({"bootstrap.servers": bootstrap, **quick})
    producer.produce(topic, b"one", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None]


def produce_kafka_python(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, retry_backoff_ms=20)
    producer.send(topic, b"one", partition=0).get(TIMEOUT_S)
    producer.close()


def produce_aiokafka(bootstrap: str, topic: str) -> None:
    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, retry_backoff_ms=20) as producer:
            await producer.send_and_wait(topic, b"one", partition=0)

    asyncio.run(produce())


PRODUCE: Final[dict[str, Callable[[str, str], None]]] = {
    "confluent": lambda bootstrap, topic: produce_confluent(bootstrap, topic, enable_idempotence=True),
    "kafka-python": produce_kafka_python,
    "aiokafka": produce_aiokafka,
}


def records(bootstrap: str, topic: str) -> list[bytes | None]:
    """All committed records of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        found.append(message.value())


@pytest.mark.parametrize("client", PRODUCE)
def test_after_two_errors_that_are_worth_a_retry_there_is_one_record(
    client: str, tested: BrokerUnderTest, unique: Unique
) -> None:
    topic = unique("retried")
    produce_confluent(tested.bootstrap, topic)  # makes the topic, so that nobody waits for that
    fault = tested.fault({"api": "Produce", "topic": topic}, {"error": ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"]})
    PRODUCE[client](tested.bootstrap, topic)
    assert tested.hits(fault) == 2
    assert records(tested.bootstrap, topic) == [b"one", b"one"]  # the second error came when the record was appended


def test_an_answer_that_is_lost_doubles_a_record_without_idempotence_only(tested: BrokerUnderTest, unique: Unique) -> None:
    for idempotent, expected in ((True, [b"one"]), (False, [b"one", b"one"])):
        topic = unique("lost")
        fault = tested.fault({"api": "Produce", "topic": topic}, {"disconnect": "reset"}, act="after")
        produce_confluent(tested.bootstrap, topic, enable_idempotence=idempotent)
        assert tested.hits(fault) == 1
        assert records(tested.bootstrap, topic) == expected


def test_a_commit_whose_answer_is_lost_is_one_commit(tested: BrokerUnderTest, unique: Unique) -> None:
    topic, name = unique("committed"), unique("tx")
    producer = Producer({"bootstrap.servers": tested.bootstrap, "transactional.id": name, "retry.backoff.ms": 20})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"one", partition=0)
    producer.flush(TIMEOUT_S)
    fault = tested.fault({"api": "EndTxn", "transactional_id": name}, {"disconnect": "close"}, act="after")
    producer.commit_transaction(TIMEOUT_S)
    assert tested.hits(fault) == 1
    producer.begin_transaction()
    producer.produce(topic, b"two", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    assert records(tested.bootstrap, topic) == [b"one", b"two"]


def test_a_member_in_a_black_hole_is_expelled_and_comes_back(tested: BrokerUnderTest, unique: Unique) -> None:
    topic, group = unique("shared"), unique("group")
    produce_confluent(tested.bootstrap, topic)
    members = [_member(tested.bootstrap, group, topic, name) for name in NAMES]

    def owners() -> list[int]:
        for member in members:
            member.poll(0.02)
        return [at for at, member in enumerate(members) if member.assignment()]

    seen: list[int] = []

    def settled() -> bool:
        seen[:] = owners()
        if len(seen) != 1:
            return False
        found = tested.call("GET", f"/v1/groups/{group}")
        return (found["state"], len(found["members"])) == ("Stable", 2)

    wait_for(settled, "nobody has the partition, or not both are members")
    (gone,) = seen
    fault = tested.fault({"client_id": NAMES[gone]}, {"blackhole": True}, times=-1)
    wait_for(lambda: 1 - gone in owners(), "the other member does not get the partition")
    assert tested.hits(fault) > 0
    returned = tested.fault({"client_id": NAMES[gone], "api": "SyncGroup"}, {"observe": True})
    tested.call("DELETE", f"/v1/faults/{fault}")
    wait_for(lambda: bool(owners()) and tested.hits(returned) > 0, "it does not come back")
    for member in members:
        member.close()


NAMES: Final = ("first", "second")


def _member(bootstrap: str, group: str, topic: str, client_id: str) -> Consumer:
    settings = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 100, "socket.timeout.ms": 2000, "log_level": 0}
    settings |= {"max.poll.interval.ms": 6000}  # a JoinGroup that is never answered is given up so much later, and 3 s
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": client_id, **settings})
    member.subscribe([topic])
    return member


def test_spoiled_records_are_reported_and_not_delivered(tested: BrokerUnderTest, unique: Unique) -> None:
    topic = unique("spoiled")
    produce_confluent(tested.bootstrap, topic)
    fault = tested.fault({"api": "Fetch", "topic": topic}, {"corrupt": "crc"}, times=-1)

    consumer = Consumer({"bootstrap.servers": tested.bootstrap, "group.id": "reader", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._BAD_MSG
    consumer.close()

    reader = KafkaConsumer(bootstrap_servers=tested.bootstrap, check_crcs=True)
    partition = KafkaPythonPartition(topic, 0)
    reader.assign([partition])
    reader.seek(partition, 0)
    with pytest.raises(CorruptRecordError):
        wait_for(lambda: reader.poll(timeout_ms=100), "it is neither reported nor delivered")
    reader.close()

    async def read() -> None:
        async with AIOKafkaConsumer(topic, bootstrap_servers=tested.bootstrap, auto_offset_reset="earliest") as aio:
            with pytest.raises(AioCorrupt):
                await asyncio.wait_for(aio.getone(), TIMEOUT_S)

    asyncio.run(read())
    assert tested.hits(fault) >= 3
    tested.call("DELETE", f"/v1/faults/{fault}")
    assert records(tested.bootstrap, topic) == [b"one"]
