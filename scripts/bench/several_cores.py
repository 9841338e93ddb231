"""The bench of two brokers of ottla on two cores, beside one on one core.

    python -m scripts.bench.several_cores [--rounds 4] [--seconds 4] [--records 1] [--record-bytes 100]

Two brokers are in one cluster, each bound to a core as `ottla cluster --cores` does it. A topic has a partition for each of
them, with one replica. First the one is sent Produce requests, with acks=1, as fast as it answers, then both at once; and so on
in turn. The sender (volley/) takes a part of the two cores, and beside two brokers no core is left for it. So each round says
its share as well, and what brokers would do alone: a request for each so much of a core's second as it takes.

Prints a JSON object for each round, and the medians of how the two compare.
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
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from compat_tests.cluster.mixed import Mixed
from compat_tests.reference.kafka import BrokerProcess
from ottla.commands.cluster import cores
from scripts.bench.cluster_speed import wait_until_served
from scripts.bench.go_programs import built
from scripts.bench.kload import Process
from scripts.bench.kload_wire import produce_request, record_batch

TOPIC: Final = "several-cores"
ERROR_AT: Final = 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4
"""The position of the error code of its one partition in the answer to a Produce of version 7: behind its size, correlation id,
the number of topics, the name, the number of partitions and the index."""
ACKS: Final = 1


def pin(pid: int, core: int) -> None:
    """Binds a process with all its threads to a core."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


def measure(brokers: Sequence[BrokerProcess], requests: Sequence[Path], options: argparse.Namespace) -> dict[str, float]:
    """Sends each broker its request over and over, all at the same time; returns the figures of all of them together."""
    processes = [Process(broker.process.pid) for broker in brokers if broker.process is not None]
    words = [str(options.connections), str(options.depth), str(options.seconds), str(ERROR_AT)]
    senders = [
        subprocess.Popen([str(built("volley")), f"{broker.host}:{broker.port}", str(request), *words], stdout=subprocess.PIPE)
        for broker, request in zip(brokers, requests, strict=True)
    ]
    said = [json.loads(sender.communicate()[0] or "{}") for sender in senders]
    if not all(said):
        raise SystemExit("a sender failed; it said why")
    used = sum(process.cpu_seconds() - process.before for process in processes)
    return summed(said, used)


def summed(said: Sequence[dict[str, float]], broker_cpu_s: float) -> dict[str, float]:
    """Returns what senders did together, and how much CPU time they and the brokers took for a request."""
    total = sum(each["requests"] for each in said)
    return {
        "requests_per_s": round(sum(each["requests_per_s"] for each in said)),
        "broker_us_per_request": round(broker_cpu_s / total * 1e6, 2),
        "sender_us_per_request": round(sum(each["cpu_s"] for each in said) / total * 1e6, 2),
        "requests_per_s_of_a_core": round(total / broker_cpu_s),
    }


def compared(one: dict[str, float], two: dict[str, float]) -> dict[str, float]:
    """Returns how much two brokers on two cores do of what one does: as measured, beside the sender; by their CPU time alone; and
    the most that is possible beside that sender, if a request costs two brokers what it costs one."""
    broker, sender = one["broker_us_per_request"], one["sender_us_per_request"]
    return {
        "measured": round(two["requests_per_s"] / one["requests_per_s"], 2),
        "without_sender": round(2 * two["requests_per_s_of_a_core"] / one["requests_per_s_of_a_core"], 2),
        "possible": round(2 * broker / (broker + sender), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--records", type=int, default=1)
    parser.add_argument("--record-bytes", type=int, default=100)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left
    batch = record_batch([os.urandom(options.record_bytes)] * options.records, int(time.time() * 1000))
    with tempfile.TemporaryDirectory(prefix="ottla-cores-") as directory, ExitStack() as stack:
        requests = [Path(directory, f"{at}.request") for at in range(2)]
        for at, path in enumerate(requests):
            path.write_bytes(produce_request(TOPIC, at, batch, ACKS))
        cluster = Mixed(Path(directory), ["ottla", "ottla"])
        stack.callback(cluster.stop)
        cluster.start()
        brokers = list(cluster.brokers.values())
        for broker, core in zip(brokers, cores.shared_out(cores.usable(), 2), strict=True):
            assert broker.process is not None
            pin(broker.process.pid, core)
        cluster.create(TOPIC, [[1], [2]], min_insync_replicas="1", retention_bytes=str(1 << 28))
        wait_until_served(cluster, TOPIC, [[1], [2]])
        rounds = []
        for _ in range(options.rounds):
            one, two = measure(brokers[:1], requests[:1], options), measure(brokers, requests, options)
            rounds.append(compared(one, two))
            print(json.dumps({"one": one, "two": two, "ratio": rounds[-1]}), flush=True)
        print(json.dumps({name: statistics.median(each[name] for each in rounds) for name in rounds[0]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
