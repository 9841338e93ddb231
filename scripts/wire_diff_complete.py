"""Says what the comparison with Apache Kafka has not seen: `python -m scripts.wire_diff_complete DIRECTORY [--write FILE]`.

DIRECTORY holds the ledgers that the processes of a run of compat_tests/wire_diff wrote (compat_tests/seen.py: set
OTTLA_WIRE_DIFF_SEEN to it). Complete means: for every API key and every version that ottla advertises, a success and an error
were sent to both brokers and their whole answers compared; and every row of docs/kafka-behaviour.md has its tests, which
passed in this run (compat_tests/wire_diff/edge_cases.py). The exit code is 1 if anything lacks. FILE gets the figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from compat_tests.seen import ERROR, SUCCESS, Case
from compat_tests.wire_diff.edge_cases import NO_ERROR, NO_SUCCESS, all_served, excused, rows


def missing(seen: set[Case]) -> list[str]:
    """Returns a line for each key, version and outcome that nobody compared, or that has an excuse though it was compared."""
    lines = []
    excuses = {SUCCESS: set(excused(NO_SUCCESS)), ERROR: set(excused(NO_ERROR))}
    for key, api in sorted(all_served().items()):
        for version in range(api.min_version, api.max_version + 1):
            for outcome, excuse in excuses.items():
                was_seen, is_excused = Case(key, version, outcome) in seen, (api.module, version) in excuse
                if was_seen == is_excused:
                    lines.append(f"{api.name} v{version} (key {key}): {'an excused' if was_seen else 'no'} {outcome}")
    return lines


def not_passed(passed: Iterable[str]) -> list[str]:
    """Returns the tests of edge_cases.py that did not pass. A name without parameters stands for all cases of its test."""
    names = {name.split("[", 1)[0].removeprefix("compat_tests/") for name in passed}
    return [f"row {row}: {test}" for row, tests in rows().items() for test in tests if test not in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    seen: set[Case] = set()
    passed: set[str] = set()
    for file in sorted(arguments.directory.glob("*.json")):
        ledger = json.loads(file.read_text())
        seen |= {Case(*each) for each in ledger["seen"]}
        passed |= set(ledger["passed"])
    lacking = missing(seen)
    failing = not_passed(passed)
    figures = {
        "keys": len(all_served()),
        "versions": sum(api.max_version - api.min_version + 1 for api in all_served().values()),
        "compared": len(seen),
        "missing": lacking,
        "rows": len(rows()),
        "rows_not_passed": failing,
    }
    if arguments.write:
        arguments.write.write_text(json.dumps(figures, indent=1) + "\n")
    print(*lacking, *failing, sep="\n")
    print(f"{figures['keys']} keys in {figures['versions']} versions, {len(lacking)} cases missing; ", end="")
    print(f"{len(rows())} rows, {len(failing)} tests of theirs did not pass")
    return 1 if lacking or failing else 0


if __name__ == "__main__":
    sys.exit(main())
