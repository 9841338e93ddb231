"""The bench of what Spark's kafka connector needs to read and to write by TLS and with a login (SASL_SSL, SCRAM), at ottla and at
Kafka.

Records have 1 kB, uncompressed, so that all of it has to be encrypted. Seconds are Spark's, CPU is the broker's. One session
reads and writes at both in turn, after a warm-up of each.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from compat_tests.reference.kafka import HOST
from ottla.pipeline.session import SparkOptions, session
from ottla.wire.compression import NONE
from scripts.bench.compare import settle
from scripts.bench.kload_wire import create_topics, delete_topics
from scripts.bench.security_costs.brokers import Secured
from scripts.bench.security_costs.table import Figures, Row, in_turn
from scripts.bench.spark_read import PARTITIONS, fill, run

RECORD_BYTES: Final = 1000
WARM_UP_S: Final = 15.0
SOURCE, SINK = "source", "sink"
JOBS: Final = {"read": "reading", "write": "writing"}


def _rows() -> list[Row]:
    rows = []
    for job, title in JOBS.items():
        rows.append(Row(f"Spark {title} by SASL_SSL: time", "ottla", f"{job} s", "s", "kafka"))
        rows.append(Row("the same: the broker's CPU", "ottla", f"{job} cpu", "s", "kafka"))
    return rows


ROWS: Final = tuple(_rows())


def measure(brokers: list[Secured], pairs: int, mib: int) -> Figures:
    """Returns the figures of ROWS, for so many MiB of values."""
    records = (mib << 20) // RECORD_BYTES
    for broker in brokers:
        fill((HOST, broker.broker.port), SOURCE, RECORD_BYTES, records, NONE)
    spark = session(SparkOptions(conf={"spark.driver.memory": "2g"}), name="bench")
    found: Figures = defaultdict(list)
    try:
        for job in JOBS:
            for broker in brokers:
                work, spent = _job(spark, broker, job, records), 0.0
                while spent < WARM_UP_S:
                    spent += _timed(broker, job, work)[0]
        for number in range(pairs):
            for job in JOBS:
                for broker in in_turn(brokers, number):
                    settle([each.broker for each in brokers])
                    seconds, cpu = _timed(broker, job, _job(spark, broker, job, records))
                    print(f"{number + 1}: Spark, {job}, {broker.kind}: {seconds:.2f} s, {cpu:.2f} s of CPU", flush=True)
                    found[broker.kind, f"{job} s"].append(seconds)
                    found[broker.kind, f"{job} cpu"].append(cpu)
    finally:
        spark.stop()
    return found


def _job(spark: Any, broker: Secured, job: str, records: int) -> Callable[[], object]:
    """Returns what reads the whole topic, or writes so many records."""
    options = broker.spark_options()
    if job == "read":
        frame = spark.read.format("kafka").options(**options).option("subscribe", SOURCE).load()
        return lambda: run(frame)
    values = spark.range(0, records, 1, PARTITIONS).selectExpr(
        f"cast(rpad(cast(id as string), {RECORD_BYTES}, 'x') as binary) value"
    )
    writer = values.write.format("kafka").options(**options).option("topic", SINK)
    save: Callable[[], object] = writer.save
    return save


def _timed(broker: Secured, job: str, work: Callable[[], object]) -> tuple[float, float]:
    """Returns the seconds that it takes, and the broker's CPU meanwhile."""
    address = HOST, broker.broker.port
    if job == "write":
        create_topics(address, [SINK], PARTITIONS)
    before, began = broker.cpu_seconds(), time.perf_counter()
    work()
    took, used = time.perf_counter() - began, broker.cpu_seconds() - before
    if job == "write":
        delete_topics(address, [SINK])
    return took, used
