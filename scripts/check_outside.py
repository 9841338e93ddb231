"""Real clients of three kinds work at a real broker while things break, and what they saw is checked for anomalies.

    python -m scripts.check_outside [--broker ottla|kafka] [--runs 10] [--seed 1] [--seconds 100] [--faults kill,pause]
    python -m scripts.check_outside --faults full,kill        on a small file system, which has no room now and then
    python -m scripts.check_outside --faults power,pause --filesystem xfs    on a machine that loses its power (scripts/powercut)
    python -m scripts.check_outside --runs 10 --record       and note it in docs/proofs.md
    python -m scripts.check_outside --clusters ooo,ook,kkk    on three brokers each, o for ottla and k for Apache Kafka
    python -m scripts.check_outside --planted NAME            with a fault of tests/sim/planted.py in the broker, to be found;
                                                              with --clusters ooo, also one of tests/sim/cluster/planted.py

A seed decides what breaks when and what clients try; what happens between them is their own. Every run is a new broker and one
line. The exit code is 1 if there is an anomaly; it is printed, and the history and the broker's log are kept and named. With
--keep DIRECTORY they always are. compat_tests/outside/ says what the clients do, compat_tests/anomalies/ what may not be.

The runs are in name spaces of their own (unshare: user, network, mounts), so that no root is needed, the file system goes with
them, and nothing else of this machine is touched. In a cluster each node has a network of its own, in which packets from it or to
it are dropped, and a clock of its own, which is moved (compat_tests/outside/clusters.py).

Where the power goes, records are synced before they are acknowledged (`log.flush.interval.messages=1`), and elsewhere in every
second run: kill -9 loses nothing that the broker had written.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from compat_tests.brokers import CLASSES, Ottla
from compat_tests.cluster.mixed import named_clusters
from compat_tests.cluster.networks import Networks
from compat_tests.cluster.nodes import CONTROLLER_ID
from compat_tests.outside.clocks import Clocks
from compat_tests.outside.clusters import Cluster
from compat_tests.outside.faults import KINDS, OF_CLUSTERS
from compat_tests.outside.outcome import Outcome
from compat_tests.outside.planting import with_fault
from compat_tests.outside.play import play
from compat_tests.outside.stages import OneBroker, Stage
from compat_tests.rooms import small_disk
from scripts import proofs
from scripts.namespaces import is_inside, run_inside
from scripts.powercut.broker import FILESYSTEMS, OttlaInGuest, prepare_network
from scripts.powercut.run import KERNEL

SYNCED: Final = {"log.flush.interval.messages": "1"}
_SMALL: Final = "64m"
_SHOWN: Final = 10
_START_S: Final = 300
"""The time that a start may take, on a machine that may be busy with other things."""


@contextmanager
def stage_of(arguments: Namespace, name: str, seed: int, directory: Path, networks: Networks | None) -> Iterator[Stage]:
    """Yields the cluster of this name, or a new broker, on a file system of its own if that may become full."""
    kinds = kinds_of(arguments)
    settings = SYNCED if "power" in kinds or seed % 2 == 1 else {}
    if networks is not None:
        clocks = Clocks(directory, [1, 2, 3]) if "clock" in kinds else None
        yield Cluster(directory, name, networks, clocks, settings, planted=arguments.planted)
        return
    if "power" in kinds:
        with OttlaInGuest.on_disk(directory, settings, arguments.filesystem) as guest:
            guest.start_timeout_s = _START_S
            yield OneBroker(guest)
        return
    made = CLASSES[arguments.broker]
    if arguments.planted:
        made = with_fault(Ottla, arguments.planted)
    broker = made(directory, settings)
    broker.start_timeout_s = _START_S
    if "full" not in kinds:
        yield OneBroker(broker)
        return
    with small_disk(broker, _SMALL) as room:
        try:
            yield OneBroker(broker, room)
        finally:
            if arguments.keep is not None:
                shutil.copytree(broker.data_dir, directory / "data")


def run_all(arguments: Namespace) -> int:
    """Plays the runs; returns how many found something."""
    bad = 0
    origin = proofs.origin()
    networks = Networks([1, 2, 3, CONTROLLER_ID]) if arguments.clusters else None
    for name in arguments.clusters or [arguments.broker]:
        for seed in range(arguments.seed, arguments.seed + arguments.runs):
            directory = Path(tempfile.mkdtemp(prefix=f"outside-{name}-{seed}-"))
            with stage_of(arguments, name, seed, directory, networks) as stage:
                outcome = play(stage, seed, arguments.seconds, kinds_of(arguments), _say if arguments.verbose else None)
            print(f"{name}, {outcome}", flush=True)
            bad += bool(outcome.found)
            _show(outcome)
            if arguments.record:
                record(arguments, name, outcome, origin)
            if outcome.found or arguments.keep is not None:
                kept = _keep(outcome, directory, arguments.keep)
                print(f"    history.jsonl and the logs are in {kept}", flush=True)
            shutil.rmtree(directory, ignore_errors=True)
    return bad


def kinds_of(arguments: Namespace) -> list[str]:
    """Returns the kinds of faults that were asked for; if none were named, those that there are as a rule."""
    if arguments.faults is None:
        return [*(OF_CLUSTERS if arguments.clusters else ("kill", "pause"))]
    return [kind for kind in arguments.faults.split(",") if kind]


def _say(text: str) -> None:
    print(f"    {time.strftime('%H:%M:%S')} {text}", flush=True)


def record(arguments: Namespace, name: str, outcome: Outcome, origin: dict[str, str]) -> None:
    """Adds a run to the ledger of proofs. `name`: of the broker or the cluster."""
    faults = ", ".join(sorted(kinds_of(arguments))) or "none"
    if "power" in faults:
        faults += f" ({arguments.filesystem})"
    found = [f"{name}, {faults}, seed {outcome.seed}: {anomaly}" for anomaly in sorted(outcome.names)]
    about = {"broker": name, "faults": faults, "seconds each": f"{arguments.seconds:g}"}
    proofs.record(proofs.OUTSIDE, {**origin, **about}, {"runs": 1, **outcome.counts}, seeds=[outcome.seed], found=found)


def _show(outcome: Outcome) -> None:
    for anomaly in outcome.found[:_SHOWN]:
        print(f"    {anomaly}", flush=True)
    if len(outcome.found) > _SHOWN:
        print(f"    and {len(outcome.found) - _SHOWN} more", flush=True)


def _keep(outcome: Outcome, directory: Path, wanted: Path | None) -> Path:
    """Writes the history beside the brokers' logs; returns where they are."""
    kept = Path(tempfile.mkdtemp(prefix="outside-kept-")) if wanted is None else wanted / directory.name
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "history.jsonl").open("w") as file:
        file.writelines(f"{line}\n" for line in outcome.lines())
    for name in ("broker.log", "server.properties"):
        for path in directory.glob(name):
            shutil.copy(path, kept)
        for path in directory.glob(f"*/{name}"):
            shutil.copy(path, kept / f"{path.parent.name}.{name}")
    if (directory / "data").exists():
        shutil.copytree(directory / "data", kept / "data", dirs_exist_ok=True)
    return kept


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=sorted(CLASSES), default="ottla")
    parser.add_argument("--clusters", type=named_clusters, default=[], metavar="ooo,ook,...")
    parser.add_argument("--runs", type=int, default=1, help="of the broker, or of each cluster")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next has the next")
    parser.add_argument("--seconds", type=float, default=100, help="for how long things break")
    parser.add_argument("--faults", help=f"of {','.join(KINDS)}, and of {','.join(OF_CLUSTERS)} in clusters; empty: a control")
    parser.add_argument("--filesystem", choices=FILESYSTEMS, default=FILESYSTEMS[0], help="of the machine that loses its power")
    parser.add_argument("--planted", default="", metavar="NAME")
    parser.add_argument("--record", action="store_true", help="note each run in docs/proofs.md")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    kinds = {*kinds_of(arguments)}
    known = {*(OF_CLUSTERS if arguments.clusters else KINDS)}
    if not kinds <= known:
        parser.error(
            f"no such faults {'in clusters' if arguments.clusters else 'of one broker'}: {', '.join(sorted(kinds - known))}"
        )
    if arguments.record and arguments.planted:
        parser.error("--record is for a broker as it is")
    if "power" in kinds:
        if arguments.broker != "ottla" or arguments.planted or not kinds <= {"power", "pause"}:
            parser.error("power is for ottla as it is, and goes with pause only")
        for tool in (KERNEL, f"mkfs.{arguments.filesystem}"):
            if shutil.which(tool) is None:
                parser.error(f"{tool} is missing; on Debian: apt-get install user-mode-linux e2fsprogs xfsprogs")
    if not is_inside():
        return run_inside("scripts.check_outside")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # brokers end with it, and are not left behind
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if "power" in kinds:
        prepare_network()
    bad = run_all(arguments)
    print(f"{arguments.runs * max(len(arguments.clusters), 1)} runs, {bad} of them found something", flush=True)
    os._exit(bad > 0)  # a client that never ends (clients.in_time) would not let the interpreter end


if __name__ == "__main__":
    sys.exit(main())
