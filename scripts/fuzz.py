"""Fuzzes the decoders, guided by coverage: what a stranger or a broken disk may say must be read or refused as promised.

    python -m scripts.fuzz --seconds 30 --jobs 2     each target so long, two at a time
    python -m scripts.fuzz --hours 8                 eight hours in all, shared by the targets, in rounds
    python -m scripts.fuzz --hours 1 --target codecs
    python -m scripts.fuzz --short --seed 1          a fixed number of inputs each, 15 to 30 s or more
    python -m scripts.fuzz --hours 1 --record --keep    and note it in docs/proofs.md, for the next one to go on from there

Each module in tests/fuzz/targets is a target, and says in its docstring what it promises. atheris runs it in a process of its own
(tests/fuzz/run.py), on the sources of ottla whether it is compiled or not. Each run begins with the target's own seeds and with
the inputs in tests/fuzz/corpora. Those that led somewhere new are in build/fuzz/corpus, for the next run here, and --keep adds
the shortest of them to tests/fuzz/corpora, for everybody.

scripts/test runs it with --short, a new corpus and --seed. It draws the same inputs each time, and as many on a busy machine as
on an idle one: no change fails by the luck of the draw.

An input that breaks a promise is kept in build/fuzz/found, shown, and makes the exit code 1; the other targets go on. Time bounds
only how long is looked for one: no test fails because it was slow.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from scripts import proofs
from scripts.written_pages import write

ROOT: Final = Path(__file__).resolve().parents[1]
TARGETS: Final = ROOT / "tests" / "fuzz" / "targets"
BUILD: Final = ROOT / "build" / "fuzz"
ROUND_SECONDS: Final = 600
"""The time for which a target runs before the next has its turn, so that a run that is ended early has seen all of them."""
SHORT: Final = {
    "batches": 200_000,
    "cleaning": 40_000,
    "codecs": 23_000,
    "coordinators": 15_000,
    "key_files": 145_000,
    "log_directory": 10_000,
    "logins": 155_000,
    "metadata_log": 40_000,
    "payloads": 280_000,
    "requests": 240_000,
    "responses": 250_000,
    "scan": 40_000,
    "small_files": 700_000,
}
"""The number of inputs of each target that a short run tries: 30 s of CPU each or more on a slow day of a machine of two cores,
and half of that on a quick one."""
LONGEST_SHORT_SECONDS: Final = 600
_SHOWN: Final = 4000
_EXECUTIONS: Final = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_COVERED: Final = re.compile(r"cov: (\d+)")
_RAISED: Final = re.compile(r"Uncaught Python exception: ===\n(.*)")


class Outcome(NamedTuple):
    """One run of a target. `failure` is the end of what it printed if it failed, `found` the inputs that broke a promise."""

    target: str
    cpu_seconds: float
    executions: int
    covered: int
    found: list[Path]
    failure: str


def names() -> list[str]:
    """Returns the names of all targets."""
    return sorted(path.stem for path in TARGETS.glob("[a-z]*.py"))


def run(target: str, seconds: int, build: Path, seed: int | None = None, inputs: int = 0) -> Outcome:
    """Fuzzes one target in a process of its own: for so long, or until so many inputs were tried if that is not 0 and comes
    sooner. The same seed draws the same inputs from the same corpus."""
    found = build / "found"
    found.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    corpus = build / "corpus" / target
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={found}/{target}-"]
    environment = dict(os.environ)
    if inputs:
        options.append(f"-runs={inputs}")
    if seed is not None:
        options.append(f"-seed={seed}")
        environment["PYTHONHASHSEED"] = "0"
    log = build / f"{target}.log"
    with log.open("w") as output:
        command = [sys.executable, "-m", "tests.fuzz.run", target, str(corpus), *options]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    printed = log.read_text(errors="replace")
    executions, covered = _EXECUTIONS.search(printed), _COVERED.findall(printed)
    return Outcome(
        target,
        used.ru_utime + used.ru_stime,
        int(executions[1]) if executions else 0,
        int(covered[-1]) if covered else 0,
        sorted(set(found.iterdir()) - before),
        printed[-_SHOWN:] if process.returncode else "",
    )


def show(outcome: Outcome) -> None:
    rate = outcome.executions / max(outcome.cpu_seconds, 1e-9)
    print(
        f"{outcome.target}: {outcome.executions:,} inputs in {outcome.cpu_seconds:.0f} s of CPU ({rate:,.0f} a second), "
        f"{outcome.covered:,} places reached{', FAILED' if outcome.failure else ''}",
        flush=True,
    )
    if outcome.failure:
        print(outcome.failure, file=sys.stderr)
    for path in outcome.found:
        print(f"once more: python -m tests.fuzz.run {outcome.target} {path}\n{path.read_bytes().hex()}", file=sys.stderr)


def note(outcome: Outcome, build: Path) -> None:
    """Adds the run to figures.json, which counts what every target ever had."""
    path = build / "figures.json"
    figures = json.loads(path.read_text()) if path.exists() else {}
    had = figures.setdefault(outcome.target, {"cpu_seconds": 0.0, "executions": 0, "found": 0})
    had["cpu_seconds"] = round(had["cpu_seconds"] + outcome.cpu_seconds, 1)
    had["executions"] += outcome.executions
    had["found"] += bool(outcome.failure)
    path.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


def record(outcome: Outcome, origin: dict[str, str]) -> None:
    """Adds the run to the ledger of proofs."""
    raised = _RAISED.search(outcome.failure)
    found = [f"{outcome.target}: {raised[1] if raised else 'it ended'}"] if outcome.failure else []
    counts = {"cpu_seconds": outcome.cpu_seconds, "inputs": outcome.executions}
    proofs.record(proofs.FUZZ, {**origin, "target": outcome.target}, counts, found=found)


def keep(target: str, build: Path) -> None:
    """Adds what the corpus of a target reaches to the inputs in tests/fuzz/corpora. Raises CalledProcessError."""
    command = [sys.executable, "-m", "tests.fuzz.kept", target, str(build / "corpus" / target)]
    subprocess.run(command, cwd=ROOT, check=True)


def turns(targets: list[str], hours: float, round_seconds: int = ROUND_SECONDS) -> list[tuple[str, int]]:
    """Returns the targets one after the other, round after round, each with the seconds of its turn: so many hours in all."""
    each = hours * 3600 / len(targets)
    rounds = max(1, round(each / round_seconds))
    return [(target, max(1, round(each / rounds))) for _ in range(rounds) for target in targets]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", choices=names(), help="only this one; may be given several times")
    parser.add_argument("--jobs", type=int, default=1, help="so many targets at a time")
    parser.add_argument("--build", type=Path, default=BUILD, help="where corpora and what was found are kept")
    parser.add_argument("--seed", type=int, help="draw the same inputs each time; without it, others")
    parser.add_argument("--record", action="store_true", help="note the run in docs/proofs.md")
    parser.add_argument("--keep", action="store_true", help="add what it found to the inputs that every run begins with")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--seconds", type=int, help="for each target")
    length.add_argument("--hours", type=float, help="for all targets together")
    length.add_argument("--short", action="store_true", help="a fixed number of inputs of each target")
    arguments = parser.parse_args()
    targets = arguments.target or names()
    plan = [(target, arguments.seconds or LONGEST_SHORT_SECONDS) for target in targets]
    if arguments.hours:
        plan = turns(targets, arguments.hours)
    inputs = SHORT if arguments.short else {}
    began = time.monotonic()
    failed = set()
    origin = proofs.origin()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        build = arguments.build.resolve()
        outcomes = pool.map(lambda turn: run(turn[0], turn[1], build, arguments.seed, inputs.get(turn[0], 0)), plan)
        for outcome in outcomes:
            show(outcome)
            note(outcome, arguments.build)
            if arguments.record:
                record(outcome, origin)
            if outcome.failure:
                failed.add(outcome.target)
    for target in targets if arguments.keep else ():
        keep(target, arguments.build.resolve())
    if arguments.record:
        write(proofs.pages())
    print(f"{len(targets)} targets in {time.monotonic() - began:.0f} s; failed: {', '.join(sorted(failed)) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
