"""The bench of how fast three brokers replicate, and with how much CPU time: clusters of ottla and of Apache Kafka side by side,
in turn.

    python -m scripts.bench.cluster_speed [--clusters ooo,kkk] [--leaders all|first] [--rounds 4] [--seconds 5]

Topics have a replication factor of 3, min.insync.replicas is 2, and acks is all. Each batch size (one record of 1 kB, and 64 of
them) goes to one partition, and to 100 that all brokers lead in turn. There is a connection to each leader, with five requests in
flight, from a client that does as little as it can (kload_wire.py). A cluster is three letters, o for ottla and k for Kafka; with
`--leaders first` only the first broker leads, so that `koo` beside `kkk` compares the followers of a leader of Kafka's.

Prints a JSON object for each row and cluster, the median over the rounds: MiB/s, the median time of a request, and the CPU time
of all brokers for a GiB that was produced. On a machine that does something else only the CPU time says much.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from compat_tests.cluster.mixed import LETTERS, Mixed, named_clusters
from compat_tests.waiting import wait_for
from scripts.bench.kload import Process, in_threads, percentiles
from scripts.bench.kload_wire import Connection, Refused, produce_error, produce_request, record_batch

NODES: Final = (1, 2, 3)
DEPTH: Final = 5
ROWS: Final = ((1, 1), (1, 100), (64, 1), (64, 100))
"""Records of 1 kB in a batch, and partitions."""
_WARM_UP_S: Final = 2.0  # until a JVM has compiled what it needs


class Figures(NamedTuple):
    mib_per_s: float
    p50_ms: float
    cpu_s_per_gib: float


def assignment_of(partitions: int, leaders: str) -> list[list[int]]:
    """Returns the replicas of each partition, the leader first."""
    turned = [[*NODES[at % 3 :], *NODES[: at % 3]] for at in range(partitions)]
    return turned if leaders == "all" else [[*NODES]] * partitions


def wait_until_served(cluster: Mixed, topic: str, assignment: list[list[int]]) -> None:
    """Waits until each leader knows that it is one."""
    batch = record_batch([b"first"], int(time.time() * 1000))
    for node, broker in cluster.brokers.items():
        led = [at for at, replicas in enumerate(assignment) if replicas[0] == node]
        connection = Connection((broker.host, broker.port))
        for at in led:
            first = produce_request(topic, at, batch, -1)
            wait_for(lambda: produce_error(connection.ask(first), topic) == 0, f"{topic}-{at} is served")  # noqa: B023 - called at once
        connection.close()


def measure(cluster: Mixed, topic: str, records: int, assignment: list[list[int]], seconds: float) -> Figures:
    """Produces for some seconds to all leaders at once. Raises Refused if a broker refuses that, or OSError."""
    batch = record_batch([os.urandom(1000)] * records, int(time.time() * 1000))
    processes = [Process(broker.process.pid) for broker in cluster.brokers.values() if broker.process is not None]
    samples: list[float] = []
    problems: list[Exception] = []
    leaders = sorted({replicas[0] for replicas in assignment})
    deadline = time.perf_counter() + seconds

    def produce(number: int) -> None:
        node = leaders[number]
        broker = cluster.brokers[node]
        led = [at for at, replicas in enumerate(assignment) if replicas[0] == node]
        requests = [produce_request(topic, at, batch, -1) for at in led]
        connection, sent, mine, turn = Connection((broker.host, broker.port)), deque[float](), [], 0
        while not problems:
            while len(sent) < DEPTH and time.perf_counter() < deadline:
                sent.append(time.perf_counter())
                connection.send(requests[turn % len(requests)])
                turn += 1
            if not sent:
                break
            if code := produce_error(connection.receive(), topic):
                raise Refused(f"Produce: error {code}")
            mine.append(time.perf_counter() - sent.popleft())
        connection.close()
        samples.extend(mine)

    began = time.perf_counter()
    in_threads(produce, len(leaders), problems)
    took = time.perf_counter() - began
    used = sum(process.cpu_seconds() - process.before for process in processes)
    size = len(samples) * len(batch)
    return Figures(size / took / 2**20, percentiles(samples)["p50_ms"], used / (size / 2**30))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=named_clusters, default="ooo,kkk")
    parser.add_argument("--leaders", choices=("all", "first"), default="all")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left
    with tempfile.TemporaryDirectory(prefix="ottla-speed-") as directory, ExitStack() as stack:
        clusters: dict[str, Mixed] = {}
        for letters in arguments.clusters:
            cluster = clusters[letters] = Mixed(Path(directory, letters), [LETTERS[letter] for letter in letters])
            stack.callback(cluster.stop)
            cluster.start()
        for records, partitions in ROWS:
            topic, assignment = f"speed-{records}-{partitions}", assignment_of(partitions, arguments.leaders)
            for cluster in clusters.values():
                cluster.create(topic, assignment, min_insync_replicas="2", retention_bytes=str(1 << 28))
                wait_until_served(cluster, topic, assignment)
                measure(cluster, topic, records, assignment, _WARM_UP_S)
            rounds = [
                {
                    letters: measure(cluster, topic, records, assignment, arguments.seconds)
                    for letters, cluster in clusters.items()
                }
                for _ in range(arguments.rounds)
            ]
            for letters in clusters:
                columns = zip(Figures._fields, zip(*(each[letters] for each in rounds), strict=True), strict=True)
                medians = {name: round(statistics.median(figures), 2) for name, figures in columns}
                print(json.dumps({"cluster": letters, "records": records, "partitions": partitions} | medians), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
