"""Puts two brokers under hours of small, mixed load, kills one of them every minute, and asks whether anything grows.

    python -m scripts.soak --hours 2 --kill-every 60 --out FILE
    python -m scripts.soak --hours 2 --out FILE --report        the report on samples that are there, complete or not
    python -m scripts.soak --hours 2 --out FILE --record        and note it in docs/proofs.md

Each broker has a directory, a process and a load of its own (load.py): topics whose segments come and go by age and by size, a
compacted one, transactions, groups and members, topics, connections, fetch sessions, producer ids. One lives as long as the run:
the slopes of its memory and descriptors count. The other is killed with SIGKILL once in --kill-every seconds, at a random moment
with a request in flight, and started again on its directory: how long that takes counts, and that everything acknowledged is
there (promises.py). Every ten seconds a line is written to FILE.lasting or FILE.killed; at the end the report is written to FILE
and printed: for each measurement after the first quarter of the run its slope, the interval of that, and the bound (report.py).

The load is slow on purpose, about 8 % of one core for both brokers and their clients: what leaks does so by the count of
requests, and what grows has to be seen above a machine's noise. The exit code is 1 if a promise was broken, a broker ended by
itself, or a slope is surely above its bound.
"""

from __future__ import annotations

import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from scripts import proofs
from scripts.soak.report import counts_of, report, rows_of, slopes_of


def command(options: Namespace, name: str) -> list[str]:
    kill_every = options.kill_every if name == "killed" else 0.0
    return [
        *(sys.executable, "-m", "scripts.soak.life"),
        *("--seconds", str(options.hours * 3600), "--kill-every", str(kill_every), "--pause", str(options.pause)),
        *("--seed", str(options.seed), "--directory", str(options.out) + f".{name}.d", "--out", str(file_of(options.out, name))),
    ]


def file_of(out: Path, name: str) -> Path:
    return out.with_name(f"{out.name}.{name}")


def run(options: Namespace, names: list[str]) -> None:
    """Runs the two lives to their ends."""
    lives = [subprocess.Popen(command(options, name)) for name in names]
    try:
        for life in lives:
            life.wait()
    finally:
        for life in lives:
            life.terminate()
            life.wait()


def record(files: dict[str, Path], wrong: list[str], origin: dict[str, str], seconds: float) -> None:
    """Adds the run, which was to take so many seconds, to the ledger of proofs. Its hours are those of the shorter life."""
    lives = [counts_of(rows_of(path)) for path in files.values()]
    counts = {name: sum(life[name] for life in lives) for name in lives[0]} | {"hours": min(life["hours"] for life in lives)}
    verdict = "something is wrong" if wrong else "nothing failed, and no slope is surely above its bound"
    about = {"began": time.strftime("%H:%M", time.gmtime(time.time() - counts["hours"] * 3600)), "verdict": verdict}
    slopes = {"slopes": "\n".join(" | ".join((name, *cells)) for name, cells in slopes_of(files, seconds))}
    proofs.record(proofs.SOAK, {**origin, **about, **slopes}, counts, found=wrong)


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds, on average; 0 for the lasting broker alone")
    parser.add_argument(
        "--pause", type=float, default=0.5, help="seconds from the beginning of one round of load to that of the next"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--record", action="store_true", help="note the run in docs/proofs.md")
    options = parser.parse_args()
    names = ["lasting", "killed"] if options.kill_every else ["lasting"]
    origin = proofs.origin()
    if not options.report:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        run(options, names)
    files = {name: file_of(options.out, name) for name in names}
    text, wrong = report(files, options.hours * 3600)
    options.out.write_text(text)
    print(text)
    if options.record:
        record(files, wrong, origin, options.hours * 3600)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
