"""Moves a topic from Apache Kafka to ottla and back with kafka-reassign-partitions, while it is written and read.

    python -m scripts.cluster_moves [--megabytes 1000] [--load 5]
    python -m scripts.cluster_moves --record         and note it in docs/proofs.md

Two brokers of each kind are in one cluster, and the topic has two replicas of four partitions. It is filled first; then records
come at `--load` MB/s, and a reader has read everything from the beginning when it ends. The exit code is 1 unless each record was
acknowledged, read once and in order, and all replicas are the same bytes in the end (compat_tests/cluster/traffic.py).
"""

from __future__ import annotations

import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Final

from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.traffic import Traffic
from compat_tests.waiting import wait_for
from scripts import proofs

TOPIC: Final = "moved"
PLACES: Final = {"kafka": [[1, 2], [2, 1]] * 2, "ottla": [[3, 4], [4, 3]] * 2}
RECORD_BYTES: Final = 4_000
_PATIENCE_S: Final = 400.0


def play(directory: Path, megabytes: int, load: float) -> tuple[dict[str, float], int]:
    """Moves the topic there and back; returns how many seconds each took from the start of Kafka's tool on, and how many records
    there were. Raises AssertionError, BrokerFailed."""
    cluster = Mixed(directory, ["kafka", "kafka", "ottla", "ottla"])
    took: dict[str, float] = {}
    try:
        cluster.start()
        cluster.create(TOPIC, PLACES["kafka"], min_insync_replicas="2", segment_bytes="104857600")
        size = megabytes * 1_000_000
        traffic = Traffic(cluster.bootstrap, TOPIC, len(PLACES["kafka"]), round(load * 1e6), RECORD_BYTES, size)
        with traffic:
            wait_for(lambda: traffic.count * RECORD_BYTES >= size, "the topic is filled", _PATIENCE_S)
            for to in ("ottla", "kafka"):
                traffic.wait_for_more()
                began = time.monotonic()
                cluster.reassign(TOPIC, PLACES[to], directory, _PATIENCE_S)
                took[to] = time.monotonic() - began
                print(f"{traffic.count * RECORD_BYTES / 1e6:.0f} MB are at {to} after {took[to]:.1f} s", flush=True)
                traffic.wait_for_more()
        cluster.wait_until_equal(TOPIC, PLACES["kafka"])
    finally:
        cluster.stop()
    return took, traffic.count


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000, help="that the topic has before the first move")
    parser.add_argument("--load", type=float, default=5, help="MB/s while it moves")
    parser.add_argument("--record", action="store_true", help="note the run in docs/proofs.md")
    arguments = parser.parse_args()
    origin = proofs.origin()
    with tempfile.TemporaryDirectory(prefix="cluster-moves-") as directory:
        try:
            took, count = play(Path(directory), arguments.megabytes, arguments.load)
        except AssertionError as error:
            print(error, file=sys.stderr)
            return 1
    print(f"{count} records, each acknowledged, read once and in order; all replicas are the same bytes")
    if arguments.record:
        about = {"megabytes": str(arguments.megabytes), "load": f"{arguments.load:g} MB/s"}
        counts = {"records": count, "there_s": took["ottla"], "back_s": took["kafka"]}
        proofs.record(proofs.MOVE, {**origin, **about}, {}, most=counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
