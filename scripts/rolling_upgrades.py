"""Takes three brokers from Apache Kafka to ottla and back, one after the other, on their directories and under load.

    python -m scripts.rolling_upgrades [--way ottla,kafka] [--kinds classic,consumer,share,streams,transactions] [--bound 15]
    python -m scripts.rolling_upgrades --release 3.9-IV0     with an older release's features, which are raised on the way
    python -m scripts.rolling_upgrades --way kafka,kafka     the control: each broker is only started again

The brokers begin as Apache Kafka's. In each turn of `--way`, one after the other is stopped in order, and a broker of that kind
takes its directory and port over, while groups of all kinds and copiers in transactions work (compat_tests/cluster/work.py):
librdkafka's, and a Kafka Streams application with exactly_once_v2. Work that needs newer features begins as soon as they are
there. The exit code is 1 if a broker is not back, with all replicas in sync, within `--bound` seconds; if a commit is lost, a
record is lost or there twice; or if members share their partitions anew though nobody came or went.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from compat_tests.cluster.coordinators import SETTINGS
from compat_tests.cluster.features import RELEASES, raise_to
from compat_tests.cluster.mixed import CLASSES, Mixed
from compat_tests.cluster.workload import KINDS, KINDS_SINCE, at_work, make_work, replace_broker
from compat_tests.reference.kafka import BrokerFailed

NODES: Final = (1, 2, 3)
_NEWEST: Final = list(RELEASES)[-1]


class Step(NamedTuple):
    """`release`: whose features the cluster has afterwards."""

    said: str
    action: Callable[[], None]
    release: str


def way(cluster: Mixed, turns: Sequence[str], release: str) -> Iterator[Step]:
    """Yields what is done: all nodes in each turn, and in the first one the features, after a node each, in equal parts."""
    missing, reached = list(RELEASES)[list(RELEASES).index(release) + 1 :], release
    due = {
        node: missing[len(missing) * at // len(NODES) : len(missing) * (at + 1) // len(NODES)] for at, node in enumerate(NODES)
    }
    for kind in turns:
        for node in NODES:
            yield Step(f"{node} becomes {kind}", partial(replace_broker, cluster, node, kind), reached)
            for reached in due.pop(node, ()):
                yield Step(f"features of {reached}", partial(raise_to, cluster, reached, node), reached)


def play(turns: Sequence[str], kinds: Sequence[str], release: str, bound_s: float, directory: Path) -> list[str]:
    """Goes the way; returns what took too long or was shared anew. Raises AssertionError, BrokerFailed."""
    began_with = release.partition("-")[0] or _NEWEST
    cluster = Mixed(directory, ["kafka"] * len(NODES), SETTINGS, release=release)
    wrong: list[str] = []
    with at_work(cluster) as load:

        def begin(known: str) -> None:
            releases = list(RELEASES)
            able = [kind for kind in kinds if releases.index(KINDS_SINCE[kind]) <= releases.index(known)]
            load.begin([make_work(kind, cluster, directory) for kind in able if kind not in load.works])

        begin(began_with)
        for step in way(cluster, turns, began_with):
            round = load.round(step.action)
            done = ", ".join(f"{kind} {count}" for kind, count in round.done.items())
            print(f"{time.strftime('%H:%M:%S')} {step.said} in {round.seconds:.2f} s; worked off: {done}", flush=True)
            if round.seconds > bound_s:
                wrong.append(f"{step.said}: {round.seconds:.2f} s")
            begin(step.release)
        fed = {kind: work.fed for kind, work in load.works.items()}
        told = {kind: dict(work.told) for kind, work in load.works.items()}
        outcomes = load.finish()
    for kind, outcome in outcomes.items():
        print(f"{kind}: {fed[kind]} records, {outcome['epochs']} new epochs; clients were told {told[kind] or 'nothing'}")
        wrong += [f"{kind}: {outcome[what]} new {what}" for what in ("epochs", "assignments") if outcome.get(what)]
    return wrong


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--way", default="ottla,kafka", help="what the brokers become, turn by turn")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--release", default="", help="the metadata.version to begin with, such as 3.9-IV0; else the newest")
    parser.add_argument("--bound", type=float, default=15.0, help="seconds")
    arguments = parser.parse_args()
    turns, kinds = arguments.way.split(","), arguments.kinds.split(",")
    for option, words, known in (("--way", turns, sorted(CLASSES)), ("--kinds", kinds, KINDS)):
        if unknown := sorted(set(words) - set(known)):
            parser.error(f"{option}: there is no {unknown[0]}; take some of {', '.join(known)}")
    if (arguments.release.partition("-")[0] or _NEWEST) not in RELEASES:
        parser.error(f"--release: {arguments.release} is of none of the releases {', '.join(RELEASES)}; take one such as 3.9-IV0")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # brokers end with it, and are not left behind
    directory = Path(tempfile.mkdtemp(prefix="rolling-upgrades-"))
    try:
        wrong = play(turns, kinds, arguments.release, arguments.bound, directory)
    except (AssertionError, BrokerFailed) as error:
        print(f"{error}\nthe logs are in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    print("\n".join(wrong) or "nothing is lost, doubled or shared anew")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
