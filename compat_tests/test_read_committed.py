"""Consumers of committed records, of several libraries, read past open, aborted and committed transactions and their markers.

The records come without a coordinator, over the wire, from three producers whose transactions interleave and span segments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from compat_tests.brokers import CLASSES, Address
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.times import TODAY_MS
from compat_tests.wire import Wire, batch
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

ROUNDS = 60

Written = tuple[str, str, list[bytes], list[bytes]]


@pytest.fixture(scope="module")
def written(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """(bootstrap, topic, what is committed, all records). Of three transactions one is aborted; some are open in the end."""
    settings = {"transaction.partition.verification.enable": "false"}
    broker: BrokerProcess = CLASSES[kind](tmp_path_factory.mktemp("committed") / kind, settings)
    try:
        broker.start()
        assert broker.process is not None
        wire = Wire(Address(kind, broker.port, broker.process.pid, str(broker.log_file)), "committed")
        wire.warm_up()
        topic = wire.create("t", segment_ms="1000", retention_ms="-1")
        yield broker.bootstrap, topic, *fill(wire, topic)
        wire.close()
    finally:
        broker.stop()


def fill(wire: Wire, topic: str) -> tuple[list[bytes], list[bytes]]:
    committed: list[bytes] = []
    everything: list[bytes] = []
    sequences = {wire.new_producer_id(): 0 for _ in range(3)}
    told: dict[int, list[bytes]] = {producer_id: [] for producer_id in sequences}
    fates: dict[bytes, bool] = {}
    ids = list(sequences)

    def send(producer_id: int, number: int) -> None:
        values = [f"{number}-{at}".encode() for at in range(3)]
        fields: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequences[producer_id]}
        records = batch(*values, first_ms=TODAY_MS + number * 400, codec=number % 5, transactional=True, **fields)
        answer = wire.produce(topic, records, transactional_id="tx")
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
        sequences[producer_id] += len(values)
        told[producer_id] += values
        everything.extend(values)

    def end(producer_id: int, *, commit: bool) -> None:
        marker = WritableTxnMarker(producer_id, 0, commit, [WritableTxnMarkerTopic(topic, [0])], 0)
        answer = wire.call(WriteTxnMarkersRequest([marker]), 1)
        assert answer.markers[0].topics[0].partitions[0].error_code == 0, answer
        fates.update(dict.fromkeys(told[producer_id], commit))
        told[producer_id] = []

    for number in range(ROUNDS):
        send(ids[number % 3], number)
        if number % 4 == 3:
            end(ids[number // 4 % 3], commit=number // 4 % 3 != 1)
    for producer_id in ids[1:]:
        end(producer_id, commit=True)
    send(ids[1], ROUNDS)
    unstable = everything.index(told[ids[0]][0])
    committed = [value for value in everything[:unstable] if fates[value]]
    assert 20 < len(committed) < unstable - 20
    return committed, everything


def confluent(bootstrap: str, topic: str, level: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "isolation.level": level,
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 1000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            break  # the end, as this reader sees it
        value = message.value()
        assert value is not None
        values.append(value)
    consumer.close()
    return values


def kafka_python(bootstrap: str, topic: str, level: str) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level, max_partition_fetch_bytes=1000)
    partition = PythonPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    end = consumer.end_offsets([partition])[partition]
    values = []
    while consumer.position(partition) < end:
        for records in consumer.poll(1000).values():
            values += [record.value for record in records]
    consumer.close()
    return values


def aiokafka(bootstrap: str, topic: str, level: str) -> list[bytes]:
    async def read() -> list[bytes]:
        from aiokafka import TopicPartition as AioPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level, max_partition_fetch_bytes=1000)
        await consumer.start()
        partition = AioPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        end = (await consumer.end_offsets([partition]))[partition]
        values = []
        while await consumer.position(partition) < end:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                values += [record.value for record in records]
        await consumer.stop()
        return values

    return asyncio.run(read())


@pytest.mark.parametrize("client", [confluent, kafka_python, aiokafka], ids=lambda client: client.__name__)
def test_what_a_consumer_sees(written: Written, client: Callable[[str, str, str], list[bytes]]) -> None:
    bootstrap, topic, committed, everything = written
    assert client(bootstrap, topic, "read_committed") == committed
    assert client(bootstrap, topic, "read_uncommitted") == everything
