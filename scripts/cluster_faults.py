"""Something befalls one broker of a cluster of ottla and Apache Kafka under load, round after round, and nothing may be lost.

    python -m scripts.cluster_faults [--rounds 1] [--faults kill,stop,pause,cut,cut-from,cut-to,full] [--brokers ook,okk,ooo]
    python -m scripts.cluster_faults --record        and note it in docs/proofs.md

compat_tests/cluster/fault_rounds.py says what befalls a broker and what is promised. `--brokers` names clusters by a letter for
each broker, o for ottla and k for Apache Kafka; each cluster plays so many rounds of each fault, and the brokers are hit in turn.
Every round is a line. The exit code is 1 if an acknowledged record was lost, a cluster did not recover or replicas differ in the
end, and also if a partition was without a leader for longer than it may be: the session and 1.5 s, or 2 s after SIGTERM.

The clusters are in namespaces of their own (unshare: user, network, mounts), each node in a network and on a small file system of
its own, so that no root is needed and nothing else of this machine is touched.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from compat_tests.cluster.fault_rounds import FAULTS, SESSION_S, Round, Rounds, settings
from compat_tests.cluster.mixed import LETTERS, Mixed, named_clusters
from compat_tests.cluster.networks import Networks
from compat_tests.cluster.nodes import CONTROLLER_ID
from compat_tests.reference.kafka import BrokerFailed
from compat_tests.rooms import Room, small_disk
from scripts import proofs
from scripts.namespaces import is_inside, run_inside

CLUSTERS: Final = ("ook", "okk", "ooo")
_SMALL: Final = "96m"
_START_S: Final = 300
"""The time that a start may take, on a machine that may be busy with other things."""


def bound_s(fault: str, session_s: float) -> float:
    """Returns within how many seconds there has to be a leader again."""
    return 2.0 if fault == "stop" else session_s + 1.5


@contextmanager
def cluster_of(letters: str, directory: Path, networks: Networks, session_s: float) -> Iterator[tuple[Mixed, dict[int, Room]]]:
    """Yields a cluster that runs, and the room on the file system of each broker."""
    cluster = Mixed(directory, [LETTERS[letter] for letter in letters], settings(session_s), networks)
    with ExitStack() as disks:
        rooms = {node: disks.enter_context(small_disk(broker, _SMALL)) for node, broker in cluster.brokers.items()}
        for broker in cluster.brokers.values():
            broker.start_timeout_s = _START_S
        try:
            cluster.start()
            yield cluster, rooms
        finally:
            for process in (*cluster.brokers.values(), cluster.controller):
                process.kill()


def play(letters: str, faults: list[str], networks: Networks, arguments: Namespace) -> tuple[list[Round], int, list[str]]:
    """Plays the rounds of one cluster; returns them, how many records were acknowledged, and what went wrong."""
    directory = Path(tempfile.mkdtemp(prefix=f"cluster-faults-{letters}-"))
    done: list[Round] = []
    count, wrong = 0, []
    with cluster_of(letters, directory, networks, arguments.session) as (cluster, rooms):
        rounds = Rounds(cluster, networks, rooms)
        doing = "the load"
        try:
            with rounds.under_load():
                for number in range(arguments.rounds * len(faults)):
                    fault, node = faults[number % len(faults)], list(rooms)[(number // len(faults) + number) % len(rooms)]
                    doing = f"{fault} of {node}, {cluster.brokers[node].kind}"
                    done.append(rounds.play(fault, node))
                    took = done[-1]
                    said = f"{doing}: a leader after {took.leader_s:.2f} s, nothing acknowledged for {took.outage_s:.2f} s"
                    print(f"{letters} {time.strftime('%H:%M:%S')} {said}; {rounds.traffic.count} records", flush=True)
        except (AssertionError, BrokerFailed) as error:
            wrong.append(f"{letters}, {doing}: {str(error).splitlines()[0]}")
            print(f"{letters}, {doing}: {error}", flush=True)
            kept = Path(tempfile.mkdtemp(prefix="cluster-faults-kept-"))
            for process in (cluster.controller, *cluster.brokers.values()):
                shutil.copy(process.log_file, kept / f"{process.directory.name}.log")
            print(f"    the logs are in {kept}", flush=True)
        count = rounds.traffic.count
    shutil.rmtree(directory)
    return done, count, wrong


def record(letters: str, rounds: list[Round], count: int, wrong: list[str], session_s: float, origin: dict[str, str]) -> None:
    """Adds the rounds of one cluster to the ledger of proofs."""
    by_kind: dict[tuple[str, str], list[Round]] = defaultdict(list)
    for each in rounds:
        by_kind[each.fault, each.kind].append(each)
    share = round(count / max(len(rounds), 1))
    for at, ((fault, kind), some) in enumerate(sorted(by_kind.items())):
        late = sum(each.leader_s > bound_s(fault, session_s) for each in some)
        counts = {"rounds": len(some), "records": share * len(some), "late": late}
        slowest = {"leader_s": max(each.leader_s for each in some), "outage_s": max(each.outage_s for each in some)}
        about = {"brokers": letters, "fault": fault, "hit": kind, "session_s": f"{session_s:g}"}
        proofs.record(proofs.CLUSTER, {**origin, **about}, counts, most=slowest, found=wrong if at == 0 else ())


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="of each fault, for each cluster")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--brokers", type=named_clusters, default=",".join(CLUSTERS))
    parser.add_argument("--session", type=float, default=SESSION_S, metavar="SECONDS", help="broker.session.timeout.ms")
    parser.add_argument("--record", action="store_true", help="note the rounds in docs/proofs.md")
    arguments = parser.parse_args()
    faults = arguments.faults.split(",")
    if not {*faults} <= {*FAULTS}:
        parser.error(f"no such faults: {', '.join(sorted({*faults} - {*FAULTS}))}")
    if not is_inside():
        return run_inside("scripts.cluster_faults")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # brokers end with it, and are not left behind
    networks = Networks([1, 2, 3, CONTROLLER_ID])
    origin = proofs.origin()
    played, failed = 0, 0
    for letters in arguments.brokers:
        rounds, count, wrong = play(letters, faults, networks, arguments)
        if arguments.record:
            record(letters, rounds, count, wrong, arguments.session, origin)
        late = [each for each in rounds if each.leader_s > bound_s(each.fault, arguments.session)]
        played, failed = played + len(rounds), failed + len(wrong) + len(late)
        print(f"{letters}: {len(rounds)} rounds, {count} records acknowledged, {len(late)} leaders late, {len(wrong)} failures")
    print(f"{played} rounds, {failed} of them not as they should be")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
