"""Moves coordinators between ottla and Apache Kafka in the middle of work, again and again, and compares with Kafka alone.

    python -m scripts.coordinator_moves [--moves 50] [--kinds classic,consumer,share,streams,transactions] [--brokers ook,kkk]
    python -m scripts.coordinator_moves --apart      one kind of work after the other, each on a cluster of its own

Each move gives the partitions of `__consumer_offsets`, `__transaction_state` and `__share_group_state` to other brokers, by a
reassignment and a preferred election, while members of groups commit and acknowledge, a Kafka Streams application counts and
copiers copy in transactions (compat_tests/cluster/work.py). `--brokers` names clusters of three by a letter for each broker, o
for ottla and k for Apache Kafka. The exit code is 1 if a commit is lost, a record is there twice that must be there once,
members share their partitions anew though nobody came or went, or clusters do not end in the same state.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from compat_tests.cluster.coordinators import SETTINGS
from compat_tests.cluster.mixed import LETTERS, Mixed, named_clusters
from compat_tests.cluster.workload import KINDS, at_work, make_work, move_all
from compat_tests.reference.kafka import BrokerFailed

Outcomes = dict[str, dict[str, object]]


def play(letters: str, kinds: Sequence[str], moves: int, directory: Path) -> Outcomes:
    """Returns how each kind of work ended. Raises AssertionError, BrokerFailed."""
    cluster = Mixed(directory, [LETTERS[letter] for letter in letters], SETTINGS)
    with at_work(cluster) as load:
        load.begin([make_work(kind, cluster, directory) for kind in kinds])
        for turn in range(moves):
            round = load.round(lambda: move_all(cluster, turn))  # noqa: B023 - called within the round
            said = f"{letters} {time.strftime('%H:%M:%S')} move {turn + 1} in {round.seconds:.2f} s"
            print(f"{said}; worked off: {', '.join(f'{kind} {count}' for kind, count in round.done.items())}", flush=True)
        fed = {kind: work.fed for kind, work in load.works.items()}
        told = {kind: dict(work.told) for kind, work in load.works.items()}
        outcomes = load.finish()
    for kind, outcome in outcomes.items():
        print(
            f"{letters}, {kind}: {moves} moves in the middle of work, {fed[kind]} records;"
            f" {outcome['epochs']} new epochs; clients were told {told[kind] or 'nothing'}"
        )
    return outcomes


def differences(found: dict[str, Outcomes]) -> list[str]:
    """Returns what is not the same in all clusters, and epochs that nothing accounts for."""
    (first, wanted), *others = found.items()
    wrong = [
        f"{kind}: {first} ends with {outcome}, {letters} with {outcomes[kind]}"
        for letters, outcomes in others
        for kind, outcome in wanted.items()
        if outcome != outcomes[kind]
    ]
    for letters, outcomes in found.items():
        if "o" in letters:
            wrong += [
                f"{letters}, {kind}: {each[what]} new {what}"
                for kind, each in outcomes.items()
                for what in ("epochs", "assignments")
                if each.get(what)
            ]
    return wrong


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=50)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--brokers", type=named_clusters, default="ook,kkk", help="clusters of three, a letter for each broker")
    parser.add_argument("--apart", action="store_true", help="each kind of work on a cluster of its own")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # brokers end with it, and are not left behind
    kinds, clusters = arguments.kinds.split(","), arguments.brokers
    if unknown := sorted(set(kinds) - set(KINDS)):
        parser.error(f"--kinds: there is no {unknown[0]}; take some of {', '.join(KINDS)}")
    found: dict[str, Outcomes] = {letters: {} for letters in clusters}
    for some in [[kind] for kind in kinds] if arguments.apart else [kinds]:
        for letters in clusters:
            directory = Path(tempfile.mkdtemp(prefix=f"coordinator-moves-{letters}-"))
            try:
                found[letters] |= play(letters, some, arguments.moves, directory)
            except (AssertionError, BrokerFailed) as error:
                print(f"{letters}: {error}\nthe logs are in {directory}", file=sys.stderr)
                return 1
            shutil.rmtree(directory)
    wrong = differences(found)
    print("\n".join(wrong) or f"the same outcome in {', '.join(clusters)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
