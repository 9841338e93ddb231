"""Consume, transform, produce, with four client libraries behind one set of steps; compat_tests/test_transactions.py drives them.

A copier reads `SOURCE` as a member of a group and writes to a topic of its own, in transactions that hold the group's offsets.
Its name is its group, its transactional id and its target. What a library raises on the way is in `errors`: then the copier is
closed, and another one of the same name goes on where the group is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError as PythonError
from kafka.structs import OffsetAndMetadata

from compat_tests.java_client import JavaAt, JavaError
from compat_tests.kafka_python_consumers import subscribe

SOURCE: Final = "source"
PARTITIONS: Final = (0, 1)
BATCH_RECORDS: Final = 50
TRANSACTION_TIMEOUT_MS: Final = 30_000
SESSION_TIMEOUT_MS: Final = 6_000
STEP_TIMEOUT_S: Final = 30


class Read(NamedTuple):
    partition: int
    offset: int
    value: str


class Copier(Protocol):
    """One pair of consumer and producer. A partition's records go to the partition of the same number."""

    errors: ClassVar[tuple[type[Exception], ...]]
    outlives_broker: ClassVar[bool]
    """True if it goes on when a killed broker comes back. librdkafka 2.16 never sends the first TxnOffsetCommit after that, and
    kafka-python 3.0 no EndTxn, whichever broker it is: their users have to begin anew."""

    def open(self) -> None:
        """Takes the name over, so that nothing of an older copier is under way any more, and joins the group."""
        ...

    def committed(self) -> dict[int, int]: ...

    def read(self) -> Sequence[Read]:
        """At most BATCH_RECORDS; none after half a second without any."""
        ...

    def write(self, records: Sequence[tuple[int, str]], offsets: Mapping[int, int]) -> None:
        """Begins a transaction with these records, which are written when this returns, and the group's offsets."""
        ...

    def commit(self) -> None: ...

    def abort(self, offsets: Mapping[int, int]) -> None:
        """Aborts, and goes on reading at these offsets."""
        ...

    def close(self) -> None: ...


class ConfluentCopier:
    errors: ClassVar[tuple[type[Exception], ...]] = (KafkaException,)
    outlives_broker: ClassVar[bool] = False

    def __init__(self, bootstrap: str, name: str) -> None:
        self.target = name
        names = {"bootstrap.servers": bootstrap, "log_level": 0}
        reading = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        member = {"group.id": name, "session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": 1000}
        self.consumer = Consumer({**names, **reading, **member})
        self.producer = Producer({**names, "transactional.id": name, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS})

    def open(self) -> None:
        self.producer.init_transactions(STEP_TIMEOUT_S)
        self.consumer.subscribe([SOURCE])

    def committed(self) -> dict[int, int]:
        asked = [TopicPartition(SOURCE, partition) for partition in PARTITIONS]
        return {each.partition: max(0, each.offset) for each in self.consumer.committed(asked, STEP_TIMEOUT_S)}

    def read(self) -> list[Read]:
        found = [message for message in self.consumer.consume(BATCH_RECORDS, 0.5) if message.error() is None]
        return [Read(each.partition() or 0, each.offset() or 0, (each.value() or b"").decode()) for each in found]

    def write(self, records: Sequence[tuple[int, str]], offsets: Mapping[int, int]) -> None:
        self.producer.begin_transaction()
        for partition, value in records:
            self.producer.produce(self.target, value.encode(), partition=partition)
        positions = [TopicPartition(SOURCE, *position) for position in offsets.items()]
        member = self.consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction(positions, member, STEP_TIMEOUT_S)
        self.producer.flush(STEP_TIMEOUT_S)

    def commit(self) -> None:
        self.producer.commit_transaction(STEP_TIMEOUT_S)

    def abort(self, offsets: Mapping[int, int]) -> None:
        self.producer.abort_transaction(STEP_TIMEOUT_S)
        for each in self.consumer.assignment():
            self.consumer.seek(TopicPartition(SOURCE, each.partition, offsets[each.partition]))

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonCopier:
    errors: ClassVar[tuple[type[Exception], ...]] = (PythonError,)
    outlives_broker: ClassVar[bool] = False

    def __init__(self, bootstrap: str, name: str) -> None:
        self.target = name
        names = {"bootstrap_servers": bootstrap, "reconnect_backoff_max_ms": 200}  # its own goes up to 30 s
        self.consumer = KafkaConsumer(
            **names,
            group_id=name,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=1000,
        )
        self.producer = KafkaProducer(
            **names,
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_block_ms=STEP_TIMEOUT_S * 1000,
        )

    def open(self) -> None:
        self.producer.init_transactions()
        subscribe(self.consumer, SOURCE)

    def committed(self) -> dict[int, int]:
        return {partition: self.consumer.committed(PythonPartition(SOURCE, partition)) or 0 for partition in PARTITIONS}

    def read(self) -> list[Read]:
        found = self.consumer.poll(timeout_ms=500, max_records=BATCH_RECORDS)
        return [Read(each.partition, each.offset, each.value.decode()) for records in found.values() for each in records]

    def write(self, records: Sequence[tuple[int, str]], offsets: Mapping[int, int]) -> None:
        self.producer.begin_transaction()
        for partition, value in records:
            self.producer.send(self.target, value.encode(), partition=partition)
        positions = {PythonPartition(SOURCE, partition): OffsetAndMetadata(at, "", -1) for partition, at in offsets.items()}
        self.producer.send_offsets_to_transaction(positions, self.consumer.group_metadata())
        self.producer.flush(STEP_TIMEOUT_S)

    def commit(self) -> None:
        self.producer.commit_transaction()

    def abort(self, offsets: Mapping[int, int]) -> None:
        self.producer.abort_transaction()
        for each in self.consumer.assignment():
            self.consumer.seek(each, offsets[each.partition])

    def close(self) -> None:
        self.consumer.close()
        self.producer.close(timeout=1)


class AiokafkaCopier:
    """Its loop runs while a step does; heartbeats are late by no more than a step of the test takes."""

    errors: ClassVar[tuple[type[Exception], ...]] = (AioError, asyncio.TimeoutError)
    outlives_broker: ClassVar[bool] = True

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap, self.target = bootstrap, name
        self.runner = asyncio.Runner()
        self.consumer: AIOKafkaConsumer | None = None
        self.producer: AIOKafkaProducer | None = None

    def open(self) -> None:
        self.runner.run(self._open())

    async def _open(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=self.target, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        await asyncio.wait_for(producer.start(), STEP_TIMEOUT_S)
        self.producer = producer
        self.consumer = AIOKafkaConsumer(
            SOURCE,
            bootstrap_servers=self.bootstrap,
            group_id=self.target,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=1000,
        )
        await asyncio.wait_for(self.consumer.start(), STEP_TIMEOUT_S)

    def committed(self) -> dict[int, int]:
        async def ask() -> dict[int, int]:
            assert self.consumer is not None
            return {p: await self.consumer.committed(AioPartition(SOURCE, p)) or 0 for p in PARTITIONS}

        return self.runner.run(ask())

    def read(self) -> list[Read]:
        async def ask() -> Any:
            assert self.consumer is not None
            return await self.consumer.getmany(timeout_ms=500, max_records=BATCH_RECORDS)

        found = self.runner.run(ask())
        return [Read(each.partition, each.offset, each.value.decode()) for records in found.values() for each in records]

    def write(self, records: Sequence[tuple[int, str]], offsets: Mapping[int, int]) -> None:
        self.runner.run(asyncio.wait_for(self._write(records, offsets), STEP_TIMEOUT_S))

    async def _write(self, records: Sequence[tuple[int, str]], offsets: Mapping[int, int]) -> None:
        assert self.producer is not None
        await self.producer.begin_transaction()
        for partition, value in records:
            await self.producer.send(self.target, value.encode(), partition=partition)
        positions = {AioPartition(SOURCE, partition): at for partition, at in offsets.items()}
        await self.producer.send_offsets_to_transaction(positions, self.target)
        await self.producer.flush()

    def commit(self) -> None:
        async def ask() -> None:
            assert self.producer is not None
            await asyncio.wait_for(self.producer.commit_transaction(), STEP_TIMEOUT_S)

        self.runner.run(ask())

    def abort(self, offsets: Mapping[int, int]) -> None:
        async def ask() -> None:
            assert self.producer is not None
            assert self.consumer is not None
            await asyncio.wait_for(self.producer.abort_transaction(), STEP_TIMEOUT_S)
            for each in self.consumer.assignment():
                self.consumer.seek(each, offsets[each.partition])

        self.runner.run(ask())

    def close(self) -> None:
        async def stop() -> None:
            if self.consumer is not None:
                await self.consumer.stop()
            if self.producer is not None:
                await self.producer.stop()

        try:
            self.runner.run(stop())
        finally:
            self.runner.close()


class JavaCopier:
    """The pair lives in the JVM (compat_tests/java/Transactions.java)."""

    errors: ClassVar[tuple[type[Exception], ...]] = (JavaError,)
    outlives_broker: ClassVar[bool] = True

    def __init__(self, java: JavaAt, name: str) -> None:
        self.java, self.target = java, name

    def open(self) -> None:
        self.java.call("copier_open", name=self.target, source=SOURCE, count=BATCH_RECORDS)

    def committed(self) -> dict[int, int]:
        found = self.java.call("copier_committed", partitions=list(PARTITIONS))
        return {int(partition): at for partition, at in found.items()}

    def read(self) -> list[Read]:
        return [Read(*each) for each in self.java.call("copier_read")]

    def write(self, records: Sequence[tuple[int, str]], offsets: Mapping[int, int]) -> None:
        self.java.call("copier_write", target=self.target, records=list(records), offsets=offsets)

    def commit(self) -> None:
        self.java.call("copier_commit")

    def abort(self, offsets: Mapping[int, int]) -> None:
        self.java.call("copier_abort", offsets=offsets)

    def close(self) -> None:
        self.java.call("copier_close")
