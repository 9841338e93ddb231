"""The random walk of ottla beside Apache Kafka, in its full form: `python scripts/random_walk.py [--seed N] [--requests N]`.

Starts one broker of each, walks (compat_tests/wire_diff/random_walk), prints each difference with the shortest script that shows
it, and writes the figures as JSON with `--write FILE`, the scripts with `--keep DIR`. The exit code is 1 if anything differed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from compat_tests.brokers import CLASSES, KINDS, Address  # noqa: E402 - needs the path above
from compat_tests.wire_diff.conftest import warm  # noqa: E402
from compat_tests.wire_diff.random_walk.lockstep import Pair, walk  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--most", type=int, default=1000, help="stop after so many differences")
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="random-walk-") as directory:
        brokers = [CLASSES[kind](Path(directory) / kind) for kind in KINDS]
        try:
            addresses = []
            for broker in brokers:
                broker.start()
                assert broker.process is not None
                addresses.append(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)))
            pair = Pair(warm(addresses))
            figures = walk(
                pair, arguments.seed, arguments.requests, arguments.most, arguments.keep, lambda text: print(text, flush=True)
            )
        finally:
            for broker in brokers:
                broker.stop()
    if arguments.write:
        figures.write(arguments.write)
    unequal = f"{len(figures.unexplained)} differences, {len(figures.once)} more seen once"
    print(f"{figures.requests} requests in {figures.sessions} sessions, {unequal}")
    return 1 if figures.unexplained or figures.once else 0


if __name__ == "__main__":
    sys.exit(main())
