"""Every crash point of the recorded trace (tests/sim/trace.py), deeper than CI has time for.

`python -m tests.sim.crash_points memory [--losses N]`: before every change of a simulated disk the power is cut, with every
allowed loss where there are at most N (default 100), else N of them by seed; once with names that get lost on their own and
sectors of 64 bytes, once as ext4 and xfs would, with sectors of 512.

`python -m tests.sim.crash_points killed [DIRECTORY]`: the trace runs as a process and is killed by strace at every single call
that changes DIRECTORY (default: one under the directory for temporary files), until it survives.

Both say what they found; the exit code is 1 at the first state that the model does not allow.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path

from tests.sim.kills import kill_at, kill_points
from tests.sim.test_every_crash_point import CrashPoints

_EVERY_SAID = 50


def cut_in_memory(losses: int) -> None:
    for sector_bytes, ordered_names in ((64, False), (512, True)):
        began = time.monotonic()
        run = CrashPoints(sector_bytes=sector_bytes, ordered_names=ordered_names, bound=losses)
        run.play()
        names = "names in order" if ordered_names else "names on their own"
        print(
            f"sectors of {sector_bytes}, {names}: {run.trace.done} operations, {run.points} crash points, "
            f"{run.looks} disks opened, all outcomes at {run.exhaustive} points, {time.monotonic() - began:.0f} s",
            flush=True,
        )


def kill(directory: Path) -> None:
    began = time.monotonic()
    points = kill_points(directory)
    for at, point in enumerate(points, 1):
        kill_at(point, directory)
        if at % _EVERY_SAID == 0:
            print(f"{at} of {len(points)} kills, {time.monotonic() - began:.0f} s", flush=True)
    calls = ", ".join(sorted({point.call for point in points}))
    print(f"killed at each of {len(points)} calls ({calls}) and found all of it, {time.monotonic() - began:.0f} s")


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("memory").add_argument("--losses", type=int, default=100)
    kinds.add_parser("killed").add_argument("directory", nargs="?", type=Path)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # recovery warns of what it finds, and here that is the point
    try:
        if arguments.kind == "memory":
            cut_in_memory(arguments.losses)
        elif arguments.directory is not None:
            kill(arguments.directory.resolve())
        else:
            with tempfile.TemporaryDirectory() as temporary:
                kill(Path(temporary).resolve() / "data")
    except AssertionError as error:
        print(error, *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
