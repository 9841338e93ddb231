"""The bench of how fast Spark reads a topic: by the kafka connector from the broker, and by format("ottla") from its directory,
without it.

    python -m scripts.bench.spark_read [--broker ottla|kafka] [--mib 1024] [--records 8100000] [--codec zstd] [--rounds 3]

Two topics of two partitions: `--mib` of 1 kB records, `--records` of 100 B, in batches of 64 KiB of values that a codec makes
about half as large. One Spark session on `--cores`; every query goes to the sink that drops its rows (`noop`). Both sources take
turns, one round to warm up that does not count; the best round of each counts, for others may use the machine meanwhile.

The broker runs on while its directory is read, so planning checks the active segments as recovery would; that is in the figures.

Prints seconds and ratios, and the same as one line of JSON. Exit code 1 where a ratio is below what is promised (`--check`).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ottla.pipeline.session import SparkOptions, session
from ottla.pipeline.source import register
from ottla.wire.compression import NUMBERS
from ottla.wire.records import Record, build_batch
from scripts.bench.compare import BROKERS
from scripts.bench.kload_wire import Connection, Refused, create_topics, produce_error, produce_request

PARTITIONS = 2
BATCH_BYTES = 64 * 1024
VARIANTS = 24
IN_FLIGHT = 8
PROMISED = {"1 kB": 1.2, "100 B": 2.5, "1 kB, offset and timestamp": 5.0, "100 B, offset and timestamp": 5.0}


def values(count: int, size: int, seed: int) -> list[bytes]:
    """Returns hexadecimal noise, which compresses about as well as JSON often does."""
    source = random.Random(seed)
    return [source.randbytes((size + 1) // 2).hex().encode()[:size] for _ in range(count)]


def fill(address: tuple[str, int], topic: str, record_bytes: int, records: int, codec: int) -> None:
    """Writes at least so many records. Raises Refused."""
    create_topics(address, [topic], PARTITIONS)
    count = max(1, BATCH_BYTES // record_bytes)
    now_ms = time.time_ns() // 1_000_000
    batches = [
        build_batch(
            [Record(0, now_ms + at, None, value, []) for at, value in enumerate(values(count, record_bytes, seed))], codec=codec
        )
        for seed in range(VARIANTS)
    ]
    requests = [produce_request(topic, at % PARTITIONS, batch, -1) for at, batch in enumerate(batches)]
    connection = Connection(address)
    sent = answered = 0
    wanted = -(-records // count)
    while answered < wanted:
        while sent < wanted and sent - answered < IN_FLIGHT:
            connection.socket.sendall(requests[sent % VARIANTS])
            sent += 1
        error = produce_error(connection.receive(), topic)
        if error:
            raise Refused(f"Produce: error {error}")
        answered += 1
    connection.close()


def run(frame: Any) -> float:
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def measure(spark: Any, bootstrap: str, data: str, topics: dict[str, str], rounds: int) -> dict[str, dict[str, float]]:
    """Returns the best time in seconds by query and source."""
    few = ("offset", "timestamp")

    def connector(topic: str) -> Any:
        return spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()

    def direct(topic: str, **options: str) -> Any:
        return spark.read.format("ottla").options(**options).load(f"{data}/{topic}")

    queries: dict[str, dict[str, Any]] = {}
    for name, topic in topics.items():
        queries[name] = {"connector": connector(topic), "ottla": direct(topic)}
        queries[f"{name}, offset and timestamp"] = {
            "connector": connector(topic).select(*few),
            "ottla": direct(topic, columns=",".join(few)),
        }
    found: dict[str, dict[str, float]] = {name: {} for name in queries}
    for round_ in range(rounds + 1):
        for name, frames in queries.items():
            for source, frame in frames.items():
                seconds = run(frame)
                if round_:
                    found[name][source] = min(seconds, found[name].get(source, seconds))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("ottla", "kafka"), default="ottla")
    parser.add_argument("--mib", type=int, default=1024, help="of 1 kB records")
    parser.add_argument("--records", type=int, default=8_100_000, help="of 100 B")
    parser.add_argument("--codec", choices=sorted(NUMBERS), default="zstd")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="exit code 1 below what is promised")
    args = parser.parse_args()

    directory = Path(tempfile.mkdtemp(prefix="ottla-spark-read-"))
    broker = BROKERS[args.broker](directory / "broker")
    try:
        broker.start()
        address = ("127.0.0.1", broker.port)
        topics = {"1 kB": "kilobyte", "100 B": "hundred"}
        fill(address, topics["1 kB"], 1024, args.mib * 1024, NUMBERS[args.codec])
        fill(address, topics["100 B"], 100, args.records, NUMBERS[args.codec])
        spark = session(SparkOptions(master=f"local[{args.cores}]"))
        try:
            register(spark)
            found = measure(spark, broker.bootstrap, str(broker.data_dir), topics, args.rounds)
        finally:
            spark.stop()
    finally:
        broker.stop()
        shutil.rmtree(directory)

    missed = False
    for name, seconds in found.items():
        seconds["ratio"] = seconds["connector"] / seconds["ottla"]
        missed |= seconds["ratio"] < PROMISED[name]
        print(
            f"{name:32} connector {seconds['connector']:6.2f} s   format(ottla) {seconds['ottla']:6.2f} s   "
            f"{seconds['ratio']:5.2f} x, promised {PROMISED[name]} x"
        )
    print(json.dumps({"broker": args.broker, "codec": args.codec, **found}))
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
