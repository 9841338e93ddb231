"""Many partitions over three nodes: how long a start takes, the leaderships of a node that is killed, and what idle nodes cost.

    python -m scripts.bench.cluster_scale [--partitions 5000] [--kind ottla|kafka] [--idle-seconds 20]

A controller of Apache Kafka and three brokers of one kind hold a topic with a replication factor of 3. Prints one JSON object:

    created_s     from the request that creates the topic until every partition has all its replicas in sync, as the metadata
                  have it, and every broker has made its log
    idle_percent  the CPU time of each broker while nothing happens, once all are at rest, in percent of a core
    failover_s    from a kill -9 of one broker until no partition is led by it, less the session time, which both kinds wait for
    start_s       from the start of that broker until all its replicas are in sync again

Times are of the machine as it is: compare the two kinds in runs that follow each other, by CPU time where it is busy.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster.mixed import Mixed
from scripts.bench.compare import settle
from scripts.bench.kload import Process

NODES = (1, 2, 3)
SESSION_MS = 9_000
TOPIC = "scale"
LIMIT_S = 240.0
SETTINGS = {"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": "2000"}


class Run:
    """One cluster, and what is measured of it."""

    def __init__(self, directory: Path, kind: str, partitions: int) -> None:
        self.partitions = partitions
        self.cluster = Mixed(directory, [kind] * len(NODES), SETTINGS)
        self.brokers = self.cluster.brokers
        self.admin: Any = None

    def state(self) -> list[Any]:
        """Returns the partitions as the cluster has them, none while it cannot be asked."""
        found = self.admin.list_topics(TOPIC, 30).topics.get(TOPIC)
        return [] if found is None else list(found.partitions.values())

    def logs_are_made(self) -> bool:
        """Returns whether every broker has a directory for every partition."""
        return all(sum(1 for _ in broker.data_dir.glob(f"{TOPIC}-*")) == self.partitions for broker in self.brokers.values())

    def until(self, holds: Callable[[list[Any]], bool]) -> float:
        """Waits until this holds of all partitions; returns how long that took."""
        began = time.monotonic()
        while True:
            state = self.state()
            if len(state) == self.partitions and holds(state):
                return time.monotonic() - began
            if time.monotonic() - began > LIMIT_S:
                raise TimeoutError(f"not within {LIMIT_S:.0f} s, {len(state)} partitions known")
            time.sleep(0.05)  # between two questions, so that asking does not become the load

    def measure(self, idle_s: float) -> dict[str, Any]:
        """Runs through all figures."""
        self.cluster.start()
        self.admin = AdminClient({"bootstrap.servers": ",".join(self.brokers[each].bootstrap for each in NODES[:2])})
        began = time.monotonic()
        self.admin.create_topics([NewTopic(TOPIC, self.partitions, len(NODES))], request_timeout=LIMIT_S)[TOPIC].result(LIMIT_S)
        self.until(lambda state: all(len(each.isrs) == len(NODES) for each in state) and self.logs_are_made())
        figures: dict[str, Any] = {"created_s": round(time.monotonic() - began, 2)}
        settle(list(self.brokers.values()))
        processes = [Process(broker.process.pid) for broker in self.brokers.values() if broker.process is not None]
        time.sleep(idle_s)  # this is the measurement, not a wait for something
        figures["idle_percent"] = [round(100 * (each.cpu_seconds() - each.before) / idle_s, 1) for each in processes]
        victim = NODES[-1]
        self.brokers[victim].kill()
        waited = self.until(lambda state: all(each.leader not in (victim, -1) for each in state))
        figures["failover_s"] = round(waited - SESSION_MS / 1000, 2)
        began = time.monotonic()
        self.brokers[victim].start()
        self.until(lambda state: all(len(each.isrs) == len(NODES) for each in state))
        return figures | {"start_s": round(time.monotonic() - began, 2)}

    def stop(self) -> None:
        """Ends all processes; what they have written is of no more use."""
        for node in (*self.brokers.values(), self.cluster.controller):
            node.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=5_000)
    parser.add_argument("--kind", choices=("ottla", "kafka"), default="ottla")
    parser.add_argument("--idle-seconds", type=float, default=20)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left
    with tempfile.TemporaryDirectory(prefix="ottla-scale-") as directory:
        run = Run(Path(directory), arguments.kind, arguments.partitions)
        try:
            figures = run.measure(arguments.idle_seconds)
        finally:
            run.stop()
    print(json.dumps({"kind": arguments.kind, "partitions": arguments.partitions} | figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
