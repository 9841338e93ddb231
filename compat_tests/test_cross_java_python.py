"""Tests that Java, aiokafka, kafka-python and librdkafka (confluent-kafka, kcat) each read what each of them wrote, in every
codec; and members of four of them share a group.

test_cross_clients.py does so for the clients in Go, JavaScript and Rust.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from compat_tests.java_client import JavaAt, running
from compat_tests.times import TODAY_MS
from compat_tests.waiting import collect, wait_for

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Record:
    """As all clients can write and read it. kcat cannot choose the time: it writes None, and nobody compares."""

    partition: int
    key: str
    value: str | None
    headers: list[tuple[str, str]]
    timestamp_ms: int | None = field(compare=False)


def text(raw: Any) -> Any:
    return raw.decode() if isinstance(raw, bytes) else raw


def as_record(partition: int, key: Any, value: Any, headers: Any, timestamp_ms: int) -> Record:
    return Record(partition, text(key), text(value), [(name, text(content)) for name, content in headers or []], timestamp_ms)


def encoded(record: Record) -> tuple[bytes, bytes | None, list[tuple[str, str | bytes | None]]]:
    value = None if record.value is None else record.value.encode()
    return record.key.encode(), value, [(name, content.encode()) for name, content in record.headers]


Write = Callable[[JavaAt, str, str, list[Record]], None]
Read = Callable[[JavaAt, str, int, int], list[Record]]


def java_writes(java: JavaAt, topic: str, codec: str, records: list[Record]) -> None:
    sent = [vars(record) for record in records]
    java.call("produce", topic=topic, records=sent, settings={"compression.type": codec, "linger.ms": "50"})


def java_reads(java: JavaAt, topic: str, partitions: int, count: int) -> list[Record]:
    got = java.call("consume", topic=topic, partitions=list(range(partitions)), count=count)
    return [as_record(r["partition"], r["key"], r["value"], r["headers"], r["timestamp_ms"]) for r in got]


def aiokafka_writes(java: JavaAt, topic: str, codec: str, records: list[Record]) -> None:
    async def write() -> None:
        settings = {"compression_type": None if codec == "none" else codec, "linger_ms": 50}
        async with AIOKafkaProducer(bootstrap_servers=java.bootstrap, **settings) as client:
            for record in records:
                key, value, headers = encoded(record)
                await client.send(topic, value, key, record.partition, record.timestamp_ms, headers)
            await client.flush()

    asyncio.run(write())


def aiokafka_reads(java: JavaAt, topic: str, partitions: int, count: int) -> list[Record]:
    async def read() -> list[Record]:
        async with AIOKafkaConsumer(bootstrap_servers=java.bootstrap, auto_offset_reset="earliest") as client:
            client.assign([TopicPartition(topic, p) for p in range(partitions)])
            async with asyncio.timeout(60):
                got = [await client.getone() for _ in range(count)]
            return [as_record(r.partition, r.key, r.value, r.headers, r.timestamp) for r in got]

    return asyncio.run(read())


def kafka_python_writes(java: JavaAt, topic: str, codec: str, records: list[Record]) -> None:
    settings = {"compression_type": None if codec == "none" else codec, "linger_ms": 50}
    with closing(KafkaProducer(bootstrap_servers=java.bootstrap, **settings)) as client:
        for record in records:
            key, value, headers = encoded(record)
            client.send(topic, value, key, headers, record.partition, record.timestamp_ms)
        client.flush(30)


def kafka_python_reads(java: JavaAt, topic: str, partitions: int, count: int) -> list[Record]:
    with closing(KafkaConsumer(bootstrap_servers=java.bootstrap, auto_offset_reset="earliest")) as client:
        client.assign([KafkaPythonPartition(topic, p) for p in range(partitions)])
        got = collect(lambda: [r for records in client.poll(timeout_ms=500).values() for r in records], count)
    return [as_record(r.partition, r.key, r.value, r.headers, r.timestamp) for r in got]


def confluent_writes(java: JavaAt, topic: str, codec: str, records: list[Record]) -> None:
    client = Producer({"bootstrap.servers": java.bootstrap, "compression.type": codec, "linger.ms": 50})
    for record in records:
        key, value, headers = encoded(record)
        client.produce(topic, value, key, record.partition, timestamp=record.timestamp_ms or 0, headers=headers)
    assert client.flush(30) == 0


def confluent_reads(java: JavaAt, topic: str, partitions: int, count: int) -> list[Record]:
    client = Consumer({"bootstrap.servers": java.bootstrap, "group.id": f"{topic}-reader", "auto.offset.reset": "earliest"})
    try:
        client.assign([ConfluentPartition(topic, p, 0) for p in range(partitions)])
        got = collect(lambda: client.consume(count, 0.5), count)
    finally:
        client.close()
    return [as_record(m.partition(), m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in got]


def kcat_runs(*arguments: str, stdin: str = "") -> str:
    done = subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"kcat {arguments}: exit {done.returncode}\n{done.stderr}"
    return done.stdout


def kcat_writes(java: JavaAt, topic: str, codec: str, records: list[Record]) -> None:
    lines = "".join(f"{r.key}:{r.value or ''}\n" for r in records)
    headers = [word for name, content in records[0].headers for word in ("-H", f"{name}={content}")]
    where = ["-b", java.bootstrap, "-t", topic, "-p", str(records[0].partition)]
    kcat_runs("-P", *where, "-K:", "-Z", "-z", codec, *headers, stdin=lines)


def kcat_reads(java: JavaAt, topic: str, partitions: int, count: int) -> list[Record]:
    printed = kcat_runs("-C", "-b", java.bootstrap, "-t", topic, "-J", "-e", "-q", "-o", "beginning")
    got = [json.loads(line) for line in printed.splitlines()]
    assert len(got) == count
    return [
        as_record(r["partition"], r["key"], r["payload"], zip(r["headers"][::2], r["headers"][1::2], strict=True), r["ts"])
        for r in got
    ]


CLIENTS: dict[str, tuple[Write, Read]] = {
    "java": (java_writes, java_reads),
    "aiokafka": (aiokafka_writes, aiokafka_reads),
    "kafka-python": (kafka_python_writes, kafka_python_reads),
    "confluent": (confluent_writes, confluent_reads),
    "kcat": (kcat_writes, kcat_reads),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running(tmp_path_factory.mktemp("java")) as java:
        yield java


@pytest.fixture
def java(program: Any, bootstrap: str) -> JavaAt:
    at: JavaAt = program.at(bootstrap)
    return at


def test_what_one_client_wrote_every_other_reads(java: JavaAt, unique: Callable[[str], str]) -> None:
    topic = java.topic(unique("cross"), len(CLIENTS))
    written: list[Record] = []
    for partition, (name, (write, _)) in enumerate(CLIENTS.items()):
        for codec in CODECS:
            records = [
                Record(
                    partition,
                    f"{name}-{codec}-{n}",
                    None if n % 3 == 2 else f"{name} {codec} {n}: grüße " + "again " * 40,
                    [("client", name), ("codec", codec)],
                    None if name == "kcat" else TODAY_MS + len(written) + n,
                )
                for n in range(9)
            ]
            write(java, topic, codec, records)
            written += records
    for name, (_, read) in CLIENTS.items():
        got = sorted(read(java, topic, len(CLIENTS), len(written)), key=lambda record: record.partition)
        assert got == written, f"as {name} reads them"
        times = [(g.timestamp_ms, w.timestamp_ms) for g, w in zip(got, written, strict=True) if w.timestamp_ms is not None]
        assert all(one == other for one, other in times), f"as {name} reads the times"


@dataclass
class Seen:
    """The records and partitions that a member of the group has, as its client says."""

    assigned: set[int] = field(default_factory=set)
    values: set[str] = field(default_factory=set)


Joined = Iterator[Callable[[], Seen]]


@contextmanager
def java_member(java: JavaAt, group: str, topic: str) -> Joined:
    strategy = "org.apache.kafka.clients.consumer.RangeAssignor"
    settings = {"group.id": group, "partition.assignment.strategy": strategy}
    java.call("join", member=group, topics=[topic], settings=settings)

    def seen() -> Seen:
        state = java.call("member", member=group)
        assert state["error"] is None, state["error"]
        return Seen(set(state["assigned"]), set(state["values"]))

    try:
        yield seen
    finally:
        java.call("leave", member=group)


@contextmanager
def in_thread(member: Callable[[Seen, threading.Event], None]) -> Joined:
    """Runs a member's loop in a thread until the end; its exception, where it dies of one, is the failure."""
    seen, leave, died = Seen(), threading.Event(), []

    def run() -> None:
        try:
            member(seen, leave)
        except Exception as error:  # noqa: BLE001 - shown by whoever looks
            died.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def look() -> Seen:
        if died:
            raise died[0]
        return seen

    try:
        yield look
    finally:
        leave.set()
        thread.join(60)
        assert not thread.is_alive()


def aiokafka_member(java: JavaAt, group: str, topic: str) -> Any:
    async def loop(seen: Seen, leave: threading.Event) -> None:
        settings = {"group_id": group, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300}
        settings |= {"partition_assignment_strategy": [RangePartitionAssignor], "auto_commit_interval_ms": 200}
        async with AIOKafkaConsumer(topic, bootstrap_servers=java.bootstrap, **settings) as client:
            while not leave.is_set():
                for records in (await client.getmany(timeout_ms=100)).values():
                    seen.values |= {text(r.value) for r in records}
                seen.assigned = {p.partition for p in client.assignment()}

    return in_thread(lambda seen, leave: asyncio.run(loop(seen, leave)))


def confluent_member(java: JavaAt, group: str, topic: str) -> Any:
    def loop(seen: Seen, leave: threading.Event) -> None:
        settings = {"group.id": group, "auto.offset.reset": "earliest", "partition.assignment.strategy": "range"}
        settings |= {"heartbeat.interval.ms": "300", "auto.commit.interval.ms": "200"}
        client = Consumer({"bootstrap.servers": java.bootstrap, **settings})
        client.subscribe([topic])
        try:
            while not leave.is_set():
                seen.values |= {text(m.value()) for m in client.consume(100, 0.1)}
                seen.assigned = {p.partition for p in client.assignment()}
        finally:
            client.close()

    return in_thread(loop)


def test_members_of_different_clients_share_one_group(java: JavaAt, unique: Callable[[str], str]) -> None:
    """They join one after the other, then the first leaves; the ranges are split anew and all is read, at each step."""
    topic, group = java.topic(unique("mixed"), 4), unique("mixed")
    present: list[Callable[[], Seen]] = []
    ever: list[Callable[[], Seen]] = []
    sent: set[str] = set()

    def settled() -> bool:
        found = [member().assigned for member in present]
        return all(found) and sorted(p for each in found for p in each) == [0, 1, 2, 3]

    def round_trip(step: str) -> None:
        wait_for(settled, f"all partitions are assigned, {step}")
        values = [f"{step} p{p}" for p in range(4)]
        java.call("produce", topic=topic, records=[{"partition": p, "value": value} for p, value in enumerate(values)])
        sent.update(values)
        wait_for(lambda: sent <= set().union(*(member().values for member in ever)), f"all is read, {step}")

    with ExitStack() as later, ExitStack() as first:
        for stack, name, member in (
            (first, "aiokafka", aiokafka_member),
            (later, "java", java_member),
            (later, "confluent", confluent_member),
        ):
            present.append(stack.enter_context(member(java, group, topic)))
            ever.append(present[-1])
            round_trip(f"{name} joined")
        first.close()
        del present[0]
        round_trip("aiokafka left")
