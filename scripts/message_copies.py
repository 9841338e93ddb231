"""Consume, transform, produce through kills, in every way of `WAYS`, each on a broker or a cluster of its own.

    python -m scripts.message_copies [--kind ottla|kafka] [--seed N] [--only TEXT]... [--keep DIR]
    python -m scripts.message_copies --clusters ooo,ook      three brokers, a letter for each: o for ottla, k for Apache Kafka

compat_tests/message_copies.py says what is copied by whom and what is asked of it. With `--kind kafka` clean stops of the broker
are left out, for the reason that it gives. In a cluster the topics have three replicas, of which two must be in sync, and each
bounce of the broker is that of another node, once the others have all replicas in sync. The first broken promise ends the run
with exit code 1.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Final

from compat_tests.brokers import CLASSES
from compat_tests.cluster.bouncing import InTurn
from compat_tests.cluster.mixed import LETTERS, Mixed, named_clusters
from compat_tests.message_copies import WAITS_FOR_MEMBERS, Bounced, Copies, Figures, Way


def _ways() -> Iterator[Way]:
    for bounced in ("copiers", "broker"):
        for clean in (False, True):
            name = f"{'clean' if clean else 'hard'} bounces of the {bounced}"
            yield Way(f"{name}, with group metadata", bounced, clean)
            yield Way(f"{name}, without group metadata", bounced, clean, group_metadata=False)
            yield Way(f"{name}, consumer protocol", bounced, clean, reader_protocol="consumer")
            yield Way(f"{name}, one group", bounced, clean, group_mode=True)


WAYS: Final = tuple(_ways())
FULL: Final = Figures()
FULL_GROUP: Final = Figures(partitions=9, copiers=3)
IN_A_CLUSTER: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "6000",
    "replica.fetch.backoff.ms": "200",
}


def _loses(kind: str, way: Way) -> bool:
    """Returns whether this broker may break the promise by itself, as compat_tests/message_copies.py describes."""
    return kind == "kafka" and way.bounced == "broker" and way.clean


@contextmanager
def _running(kind: str, way: Way, directory: Path) -> Iterator[tuple[Bounced, int, Callable[[], str]]]:
    """Starts a broker, or a cluster of the kinds in the letters of `kind`, for the copies of a way; yields it, the replicas that
    topics have there, and what tells the end of its log."""
    settings = WAITS_FOR_MEMBERS if way.group_mode else {}
    if kind in CLASSES:
        broker = CLASSES[kind](directory / "broker", settings)
        broker.start()
        try:
            yield broker, 1, broker.log_tail
        finally:
            broker.kill()
        return
    cluster = Mixed(directory, [LETTERS[letter] for letter in kind], IN_A_CLUSTER | settings)
    try:
        cluster.start()
        yield InTurn(cluster), len(cluster.brokers), cluster.tails
    finally:
        cluster.stop()


def _play(kind: str, way: Way, directory: Path, seed: int) -> None:
    """Copies in one way, and prints how that went. Raises SystemExit at a broken promise."""
    directory.mkdir(parents=True)
    figures = FULL_GROUP if way.group_mode else FULL
    words = directory / "said.txt"
    with _running(kind, way, directory) as (broker, replicas, tail):
        try:
            with open(words, "w") as said, redirect_stdout(said):  # what the processes said, for a failure
                told = Copies(broker, way, figures, directory, seed, replicas).play()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(f"{words.read_text()[-20_000:]}\n{tail()}\n{way.name}: {error}", file=sys.stderr)
            raise SystemExit(1) from None
    print(
        f"{kind}, {way.name}: {figures.messages} messages each once and in order; {told.restarts} restarts,"
        f" {told.given_up} copiers gave up; {told.seconds:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kind", choices=sorted(CLASSES), default="ottla")
    where.add_argument("--clusters", type=named_clusters, help="clusters of three, a letter for each broker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="only ways whose name holds this")
    parser.add_argument("--keep", type=Path, help="a directory for all logs, which stays")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # brokers end with it, and are not left behind
    logging.getLogger("message_copies.librdkafka").disabled = True
    with tempfile.TemporaryDirectory(prefix="message-copies-") as temporary:
        for kind in arguments.clusters or [arguments.kind]:
            ways = [way for way in WAYS if all(text in way.name for text in arguments.only) and not _loses(kind, way)]
            for number, way in enumerate(ways):
                _play(kind, way, (arguments.keep or Path(temporary)) / f"{kind}-{number}", arguments.seed + number)


if __name__ == "__main__":
    main()
