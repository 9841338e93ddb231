"""Goes from Apache Kafka to ottla and back, node by node under load, and raises the cluster's features on the way.

    python -m scripts.rolling_upgrades [--release 3.9-IV0] [--times 1]

Three brokers of Apache Kafka begin with the features of an older release. One after the other is stopped in order, and ottla
takes its directory over; between them the features are raised, release by release, up to the newest. Then the way back begins.
As soon as the features allow a kind of work, it begins: classic, consumer, share and streams groups, and copies in transactions
(compat_tests/cluster/work.py). A broker has to be back, with all replicas in sync, within `--bound` seconds. The exit code is 1
if it is not, if a commit is lost, a record is there twice that must be there once, or members share their partitions anew though
nobody came or went.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from compat_tests.cluster.coordinators import SETTINGS
from compat_tests.cluster.features import KINDS_SINCE, OLDEST, RELEASES, raise_to
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.workload import at_work, made, replace_broker
from compat_tests.reference.kafka import BrokerFailed

NODES: Final = (1, 2, 3)
_RAISED_BEFORE: Final = {1: ("4.0",), 2: ("4.1", "4.2"), 3: ("4.3", "4.4")}
"""By the number of brokers that are ottla's by then: what the features are raised to before the next one is."""
Step = tuple[str, Callable[[], None]]


def way(cluster: Mixed, times: int, begun: str) -> Iterator[tuple[str, Step]]:
    """Yields what is done, each with the release whose features the cluster has afterwards."""
    release = begun
    releases = list(RELEASES)
    for _ in range(times):
        for node in NODES:
            yield release, (f"{node} becomes ottla", partial(replace_broker, cluster, node, "ottla"))
            for wanted in _RAISED_BEFORE[node]:
                if releases.index(wanted) > releases.index(release):
                    release = wanted
                    yield release, (f"features of {release}", partial(raise_to, cluster, release, node))
        for node in NODES:
            yield release, (f"{node} becomes Kafka", partial(replace_broker, cluster, node, "kafka"))


def play(release: str, times: int, bound_s: float, directory: Path) -> list[str]:
    """Goes the way; returns what took too long. Raises AssertionError, BrokerFailed."""
    cluster = Mixed(directory, ["kafka"] * len(NODES), SETTINGS, release=release)
    late: list[str] = []
    begun = release.partition("-")[0]
    with at_work(cluster) as load:

        def begin(until: str) -> None:
            for since, kinds in KINDS_SINCE.items():
                if list(RELEASES).index(since) <= list(RELEASES).index(until):
                    load.begin([made(kind, cluster, directory) for kind in kinds if kind not in load.works])

        begin(begun)
        for reached, (said, action) in way(cluster, times, begun):
            round = load.round(action)
            print(f"{time.strftime('%H:%M:%S')} {said}: {round.seconds:.2f} s, worked off: {round.done}", flush=True)
            if round.seconds > bound_s:
                late.append(f"{said}: {round.seconds:.2f} s")
            begin(reached)
        fed = {kind: work.fed for kind, work in load.works.items()}
        told = {kind: dict(work.told) for kind, work in load.works.items()}
        outcomes = load.finish()
    for kind, outcome in outcomes.items():
        print(f"{kind}: {fed[kind]} records, {outcome['epochs']} new epochs; clients were told {told[kind] or 'nothing'}")
    return late + [f"{kind}: {each['epochs']} new epochs" for kind, each in outcomes.items() if each["epochs"]]


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--release", default=OLDEST, help="the metadata.version to begin with, from 3.9-IV0 on")
    parser.add_argument("--times", type=int, default=1, help="how often there and back")
    parser.add_argument("--bound", type=float, default=15.0, help="seconds")
    arguments = parser.parse_args()
    if arguments.release.partition("-")[0] not in RELEASES:
        parser.error(f"--release: {arguments.release} is not of one of the releases {', '.join(RELEASES)}, such as {OLDEST}")
    directory = Path(tempfile.mkdtemp(prefix="rolling-upgrades-"))
    try:
        wrong = play(arguments.release, arguments.times, arguments.bound, directory)
    except (AssertionError, BrokerFailed) as error:
        print(f"{error}\nthe logs are in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    print("\n".join(wrong) or "nothing is lost, doubled or shared anew")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
