"""Runs files of compat tests against ottla as a broker of a real quorum; compat_tests/results/quorum.json keeps the results.

    python -m scripts.quorum_suites [compat_tests/test_go.py ...]

Without files it runs all of compat_tests/test_*.py, which takes hours; a file's result takes the place of its earlier one. Tests
of EXPECTED fail, for the reason that stands there: they ask for something that only a broker has which is its own controller.
The exit code is 1 if any other test fails, or one of these passes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any, Final

from compat_tests.provenance import stamp

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "compat_tests" / "results" / "quorum.json"
EXPECTED: Final = {
    "compat_tests/test_java.py::test_the_quorum[ottla]": "the broker is no voter here: the voters are Apache Kafka's controllers",
}


def run(file: str) -> dict[str, Any]:
    """Returns how many tests of a file passed, and those that failed, each with the first line that says why."""
    with tempfile.TemporaryDirectory(prefix="ottla-quorum-") as work:
        report = Path(work) / "report.xml"
        options = ("-q", "-m", "not spark", "-p", "no:cacheprovider", f"--junitxml={report}")
        command = [sys.executable, "-m", "pytest", *options, file]
        subprocess.run(command, cwd=ROOT, env=os.environ | {"OTTLA_COMPAT_QUORUM": "1"}, check=False)
        return read(report)


def read(report: Path) -> dict[str, Any]:
    """Returns the same of a report of JUnit's."""
    passed, failed = 0, {}
    for case in xml.parse(report).iter("testcase"):
        problem = next((each for each in case if each.tag in ("failure", "error")), None)
        name = _id(case.attrib["classname"], case.attrib["name"])
        if problem is None:
            passed += 1
        else:
            failed[name] = EXPECTED.get(name) or problem.attrib.get("message", "").partition("\n")[0][:200]
    return {"passed": passed, "failed": failed}


def _id(classname: str, test: str) -> str:
    """Returns the id of a test: what pytest reports as its class is the module and, behind it, a class."""
    *modules, last = classname.split(".")
    file = "/".join([*modules, last] if last.startswith("test_") else modules)
    return f"{file}.py::{test}"


def main() -> int:
    files = sys.argv[1:] or sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "compat_tests").glob("test_*.py"))
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    unexpected: list[str] = []
    for file in files:
        result = kept[file] = stamp() | run(file)
        RESULTS.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
        wanted = {name for name in EXPECTED if name.partition("::")[0] == file}
        unexpected += sorted(wanted.symmetric_difference(result["failed"]))
    for name in unexpected:
        print(f"not as expected: {name}", file=sys.stderr)
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
