"""Breaks ottla on purpose, one way after the other, and shows that the compat suite catches each by name.

    python -m scripts.breaks [--security] [--only TEXT] [--list] [--write FILE]

Every break (compat_tests/breaks/table.py) goes into a private copy of the tree, where its test runs against the broken ottla and,
beside it, a sound Apache Kafka. First the control: all the tests in a copy that nobody broke, and they must pass. A break is
caught when its test fails in it, by its own judgement: an error before or after the test, a broker that does not come up or go
down, a test that does not end, and a failure with Apache Kafka are none, and are told. `by` is the first case that failed. FILE
takes the table as JSON, for scripts/compat-report.

With --security the breaks are those of logins and rights (compat_tests/breaks/security.py), which unit tests have to catch.
The exit code is 1 if the control fails or a break is not caught.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from compat_tests.breaks.security import SECURITY_BREAKS
from compat_tests.breaks.table import BREAKS, Break
from compat_tests.provenance import stamp
from scripts.compat_report.results import kind_of

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 600
NOT_COPIED = shutil.ignore_patterns(
    *(".git", "build", "dist", "docs", ".*cache*", "__pycache__", "*.egg-info", "node_modules", "target"),
    "*.so",  # or the compiled modules would hide what is broken in their sources
)


class Ran(NamedTuple):
    """Names of the cases, by what became of them. `broken_off`: what stands in the way of a judgement, a line each."""

    passed: list[str]
    failed: list[str]
    broken_off: list[str]


def broken(text: str, change: Break) -> str:
    """Returns the file's text with the break in it. Raises ValueError where it does not apply."""
    if text.count(change.old) != 1:
        raise ValueError(f"{change.name}: what it changes is {text.count(change.old)} times in {change.file}")
    return text.replace(change.old, change.new)


def run(tree: Path, tests: Iterable[str], results: Path) -> Ran:
    """Returns the tests in this copy; what they say goes beside `results`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}  # before the installed ottla, in the broker as well
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={results}", *tests]
    with open(results.with_suffix(".txt"), "wb") as output:
        try:
            subprocess.run(command, cwd=tree, env=environment, stdout=output, stderr=output, check=False, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return Ran([], [], [f"the tests did not end in {TIMEOUT_S} s"])
    return read(results) if results.exists() else Ran([], [], ["pytest wrote no results"])


def read(results: Path) -> Ran:
    """Returns the cases of a JUnit XML file."""
    ran = Ran([], [], [])
    for case in ElementTree.parse(results).iter("testcase"):
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"
        bad = next((child for child in case if child.tag in ("error", "failure", "skipped")), None)
        if bad is None:
            ran.passed.append(name)
        elif why := _no_judgement(name, bad):
            ran.broken_off.append(f"{name}: {why}")
        else:
            ran.failed.append(name)
    return ran


def _no_judgement(name: str, bad: ElementTree.Element) -> str:
    """Returns why this outcome says nothing about ottla; "" if it does."""
    message = " ".join(bad.get("message", "").split())[:200]
    if bad.tag != "failure":
        return f"{bad.tag}: {message}"
    if kind_of(name.partition("[")[2].removesuffix("]")) == "kafka":
        return f"with Apache Kafka: {message}"
    return message if re.match(r"(\w+\.)*BrokerFailed|Failed: Timeout", message) else ""


def row_of(change: Break, ran: Ran) -> dict[str, Any]:
    """Returns the break's row of the table: it was caught if a case of its own test failed."""
    file, _, test = change.test.partition("::")
    own = f"{Path(file).stem}::{test.partition('[')[0]}"
    failed = [name for name in ran.failed if name.partition("[")[0] == own]
    return {
        **change._asdict(),
        "caught": bool(failed),
        "failed": len(failed),
        "cases": sum(map(len, ran)),
        "by": failed[0] if failed else "",
        "broken_off": ran.broken_off,
    }


def caught(tree: Path, change: Break, results: Path) -> Ran:
    """Returns what the break's test says in the copy with the break, which is taken out again."""
    file = tree / change.file
    sound = file.read_text()
    file.write_text(broken(sound, change))
    try:
        return run(tree, [change.test], results)
    finally:
        file.write_text(sound)


def tell(rows: list[dict[str, Any]]) -> None:
    width = max(len(str(row["name"])) for row in rows)
    for row in rows:
        verdict = "caught" if row["caught"] else "NOT CAUGHT"
        print(f"{row['name']:<{width}}  {verdict}  {row['failed']} of {row['cases']}  {row['by']}")
        for why in row["broken_off"]:
            print(f"    {why}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="breaks whose name holds this")
    parser.add_argument("--security", action="store_true", help="those of logins and rights, by unit tests")
    parser.add_argument("--list", action="store_true", help="name them and stop")
    parser.add_argument("--write", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    table = SECURITY_BREAKS if arguments.security else BREAKS
    chosen = [change for change in table if arguments.only in change.name]
    if arguments.list:
        print(*(f"{change.name}: {change.promise}\n    {change.file}, {change.test}" for change in chosen), sep="\n")
        return 0
    source = stamp()
    with tempfile.TemporaryDirectory(prefix="ottla-breaks-") as place:
        tree, results = Path(place) / "tree", Path(place)
        shutil.copytree(ROOT, tree, symlinks=True, ignore=NOT_COPIED)
        control = run(tree, dict.fromkeys(change.test for change in chosen), results / "control.xml")
        bad = control.failed + control.broken_off
        print(f"control, nothing broken: {len(control.passed)} passed, {len(bad)} did not", flush=True)
        if bad or not control.passed:
            print(*bad, (results / "control.txt").read_text()[-4000:], sep="\n")
            return 1
        rows: list[dict[str, Any]] = []
        for number, change in enumerate(chosen):
            rows.append(row_of(change, caught(tree, change, results / f"{number}.xml")))
            tell(rows[-1:])
            sys.stdout.flush()
    if arguments.write:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(json.dumps({"ran": source, "control": len(control.passed), "breaks": rows}, indent=1) + "\n")
    print(f"\n{sum(bool(row['caught']) for row in rows)} of {len(rows)} caught\n")
    tell(rows)
    return 0 if all(row["caught"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
