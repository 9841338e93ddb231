"""Simulates the broker with a clock, disks and connections in memory, seed by seed, and looks for anomalies.

    python -m scripts.simulate --seeds 0-99999 [--processes 2] [--history DIRECTORY]
    python -m scripts.simulate --seed 4711 --verbose          the same run again, with everything that happens
    python -m scripts.simulate --seeds 0-199 --planted NAME   with a fault planted in the broker
    python -m scripts.simulate --more 1000 --record           with seeds that nobody had, and noted in docs/proofs.md
    python -m scripts.simulate --cluster --more 1000 --record  several brokers and a model of their controllers, in place of one

A seed decides everything: the clients, what breaks and when (tests/sim/simulation.py, tests/sim/cluster/simulation.py). Seeds
that find something are printed with what they found, and the exit code is then 1. The same seed of the same sources is the same
run; after a change of the sources it may be quite another one, so what was found becomes a test of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, Any, Final

from scripts import proofs

ROOT: Final = Path(__file__).resolve().parents[1]
_EVERY_SAID: Final = 1000
_FOUND: Final = 3
"""The exit code of tests/sim/seeds.py if it found something."""


def command(first: int, last: int, *more: str) -> list[str]:
    """Returns the command that simulates seeds in a process of its own."""
    return [sys.executable, "-m", "tests.sim.seeds", str(first), str(last), *more]


def environment() -> dict[str, str]:
    """Returns the environment in which a seed is the same run every time."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path}


def simulate(first: int, last: int, processes: int, *more: str) -> Generator[dict[str, Any]]:
    """Simulates the seeds in several processes, and yields what each came to as it comes. Raises RuntimeError if a process
    fails.
    """
    commands = [command(first + at, last, "--step", str(processes), *more) for at in range(processes)]
    running = [subprocess.Popen(each, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) for each in commands]
    try:
        yield from _lines(running)
    finally:
        for process in running:
            process.kill()
            process.communicate()  # closes its output, too


def _lines(running: list[subprocess.Popen[str]]) -> Iterator[dict[str, Any]]:
    left: list[tuple[subprocess.Popen[str], IO[str]]] = [(each, each.stdout) for each in running if each.stdout is not None]
    while left:
        for process, output in list(left):
            line = output.readline()
            if line:
                yield json.loads(line)
                continue
            left.remove((process, output))
            if process.wait() not in (0, _FOUND):
                raise RuntimeError(f"{process.args!r} ended with {process.returncode}")


class Tally:
    """The sum of what the seeds of a run have come to so far."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.seeds: list[int] = []
        self.bad: list[dict[str, Any]] = []
        self.events = self.excused = self.lives = self.virtual_s = 0

    def add(self, outcome: dict[str, Any]) -> None:
        self.seeds.append(outcome["seed"])
        self.events += outcome["events"]
        self.excused += outcome["excused"]
        self.lives += outcome["lives"]
        self.virtual_s += outcome["virtual_s"]
        if outcome["found"]:
            self.bad.append(outcome)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def __str__(self) -> str:
        done = len(self.seeds)
        excused = f" ({self.excused} excused: of brokers that did not know of a new leader yet)" if self.excused else ""
        return (
            f"{done} seeds in {self.seconds:.0f} s ({done / self.seconds:.1f} a second), {self.lives} lives of the broker, "
            f"{self.events} events of clients{excused}, {self.virtual_s / 3600:.1f} simulated hours; "
            f"{len(self.bad)} seeds found something"
        )

    def record(self, origin: dict[str, str], proof: str = proofs.SIMULATION) -> None:
        """Adds the run to the ledger of proofs."""
        found = [f"seed {bad['seed']}: {name} at {where}" for bad in self.bad for name, where, _ in bad["found"]]
        counts = {"lives": self.lives, "events": self.events, "excused": self.excused, "virtual_s": self.virtual_s}
        proofs.record(proof, origin, counts, seeds=self.seeds, found=found)


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--seeds", help="a range, as 0-999")
    wanted.add_argument("--seed", type=int)
    wanted.add_argument("--more", type=int, help="so many seeds above all in docs/proofs.json")
    parser.add_argument("--minutes", type=float, help="end after this time, with however many seeds")
    parser.add_argument("--record", action="store_true", help="note the run in docs/proofs.md")
    parser.add_argument("--verbose", action="store_true", help="say everything that happens")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cluster", action="store_true", help="simulate a cluster")
    parser.add_argument("--planted")
    parser.add_argument("--history", type=Path)
    arguments = parser.parse_args()
    if arguments.verbose and arguments.seed is None:
        parser.error("--verbose is for one --seed")
    if (arguments.record or arguments.more) and (arguments.planted or arguments.seed is not None):
        parser.error("--record and --more are for many seeds of brokers as they are")
    more = [*(("--planted", arguments.planted) if arguments.planted else ()), *(("--verbose",) if arguments.verbose else ())]
    more += ["--cluster"] if arguments.cluster else []
    if arguments.history is not None:
        arguments.history.mkdir(parents=True, exist_ok=True)
        more += ["--history", str(arguments.history.resolve())]
    if arguments.seed is not None:
        one = subprocess.run(command(arguments.seed, arguments.seed, *more), cwd=ROOT, env=environment(), check=False)
        return int(one.returncode != 0)
    return _simulate_all(arguments, more)


def _simulate_all(arguments: Namespace, more: list[str]) -> int:
    first, last = _range(arguments)
    tally, origin = Tally(), proofs.origin()
    outcomes = simulate(first, last, arguments.processes, *more)
    try:
        for outcome in outcomes:
            tally.add(outcome)
            if outcome["found"]:
                print(f"seed {outcome['seed']}:", flush=True)
                for name, where, what in outcome["found"]:
                    print(f"    {name} at {where}: {what}", flush=True)
            if len(tally.seeds) % _EVERY_SAID == 0:
                print(f"{len(tally.seeds)} seeds, {len(tally.bad)} of them found something, {tally.seconds:.0f} s", flush=True)
            if arguments.minutes is not None and tally.seconds > 60 * arguments.minutes:
                break
    finally:
        outcomes.close()
        if arguments.record and tally.seeds:
            tally.record(origin, _proof(arguments))
    print(tally)
    return int(bool(tally.bad))


def _proof(arguments: Namespace) -> str:
    """Returns the name under which the ledger keeps such runs."""
    return proofs.SIMULATED_CLUSTER if arguments.cluster else proofs.SIMULATION


def _range(arguments: Namespace) -> tuple[int, int]:
    """Returns the first and the last seed."""
    if arguments.more is not None:
        first = proofs.next_seed(proofs.Ledger().runs, _proof(arguments))
        return first, first + arguments.more - 1
    first, _, last = arguments.seeds.partition("-")
    return int(first), int(last or first)


if __name__ == "__main__":
    sys.exit(main())
