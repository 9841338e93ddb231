"""Real clients of three kinds work at a real broker while things break, and what they saw is checked for anomalies.

    python -m scripts.check_outside [--broker ottla|kafka] [--runs 10] [--seed 1] [--seconds 100] [--faults kill,pause]
    python -m scripts.check_outside --faults full,kill        on a small file system, which has no room now and then
    python -m scripts.check_outside --faults power,pause --filesystem xfs    on a machine that loses its power (scripts/powercut)
    python -m scripts.check_outside --runs 10 --record       and note it in docs/proofs.md
    python -m scripts.check_outside --planted NAME            with a fault of tests/sim/planted.py in the broker, to be found

A seed decides what breaks when and what clients try; what happens between them is their own. Every run is a new broker and one
line. The exit code is 1 if there is an anomaly; it is printed, and the history and the broker's log are kept and named. With
--keep DIRECTORY they always are. compat_tests/outside/ says what the clients do, compat_tests/anomalies/ what may not be.

The runs are in name spaces of their own (unshare: user, network, mounts), so that no root is needed, the file system goes with
them, and nothing else of this machine is touched. Where the power goes, records are synced before they are acknowledged
(`log.flush.interval.messages=1`), and elsewhere in every second run: kill -9 loses nothing that the broker had written.
"""

from __future__ import annotations

import os
import shutil
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
from compat_tests.outside.breaking import Room
from compat_tests.outside.faults import KINDS
from compat_tests.outside.outcome import Outcome
from compat_tests.outside.play import play
from compat_tests.reference.kafka import BrokerProcess
from scripts import proofs
from scripts.namespaces import is_inside, run_inside
from scripts.powercut.broker import FILESYSTEMS, OttlaInGuest, prepare_network
from scripts.powercut.run import KERNEL

ROOT: Final = Path(__file__).resolve().parents[1]
SYNCED: Final = {"log.flush.interval.messages": "1"}
_SMALL: Final = "64m"
_SHOWN: Final = 10
_START_S: Final = 300
"""How long a start may take, on a machine that may be busy with other things."""


class PlantedOttla(Ottla):
    """ottla with a fault of tests/sim/planted.py. `planted` is its name."""

    planted = ""

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return super().environment() | {"PYTHONPATH": path}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.sim.planted", self.planted, "serve", str(self.properties)]


@contextmanager
def broker_of(
    arguments: Namespace, kinds: list[str], directory: Path, *, synced: bool
) -> Iterator[tuple[BrokerProcess, Room | None]]:
    """Yields a new broker in the directory, and the room on its file system if that may become full."""
    settings = SYNCED if synced else {}
    if "power" in kinds:
        with OttlaInGuest.on_disk(directory, settings, arguments.filesystem) as guest:
            yield guest, None
        return
    made = CLASSES[arguments.broker]
    if arguments.planted:
        made = type("Planted", (PlantedOttla,), {"planted": arguments.planted})
    if "full" not in kinds:
        yield made(directory, settings), None
        return
    disk = directory / "disk"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "tmpfs", str(disk)], check=True)
    try:
        broker = made(directory, {**settings, "log.dirs": str(disk / "data")})
        broker.data_dir = disk / "data"
        yield broker, Room(disk)
    finally:
        if arguments.keep is not None:
            shutil.copytree(disk / "data", directory / "data")
        subprocess.run(["umount", str(disk)], check=True)


def run_all(arguments: Namespace) -> int:
    """Plays the runs; returns how many found something."""
    kinds = [kind for kind in arguments.faults.split(",") if kind]
    bad = 0
    origin = proofs.origin()
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        directory = Path(tempfile.mkdtemp(prefix=f"outside-{arguments.broker}-{seed}-"))
        say = (lambda text: print(f"    {time.strftime('%H:%M:%S')} {text}", flush=True)) if arguments.verbose else None
        with broker_of(arguments, kinds, directory, synced="power" in kinds or seed % 2 == 1) as (broker, room):
            broker.start_timeout_s = _START_S
            outcome = play(broker, seed, arguments.seconds, kinds, room=room, say=say)
        print(f"{arguments.broker}, {outcome}", flush=True)
        bad += bool(outcome.found)
        _show(outcome)
        if arguments.record:
            record(arguments, outcome, origin)
        if outcome.found or arguments.keep is not None:
            kept = _keep(outcome, directory, arguments.keep)
            print(f"    history.jsonl and broker.log are in {kept}", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
    return bad


def record(arguments: Namespace, outcome: Outcome, origin: dict[str, str]) -> None:
    """Adds a run to the ledger of proofs."""
    faults = ", ".join(sorted(filter(None, arguments.faults.split(",")))) or "none"
    if "power" in faults:
        faults += f" ({arguments.filesystem})"
    found = [f"{arguments.broker}, {faults}, seed {outcome.seed}: {name}" for name in sorted(outcome.names)]
    about = {"broker": arguments.broker, "faults": faults, "seconds each": f"{arguments.seconds:g}"}
    proofs.record(proofs.OUTSIDE, {**origin, **about}, {"runs": 1, **outcome.counts}, seeds=[outcome.seed], found=found)


def _show(outcome: Outcome) -> None:
    for anomaly in outcome.found[:_SHOWN]:
        print(f"    {anomaly}", flush=True)
    if len(outcome.found) > _SHOWN:
        print(f"    and {len(outcome.found) - _SHOWN} more", flush=True)


def _keep(outcome: Outcome, directory: Path, wanted: Path | None) -> Path:
    """Writes the history beside the broker's log; returns where both are."""
    kept = Path(tempfile.mkdtemp(prefix="outside-kept-")) if wanted is None else wanted / directory.name
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "history.jsonl").open("w") as file:
        file.writelines(f"{line}\n" for line in outcome.lines())
    for name in ("broker.log", "server.properties"):
        if (directory / name).exists():
            shutil.copy(directory / name, kept)
    if (directory / "data").exists():
        shutil.copytree(directory / "data", kept / "data", dirs_exist_ok=True)
    return kept


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=sorted(CLASSES), default="ottla")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next has the next")
    parser.add_argument("--seconds", type=float, default=100, help="for how long things break")
    parser.add_argument("--faults", default="kill,pause", help=f"of {','.join(KINDS)}; none: a control")
    parser.add_argument("--filesystem", choices=FILESYSTEMS, default=FILESYSTEMS[0], help="of the machine that loses its power")
    parser.add_argument("--planted", default="", metavar="NAME")
    parser.add_argument("--record", action="store_true", help="note each run in docs/proofs.md")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    kinds = {kind for kind in arguments.faults.split(",") if kind}
    if not kinds <= {*KINDS}:
        parser.error(f"no such faults: {', '.join(sorted(kinds - {*KINDS}))}")
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
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if "power" in kinds:
        prepare_network()
    bad = run_all(arguments)
    print(f"{arguments.runs} runs, {bad} of them found something")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
