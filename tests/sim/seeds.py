"""Simulates seeds, one after the other, and writes one line of JSON about each: a part of `python -m scripts.simulate`.

    python -m tests.sim.seeds FIRST LAST [--step N] [--cluster] [--planted NAME] [--verbose]

`--cluster` simulates several brokers in place of one (tests/sim/cluster). A planted fault (tests/sim/planted.py, or
tests/sim/cluster/planted.py) ends the run with the first seed that finds it. Run it with PYTHONHASHSEED=0, or the same
seed is not the same run: the broker goes through sets of names here and there.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tests.sim.cluster.planted import PLANTED as IN_CLUSTERS
from tests.sim.planted import PLANTED as IN_BROKERS
from tests.sim.planted import named, plant

FOUND: Final = 3
"""The exit code if anything was found: not 1, which is also that of a crash."""


def main() -> int:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--planted")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--history", type=Path, help="a directory for the histories of seeds that found something")
    arguments = parser.parse_args()
    planted = None
    if arguments.planted is not None:
        planted = named(arguments.planted, IN_CLUSTERS if arguments.cluster else IN_BROKERS)
        plant(planted)
    simulate = import_module("tests.sim.cluster.simulation" if arguments.cluster else "tests.sim.simulation").simulate

    logging.getLogger("ottla").addHandler(logging.NullHandler())  # lives that are over may still speak while they are collected
    gc.collect()
    gc.freeze()  # what is imported stays, and to look at it again would take a tenth of a seed's time
    bad = False
    for seed in range(arguments.first, arguments.last + 1, arguments.step):
        began = time.monotonic()
        gc.collect()
        gc.disable()  # one run makes some megabytes, and then all of it is garbage
        outcome = simulate(seed, print if arguments.verbose else None)
        gc.enable()
        bad |= bool(outcome.found)
        line: dict[str, Any] = {
            "seed": seed,
            "found": [list(anomaly) for anomaly in outcome.found],
            "events": len(outcome.events),
            "excused": sum("unaware" in event for event in outcome.events),
            "lives": outcome.lives,
            "virtual_s": round(outcome.seconds),
            "took_ms": round((time.monotonic() - began) * 1000),
            "digest": outcome.digest,
        }
        print(json.dumps(line), flush=True)
        if outcome.found and arguments.history is not None:
            text = "\n".join(map(json.dumps, outcome.events))
            (arguments.history / f"seed-{seed}.jsonl").write_text(f"{text}\n")
        if planted is not None and outcome.names & planted.names:
            break
    return FOUND if bad else 0


if __name__ == "__main__":
    sys.exit(main())
