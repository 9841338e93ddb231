"""The bench of what a broker has to do while Spark's kafka connector reads a topic: its requests, how long they take, and CPU
time.

    python -m scripts.bench.spark_requests [--broker ottla|kafka] [--mib 256] [--rounds 3]

The topics and the session are those of spark_read.py: records of 1 kB and of 100 B, two partitions, zstd, two cores. Each query
is run once to warm up. Prints a JSON object a round: seconds, and the CPU seconds of the broker's process. For ottla also the
requests of the last round by API, as /metrics counts them: how many, and how many seconds passed until they were answered, all
together. A Fetch at a topic's end is answered after `fetch.max.wait.ms`, and nobody waits for it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from compat_tests.reference.kafka import HOST
from ottla.commands.cluster.layout import is_free
from ottla.pipeline.session import SparkOptions, session
from ottla.wire.compression import NUMBERS
from scripts.bench.compare import BROKERS
from scripts.bench.kload import Process
from scripts.bench.spark_read import fill, run

METRICS_PORT: Final = 17_071
_COUNTED: Final = re.compile(r'^ottla_request_duration_seconds_(count|sum)\{request="(\w+)"\} (\S+)$', re.MULTILINE)


def requests_in(metrics: str) -> dict[str, dict[str, float]]:
    """Returns the requests in a text of /metrics: how many of each API, and their seconds."""
    found: dict[str, dict[str, float]] = {}
    for what, api, number in _COUNTED.findall(metrics):
        found.setdefault(api, {})["requests" if what == "count" else "seconds"] = float(number)
    return found


def between(before: dict[str, dict[str, float]], after: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Returns what came in between, without APIs of which there was none."""
    gone = {
        api: {name: round(number - before.get(api, {}).get(name, 0), 3) for name, number in figures.items()}
        for api, figures in after.items()
    }
    return {api: figures for api, figures in gone.items() if figures["requests"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("ottla", "kafka"), default="ottla")
    parser.add_argument("--mib", type=int, default=256, help="of each topic")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    is_ottla = arguments.broker == "ottla"
    if is_ottla and not is_free(METRICS_PORT):
        raise SystemExit(f"port {METRICS_PORT} is in use, where the broker would serve its metrics")
    with tempfile.TemporaryDirectory(prefix="ottla-spark-requests-") as directory, ExitStack() as stack:
        broker = BROKERS[arguments.broker](Path(directory, "broker"))
        if is_ottla:
            broker.settings["ottla.metrics.port"] = str(METRICS_PORT)
        stack.callback(broker.stop)
        broker.start()
        assert broker.process is not None

        def asked() -> dict[str, dict[str, float]]:
            if not is_ottla:
                return {}
            with urllib.request.urlopen(f"http://{HOST}:{METRICS_PORT}/metrics", timeout=10) as answer:
                return requests_in(answer.read().decode())

        sizes = {"1 kB": 1024, "100 B": 100}
        for at, size in enumerate(sizes.values()):
            fill((HOST, broker.port), f"topic-{at}", size, arguments.mib * 2**20 // size, NUMBERS["zstd"])
        spark = session(SparkOptions(master="local[2]"))
        stack.callback(spark.stop)
        for at, name in enumerate(sizes):
            frame = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
            query = frame.option("subscribe", f"topic-{at}").load()
            run(query)
            for _ in range(arguments.rounds):
                before, process = asked(), Process(broker.process.pid)
                seconds = run(query)
                used = process.cpu_seconds() - process.before
                print(json.dumps({"records": name, "seconds": round(seconds, 2), "broker_cpu_s": round(used, 2)}), flush=True)
            if is_ottla:
                print(json.dumps(between(before, asked())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
