"""Asks a broker in memory the longest requests of every API, and prints how much work each did before anybody else came.

    python -m tests.stalls [--apis substring | --state] [--scale 20 | --time]

The lines are JSON (`Seen` in sweep.py). It is a process of its own because nothing here may be compiled: the work of what the
compiler makes is not counted. With --state, the broker holds much and the requests are short (state.py). With --scale, there is
so many times less of everything. With --time, requests are as long as they may be, and units of 100 ns take the place of work.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


class Sources(MetaPathFinder):
    """Finds the sources of ottla, also where there are extension modules beside them."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.startswith("ottla.") and path is not None:
            for folder in path:
                source = Path(folder, f"{name.rpartition('.')[2]}.py")
                if source.exists():
                    return importlib.util.spec_from_file_location(name, source)
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apis", default="", help="only APIs whose name contains this")
    parser.add_argument("--state", action="store_true", help="ask for all that a broker holds")
    parser.add_argument(
        "--scale", type=int, help="so many times less of everything, 20 by default; two scales show what grows too fast"
    )
    parser.add_argument("--time", action="store_true", help="measure time instead of counting work")
    arguments = parser.parse_args()
    sys.meta_path.insert(0, Sources())
    from tests.stalls.state import sweep_state
    from tests.stalls.sweep import SCALE, sweep

    scale = 1 if arguments.time else arguments.scale or SCALE
    found = sweep_state(scale) if arguments.state else sweep(arguments.apis, scale)
    for seen in found:
        print(json.dumps(seen), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
