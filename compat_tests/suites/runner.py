"""Runs a library's own suite against one broker, in a pytest of its own, and reports the result of each case.

`run(bootstrap, directory)` -> {case: Outcome}. A case is `<module>::<test>`, as cases.json spells it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

from compat_tests.suites.sources import source_of

LIBRARY: Final = "kafka-python"
KAFKA_VERSION: Final = "4.3"
"""The version that kafka-python 3.0.12 takes a 4.4 broker for: the newest it knows."""
BROKER: Final = {"node.id": "0", "num.partitions": "4", "group.min.session.timeout.ms": "1000"}
"""The settings that the suite expects of its broker; its own server.properties are not in the distribution."""
TIMEOUT_S: Final = 280
TESTS: Final = "test/integration"
CASES: Final = Path(__file__).with_name("cases.json")


class Outcome(NamedTuple):
    """`result`: passed, failed or skipped; `text`: why, for those that did not pass."""

    result: str
    seconds: float
    text: str = ""


def listed() -> dict[str, Any]:
    """cases.json: {"library", "version", "passes": [case, ...], "out": {case: reason}}."""
    found: dict[str, Any] = json.loads(CASES.read_text())
    return found


def asked_for(calls: Iterable[Mapping[str, Any]], kind: str) -> list[str]:
    """The cases that a run's tests are about, by their parameters; none, for the suite as a whole, if one is about all of it."""
    ours = [call for call in calls if call["kind"] == kind]
    return [call["case"] for call in ours] if all("case" in call for call in ours) else []


def run(bootstrap: str, directory: Path, cases: Iterable[str] = ()) -> dict[str, Outcome]:
    """These cases, or all, against this broker; `directory` takes the output. Raises FetchFailed, TimeoutExpired."""
    source = source_of(LIBRARY, listed()["version"])  # it tests the library beside it, not an installed one
    directory.mkdir(parents=True, exist_ok=True)
    results = directory / "results.xml"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "KAFKA_"))}
    environment |= {
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_ROOT": str(directory),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", f"--rootdir={source}", "-c", os.devnull, "-p", "no:cacheprovider"]
    command += ["-p", "compat_tests.suites.kafka_python", f"--junitxml={results}", "--timeout=60"]
    command += [_node(case) for case in cases] or [TESTS]
    with open(directory / "output.txt", "wb") as output:
        subprocess.run(command, cwd=source, env=environment, stdout=output, stderr=output, check=False, timeout=TIMEOUT_S)
    return read(results)


def _node(case: str) -> str:
    """As pytest is asked for it."""
    module, _, rest = case.partition("::")
    return f"{TESTS}/{module}.py::{rest}"


def read(results: Path) -> dict[str, Outcome]:
    """The cases of a JUnit XML file."""
    outcomes = {}
    for case in ElementTree.parse(results).iter("testcase"):
        name = f"{case.get('classname', '').removeprefix('test.integration.').replace('.', '::')}::{case.get('name')}"
        bad = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        seconds = float(case.get("time", 0))
        if bad is None:
            outcomes[name] = Outcome("passed", seconds)
        else:
            text = re.sub(r"\s+", " ", bad.get("message") or bad.text or "")
            outcomes[name] = Outcome("skipped" if bad.tag == "skipped" else "failed", seconds, text)
    return outcomes
