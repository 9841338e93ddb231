"""The random walk of ottla beside Apache Kafka, in its full form: `python -m scripts.random_walk [--seed N] [--requests N]`.

Starts one broker of each, walks (compat_tests/wire_diff/random_walk), prints each difference with the shortest script that shows
it, and writes the figures as JSON with `--write FILE`, the scripts with `--keep DIR`. The exit code is 1 if anything differed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from compat_tests.brokers import one_of_each
from compat_tests.provenance import stamp
from compat_tests.wire_diff.conftest import warm
from compat_tests.wire_diff.random_walk.lockstep import Pair, walk


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--most", type=int, default=1000, help="stop after so many differences")
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    ran = stamp()
    with tempfile.TemporaryDirectory(prefix="random-walk-") as directory, one_of_each(Path(directory)) as addresses:
        pair = Pair(warm(addresses))
        figures = walk(
            pair, arguments.seed, arguments.requests, arguments.most, arguments.keep, lambda text: print(text, flush=True)
        )
    if arguments.write:
        figures.write(arguments.write, ran)
    unequal = f"{len(figures.unexplained)} differences, {len(figures.once)} more seen once"
    print(f"{figures.requests} requests in {figures.sessions} sessions, {unequal}")
    return 1 if figures.unexplained or figures.once else 0


if __name__ == "__main__":
    sys.exit(main())
