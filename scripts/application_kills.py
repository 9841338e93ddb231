"""Kills each broker of a cluster in turn under Kafka Streams and Kafka Connect, again and again: nothing is lost or doubled.

    python -m scripts.application_kills [--rounds 2] [--kinds classic-streams,streams,connect-once,connect] [--brokers ooo,ook]
    python -m scripts.application_kills --brokers kkk         the control: Apache Kafka alone
    python -m scripts.application_kills --record              and note it in docs/proofs.md

Each kind of application has a cluster of its own, with three replicas of all topics and min.insync.replicas=2. Streams counts
words with exactly_once_v2, as a classic or as a streams group; Connect has two workers, with exactly.once.source.support or
without (compat_tests/cluster/work_of_transactions.py and work_of_connect.py). In a round each broker is killed (kill -9), and
started again when others lead and the application has gone on; then the application of Streams is killed, or a worker of
Connect, whose connectors also restart.
`--brokers` names clusters by a letter for each broker, o for ottla and k for Apache Kafka. The exit code is 1 if a word is
miscounted, a line is missing, or one is in the topic twice that must be there once.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.cluster.coordinators import SETTINGS
from compat_tests.cluster.mixed import LETTERS, Mixed, named_clusters
from compat_tests.cluster.work import Work
from compat_tests.cluster.work_of_connect import AGAIN
from compat_tests.cluster.workload import APPLICATIONS, Workload, at_work, disturbances, make_work
from compat_tests.reference.kafka import BrokerFailed
from scripts import proofs


@dataclass
class Played:
    """The course of one application on one cluster, and what was wrong."""

    application: str
    brokers: str
    seconds: list[float] = field(default_factory=list)
    """Of each kill of a broker, until all was whole again."""
    others: int = 0
    records: int = 0
    again: int = 0
    wrong: str = ""

    def record(self, origin: dict[str, str]) -> None:
        """Adds it to the ledger of proofs."""
        about = {"application": self.application, "brokers": self.brokers}
        counts = {"kills": len(self.seconds), "others": self.others, "records": self.records, "again": self.again}
        found = [f"{self.brokers}, {self.application}: {self.wrong}"] if self.wrong else []
        most = {"slowest_s": max(self.seconds, default=0.0)}
        proofs.record(proofs.APPLICATIONS, {**origin, **about}, counts, most=most, found=found)


def play(kind: str, letters: str, rounds: int) -> Played:
    """Has one kind of application work on one cluster. What goes wrong is in what is returned, and the logs are kept then."""
    played = Played(kind, letters)
    directory = Path(tempfile.mkdtemp(prefix=f"application-kills-{kind}-{letters}-"))
    cluster = Mixed(directory, [LETTERS[letter] for letter in letters], SETTINGS)
    try:
        with at_work(cluster) as load:
            work = make_work(kind, cluster, directory)
            try:
                load.begin([work])
                for _ in range(rounds):
                    _disturb(load, work, played)
                outcome = load.finish()[kind]
            finally:
                played.records, played.again = work.fed, sum(work.told[each] for each in AGAIN)
    except (AssertionError, BrokerFailed) as error:
        played.wrong = str(error).splitlines()[0]
        print(f"{letters}, {kind}: {error}\nthe logs are in {directory}", file=sys.stderr, flush=True)
    else:
        shutil.rmtree(directory)
        print(f"{letters}, {kind}: {work.fed} records, {outcome}; told {dict(work.told) or 'nothing'}", flush=True)
    return played


def _disturb(load: Workload, work: Work, played: Played) -> None:
    for disturbance in disturbances(load, work):
        took = load.round(disturbance.action)
        if disturbance.is_kill:
            played.seconds.append(took.seconds)
        else:
            played.others += 1
        said = f"{played.brokers} {time.strftime('%H:%M:%S')} {work.kind}: {disturbance.said} in {took.seconds:.2f} s"
        print(f"{said}; worked off: {took.done[work.kind]}", flush=True)


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="in each of which every broker is killed once")
    parser.add_argument("--kinds", default=",".join(APPLICATIONS))
    parser.add_argument("--brokers", type=named_clusters, default="ooo,ook", help="clusters of three, a letter for each broker")
    parser.add_argument("--record", action="store_true", help="note it in docs/proofs.md")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # brokers end with it, and are not left behind
    kinds = arguments.kinds.split(",")
    if unknown := sorted(set(kinds) - set(APPLICATIONS)):
        parser.error(f"--kinds: there is no {unknown[0]}; take some of {', '.join(APPLICATIONS)}")
    origin = proofs.origin()
    wrong = 0
    for kind in kinds:
        for letters in arguments.brokers:
            played = play(kind, letters, arguments.rounds)
            wrong += bool(played.wrong)
            if arguments.record:
                played.record(origin)
    print(
        f"{wrong} of {len(kinds) * len(arguments.brokers)} were not as they should be" if wrong else "nothing is lost or doubled"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
