"""The bench of how many commits and transactions three brokers coordinate: clusters of ottla and of Apache Kafka side by side, in
turn.

    python -m scripts.bench.cluster_coordinators [--clusters ooo,kkk] [--rounds 4] [--seconds 5]

All topics have a replication factor of 3 and min.insync.replicas of 2. Each broker coordinates three of nine groups, whose
members commit for four partitions, five requests in flight; and three of nine transactional ids, whose producers write 100
records of 100 bytes, to a partition that another broker leads, and commit. The clients do as little as they can (kload_wire.py,
kload_txn.py).

Prints a JSON object for each row and cluster, the medians over the rounds: how many a second, their median and 99th percentile in
ms, and the CPU time of all brokers for each; and a line with the first cluster's figures as multiples of each other one's. On a
machine that does something else only the CPU time says much.
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
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from compat_tests.cluster.coordinators import OFFSETS, TRANSACTIONS
from compat_tests.cluster.mixed import LETTERS, Mixed, named_clusters
from ottla.server.coordination.java_hash import java_hash_bucket
from scripts.bench.cluster_speed import NODES, assignment_of, wait_until_served
from scripts.bench.kload import Process, in_threads, percentiles
from scripts.bench.kload_txn import Batches, Transactions
from scripts.bench.kload_wire import Connection, Member, find_coordinator

PARTITIONS: Final = len(NODES)
"""Of the internal topics: each broker leads one."""
CLIENTS: Final = 9
DEPTH: Final = 5
COMMITTED: Final = 4
RECORDS: Final = 100
RECORD_BYTES: Final = 100
SETTINGS: Final = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "min.insync.replicas": "2",
}
WRITTEN: Final = "written"
ASSIGNMENT: Final = assignment_of(6, "all")
"""Of the topic that is written and of which offsets are committed."""
_WARM_UP_S: Final = 4.0  # until a JVM has compiled what it needs

Worker = Callable[[float], list[float]]
"""Works until a time of time.perf_counter; returns how long each piece of work took, in seconds."""


class Figures(NamedTuple):
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


def names(prefix: str) -> list[str]:
    """Returns names that Java's hash spreads over the partitions of an internal topic, each partition in turn."""
    found: list[str] = []
    for number in count():
        name = f"{prefix}-{number}"
        if java_hash_bucket(name, PARTITIONS) == len(found) % PARTITIONS:
            found.append(name)
        if len(found) == CLIENTS:
            break
    return found


def connect(cluster: Mixed, node: int) -> Connection:
    broker = cluster.brokers[node]
    return Connection((broker.host, broker.port))


def committers(cluster: Mixed) -> list[Worker]:
    """Returns a worker for each group, which has one member."""
    workers: list[Worker] = []
    for number, group in enumerate(names("group")):
        node = NODES[number % PARTITIONS]
        broker = cluster.brokers[node]
        find_coordinator((broker.host, broker.port), group)
        member = Member(connect(cluster, node), group)
        member.join()
        member.sync()
        workers.append(partial(member.commit_until, topic=WRITTEN, partitions=COMMITTED, depth=DEPTH))
    return workers


def producers(cluster: Mixed) -> list[Worker]:
    """Returns a worker for each transactional id, whose coordinator is the node before that of its partition."""
    values = [os.urandom(RECORD_BYTES)] * RECORDS
    workers = []
    for number, name in enumerate(names("producer")):
        at, batches = (number + 1) % PARTITIONS, Batches(values, int(time.time() * 1000))
        leader, coordinator = connect(cluster, NODES[at]), connect(cluster, NODES[number % PARTITIONS])
        workers.append(_producer(Transactions(leader, name, WRITTEN, at, batches, coordinator)))
    return workers


def _producer(transactions: Transactions) -> Worker:
    def work(deadline: float) -> list[float]:
        mine = []
        while (now := time.perf_counter()) < deadline:
            transactions.run()
            mine.append(time.perf_counter() - now)
        return mine

    return work


def measure(cluster: Mixed, workers: Sequence[Worker], seconds: float) -> Figures:
    """Has all work for some seconds at once. Raises Refused if a broker refuses that, or OSError."""
    processes = [Process(broker.process.pid) for broker in cluster.brokers.values() if broker.process is not None]
    samples: list[float] = []
    problems: list[Exception] = []
    began = time.perf_counter()
    in_threads(lambda number: samples.extend(workers[number](began + seconds)), len(workers), problems)
    took = time.perf_counter() - began
    used = sum(process.cpu_seconds() - process.before for process in processes)
    found = percentiles(samples)
    return Figures(len(samples) / took, found["p50_ms"], found["p99_ms"], used / len(samples) * 1e6)


def start(letters: str, directory: Path) -> Mixed:
    """Starts a cluster whose internal topics have a partition for each node to lead."""
    cluster = Mixed(directory, [LETTERS[letter] for letter in letters], SETTINGS)
    try:
        cluster.start()
        for topic in (OFFSETS, TRANSACTIONS):
            cluster.create(topic, assignment_of(PARTITIONS, "all"), cleanup_policy="compact", min_insync_replicas="2")
        cluster.create(WRITTEN, ASSIGNMENT, min_insync_replicas="2", retention_bytes=str(1 << 28))
        wait_until_served(cluster, WRITTEN, ASSIGNMENT)
    except BaseException:
        cluster.stop()
        raise
    return cluster


ROWS: Final[dict[str, Callable[[Mixed], list[Worker]]]] = {"commits": committers, "transactions": producers}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=named_clusters, default="ooo,kkk")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left
    with tempfile.TemporaryDirectory(prefix="ottla-coordinators-") as directory, ExitStack() as stack:
        clusters: dict[str, Mixed] = {}
        for letters in arguments.clusters:
            clusters[letters] = start(letters, Path(directory, letters))
            stack.callback(clusters[letters].stop)
        for row, make in ROWS.items():
            workers = {letters: make(cluster) for letters, cluster in clusters.items()}
            for letters, cluster in clusters.items():
                measure(cluster, workers[letters], _WARM_UP_S)
            rounds = [
                {letters: measure(cluster, workers[letters], arguments.seconds) for letters, cluster in clusters.items()}
                for _ in range(arguments.rounds)
            ]
            medians = {
                letters: Figures(*map(statistics.median, zip(*(each[letters] for each in rounds), strict=True)))
                for letters in clusters
            }
            for letters, figures in medians.items():
                rounded = {name: round(value, 2) for name, value in figures._asdict().items()}
                print(json.dumps({"row": row, "cluster": letters} | rounded), flush=True)
            (first, ours), *others = medians.items()
            for letters, theirs in others:
                ratios = [f"{name} {mine / its:.2f}" for name, mine, its in zip(Figures._fields, ours, theirs, strict=True)]
                print(f"{row}: {first} to {letters}: {', '.join(ratios)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
