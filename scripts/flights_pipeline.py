"""The pipeline's show: a year of flights with their weather and planes through Spark, killed on the way, and proved row for row.

    python -m scripts.flights_pipeline [--broker ottla|kafka] [--days N]    the whole year, or its first N days

compat_tests/flights_pipeline.py says what happens on the way. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from compat_tests.brokers import CLASSES
from compat_tests.flights_pipeline import Show
from ottla.commands.output import counted
from ottla.pipeline.session import SparkOptions, session


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=sorted(CLASSES), default="ottla")
    parser.add_argument("--days", type=int, help="the first days of the year only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-flights-") as name:
        broker = CLASSES[arguments.broker](Path(name) / "broker")
        broker.start()
        try:
            show = Show(broker, Path(name), arguments.days)
            begin = time.monotonic()
            show.run()
            print(f"{len(show.flights):,} flights and {len(show.weather):,} weather reports in {time.monotonic() - begin:.0f} s")
            problems = show.differences(session(SparkOptions(master="local[2]")))
            problems += show.audits()
            print(f"all of it in {time.monotonic() - begin:.0f} s")
        finally:
            broker.stop()
    for problem in problems:
        print(problem, file=sys.stderr)
    print(counted(len(problems), "difference"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
