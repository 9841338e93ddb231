"""Spark through ottla and through Apache Kafka 4.4.0 on this machine, and by format("ottla") without a broker.

    python -m scripts.bench.spark [--mib 1024] [--rounds 5] [--seconds 60] [--parts read,join] [--docs]

`read`: topics of 1 kB and of 100 B records (zstd, as spark_read.py writes them) are put into both brokers once. Then one session,
local[*], with every query warmed for as long, reads all columns, round after round: by Spark's kafka connector through ottla,
through Kafka, and by format("ottla") from ottla's directory; and offset and timestamp alone of the 1 kB topic by both. MB are
those of the values; the page cache is warm. spark_read.py measures the last comparison in more detail.

`join`: scripts/bench/spark_join.sql by `ottla pipeline run`, which reads two topics at together 5,000 records/s and writes their
join to a third, exactly once. The lag of a row is from when its later half was produced until a consumer of committed records has
it. What comes in the first third of the time warms up.

Medians of the rounds; ratios are to the connector through Kafka in the same run. With --docs the figures go to docs/benchmarks.*.
Exit code 1 where a target of rows.py is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat_tests.reference.kafka import HOST, BrokerProcess
from ottla.pipeline.session import SparkOptions, session
from ottla.pipeline.source import register
from ottla.wire.compression import NUMBERS
from scripts.bench.compare import Ottla, WarmKafka
from scripts.bench.report import tell
from scripts.bench.rows import SPARK_ROWS
from scripts.bench.spark_read import PARTITIONS, fill, run

JOIN = Path(__file__).with_name("spark_join.sql")
SIZES = {"1kB": 1000, "100B": 100}
RECORDS_PER_S = 5000
START_S = 120.0
WARM_UP_S = 15.0

Found = dict[str, dict[str, dict[str, list[float]]]]
"""broker -> load -> figure -> a value a round"""


def create(bootstrap: str, *topics: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        future.result(timeout=30)


def measure_reads(brokers: Mapping[str, BrokerProcess], mib: int, rounds: int, found: Found) -> None:
    """Measures spark-<size>, spark-direct-<size> and spark-columns, in s and MB/s."""
    for broker in brokers.values():
        for name, size in SIZES.items():
            fill((HOST, broker.port), name, size, (mib << 20) // size, NUMBERS["zstd"])
    spark = session(SparkOptions(conf={"spark.driver.memory": "2g"}), name="bench")
    register(spark)
    data = str(brokers["ottla"].data_dir)

    def connector(kind: str, topic: str) -> Any:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", brokers[kind].bootstrap)
        return reader.option("subscribe", topic).load()

    def direct(topic: str) -> Any:
        return spark.read.format("ottla").load(f"{data}/{topic}")

    def columns(frame: Any) -> Any:
        return frame.select("offset", "timestamp")

    jobs: list[tuple[str, str, Any]] = []  # broker, load, rows to read
    for name in SIZES:
        jobs += [(kind, f"spark-{name}", connector(kind, name)) for kind in brokers]
        jobs.append(("ottla", f"spark-direct-{name}", direct(name)))
    only = spark.read.format("ottla").option("columns", "offset,timestamp").load(f"{data}/1kB")
    jobs += [("kafka", "spark-columns", columns(connector("kafka", "1kB"))), ("ottla", "spark-columns", columns(only))]
    for kind, load, frame in jobs:
        warm_up(kind, load, frame)
    for number in range(1, rounds + 1):
        for kind, load, frame in jobs if number % 2 else reversed(jobs):
            seconds = run(frame)
            print(f"   round {number}  {load:18} {kind:6} {seconds:6.2f} s", flush=True)
            note(found, kind, load, {"s": seconds, "mb_per_s": (mib << 20) / 1e6 / seconds})
    for name in SIZES:  # what format("ottla") is held against: the connector through Kafka
        found["kafka"][f"spark-direct-{name}"] = found["kafka"][f"spark-{name}"]
    spark.stop()


def warm_up(kind: str, load: str, frame: Any) -> None:
    """Warms up all queries for the same time, however short they are, because a JVM compiles what has run often."""
    seconds: list[float] = []
    while sum(seconds) < WARM_UP_S:
        seconds.append(run(frame))
    print(f"{'warm-up':>8}  {load:18} {kind:6} {seconds[0]:6.2f} s to {seconds[-1]:.2f} s, {len(seconds)} times", flush=True)


def note(found: Found, kind: str, load: str, figures: Mapping[str, float]) -> None:
    of_load = found.setdefault(kind, {}).setdefault(load, {})
    for name, value in figures.items():
        of_load.setdefault(name, []).append(round(value, 3))


def measure_join(broker: BrokerProcess, seconds: float) -> dict[str, float]:
    """Returns p50 and p99 of the lag of joined rows, in ms, and their number."""
    create(broker.bootstrap, "orders", "payments", "paid")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-join-") as name:
        command = [sys.executable, "-m", "ottla", "pipeline", "run", str(JOIN), "--continuous"]
        command += ["--bootstrap", broker.bootstrap, "--checkpoint", f"{name}/checkpoint", "--progress", "10"]
        command += [word for topic in ("orders", "payments", "paid") for word in ("--set", f"{topic}={topic}")]
        with open(f"{name}/log", "wb") as log:
            job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        stop = threading.Event()
        feed = threading.Thread(target=feed_join, args=(broker.bootstrap, stop), daemon=True)
        try:
            feed.start()
            lags = read_lags(broker.bootstrap, seconds, job)
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{Path(name, 'log').read_text()[-2000:]}") from error
        finally:
            stop.set()
            feed.join()
            os.killpg(job.pid, signal.SIGTERM)
            job.wait()
    percentiles = statistics.quantiles(lags, n=100)
    return {"p50_ms": percentiles[49], "p99_ms": percentiles[98], "rows": len(lags)}


def feed_join(bootstrap: str, stop: threading.Event) -> None:
    """Produces 2,500 orders a second, and a payment for each half a second later."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "zstd"})
    every_s, late = 0.01, 50
    step = round(RECORDS_PER_S / 2 * every_s)
    number, next_s = 0, time.monotonic()
    while not stop.wait(max(0.0, next_s - time.monotonic())):
        now_ms = time.time_ns() // 1_000_000
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now_ms // 1000))}.{now_ms % 1000:03}Z"
        for order in range(number * step, (number + 1) * step):
            producer.produce("orders", json.dumps({"id": order, "sent": at}), key=str(order))
            if number >= late:
                payment = order - late * step
                producer.produce("payments", json.dumps({"id": payment, "paid": at, "sent_ms": now_ms}), key=str(payment))
        producer.poll(0)
        number += 1
        next_s += every_s
    producer.flush(30)


def read_lags(bootstrap: str, seconds: float, job: subprocess.Popen[bytes]) -> list[float]:
    """Reads the joined rows for that long from the first on; the lags in ms of those after the first third of the time."""
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "isolation.level": "read_committed", "fetch.wait.max.ms": 50}
    )
    reader.assign([TopicPartition("paid", number, 0) for number in range(PARTITIONS)])
    lags: list[float] = []
    begin: float | None = None
    waiting_since = time.monotonic()
    while begin is None or time.monotonic() < begin + seconds:
        for message in reader.consume(5000, timeout=0.1):
            now = time.monotonic()
            begin = begin or now
            if message.error() is None and now > begin + seconds / 3:
                lags.append(time.time() * 1000 - json.loads(message.value() or b"")["sent_ms"])
        if job.poll() is not None or (begin is None and time.monotonic() > waiting_since + START_S):
            raise RuntimeError("the join does not run")
    reader.close()
    if len(lags) < 100:
        raise RuntimeError(f"only {len(lags)} joined rows")
    return lags


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="of each size of record")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60, help="of the join, in each round")
    parser.add_argument("--parts", default="read,join")
    parser.add_argument("--docs", action="store_true", help="write the figures into docs/benchmarks.*")
    arguments = parser.parse_args()
    found: Found = {"ottla": {}, "kafka": {}}
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name:
        brokers: dict[str, BrokerProcess] = {"ottla": Ottla(Path(name) / "ottla"), "kafka": WarmKafka(Path(name) / "kafka")}
        try:
            for broker in brokers.values():
                broker.start()
            if "read" in arguments.parts:
                measure_reads(brokers, arguments.mib, arguments.rounds, found)
            if "join" in arguments.parts:
                for kind, broker in brokers.items():
                    figures = measure_join(broker, arguments.seconds)
                    print(f"    join  {kind:6} {figures}", flush=True)
                    note(found, kind, "spark-join", figures)
        finally:
            for broker in brokers.values():
                broker.stop()
    return tell(found, SPARK_ROWS, docs=arguments.docs)


if __name__ == "__main__":
    sys.exit(main())
