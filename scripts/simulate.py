"""Simulates the broker with a clock, disks and connections in memory, seed by seed, and looks for anomalies.

    python -m scripts.simulate --seeds 0-99999 [--processes 2] [--history DIRECTORY]
    python -m scripts.simulate --seed 4711 --verbose          the same run again, with everything that happens
    python -m scripts.simulate --seeds 0-199 --planted NAME   with a fault planted in the broker

A seed decides everything: the clients, what breaks and when (tests/sim/simulation.py). Seeds that find something are printed with
what they found, and the exit code is then 1. The same seed of the same sources is the same run; after a change of the sources it
may be quite another one, so what was found becomes a test of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

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


def simulate(first: int, last: int, processes: int, *more: str) -> Iterator[dict[str, Any]]:
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


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--seeds", help="a range, as 0-999")
    wanted.add_argument("--seed", type=int)
    parser.add_argument("--verbose", action="store_true", help="say everything that happens")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--planted")
    parser.add_argument("--history", type=Path)
    arguments = parser.parse_args()
    if arguments.verbose and arguments.seed is None:
        parser.error("--verbose is for one --seed")
    more = [*(("--planted", arguments.planted) if arguments.planted else ()), *(("--verbose",) if arguments.verbose else ())]
    if arguments.history is not None:
        arguments.history.mkdir(parents=True, exist_ok=True)
        more += ["--history", str(arguments.history.resolve())]
    if arguments.seed is not None:
        one = subprocess.run(command(arguments.seed, arguments.seed, *more), cwd=ROOT, env=environment(), check=False)
        return int(one.returncode != 0)
    return _simulate_all(arguments, more)


def _simulate_all(arguments: Namespace, more: list[str]) -> int:
    first, _, last = arguments.seeds.partition("-")
    began = time.monotonic()
    done = events = lives = bad = 0
    virtual_s = 0
    for outcome in simulate(int(first), int(last or first), arguments.processes, *more):
        done, events, lives = done + 1, events + outcome["events"], lives + outcome["lives"]
        virtual_s += outcome["virtual_s"]
        if outcome["found"]:
            bad += 1
            print(f"seed {outcome['seed']}:", flush=True)
            for name, where, what in outcome["found"]:
                print(f"    {name} at {where}: {what}", flush=True)
        if done % _EVERY_SAID == 0:
            print(f"{done} seeds, {bad} of them found something, {time.monotonic() - began:.0f} s", flush=True)
    took = time.monotonic() - began
    print(
        f"{done} seeds in {took:.0f} s ({done / took:.1f} a second), {lives} lives of the broker, {events} events of clients, "
        f"{virtual_s / 3600:.1f} simulated hours; {bad} seeds found something"
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
