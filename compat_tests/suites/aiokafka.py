"""aiokafka's own integration tests, from a checkout: its source distributions hold no tests, so CI cannot have them.

    python -m compat_tests.suites.aiokafka CHECKOUT [--kind ottla|kafka] [--only EXPRESSION]

CHECKOUT is aiokafka's repository at the tag of the installed version, or at least its folder `tests`. The results go, beside
those of the other kind that are there, into compat_tests/results/aiokafka.json: {"ran", "version", "cases": {case: {kind:
result}}}, where `ran` is of the last run (compat_tests/provenance.py).
`--only` is pytest's -k, for cases that count milliseconds and met a busy machine; the other results stay.
Files that need SSL, SASL or Kerberos are left out, and so are those that need no broker.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from compat_tests.provenance import stamp
from compat_tests.suites.runner import Outcome, read

ROOT: Final = Path(__file__).resolve().parents[2]

RESULTS: Final = ROOT / "compat_tests" / "results" / "aiokafka.json"
KAFKA_VERSION: Final = "4.0.0"
"""The version that the tests take the broker for: it decides which of them apply."""
FILES: Final = (
    *("admin", "client", "conn", "consumer", "coordinator", "fetcher", "pep492", "producer", "sender"),
    *("transactional_consumer", "transactional_producer"),
)
_CASE_TIMEOUT_S: Final = 120
_KERBEROS: Final = "#!/bin/sh\nexit 0\n"  # their harness makes a key for tests that are left out


def run(checkout: Path, kind: str, directory: Path, only: str = "") -> dict[str, Outcome]:
    """The cases against a fresh broker of this kind; `directory` takes a copy of the tests and their output."""
    shutil.copytree(checkout / "tests", directory / "tests")
    programs = directory / "bin"
    programs.mkdir()
    (programs / "ktutil").write_text(_KERBEROS)
    (programs / "ktutil").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    environment["PYTHONPATH"] = str(ROOT)
    results = directory / "results.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={directory}", "-p", "no:cacheprovider"]
    command += ["-p", "compat_tests.suites.fake_docker", f"--docker-image={kind}:2.13_{KAFKA_VERSION}", "--no-pull"]
    command += ["-k", only, "-m", "not ssl", "-W", "ignore", f"--timeout={_CASE_TIMEOUT_S}", f"--junitxml={results}"]
    command += [f"tests/test_{name}.py" for name in FILES]
    with open(directory / "output.txt", "wb") as output:
        subprocess.run(command, cwd=directory, env=environment, stdout=output, stderr=output, check=False)
    return read(results)


def merged(kind: str, outcomes: dict[str, Outcome], only: str, ran: dict[str, str]) -> dict[str, Any]:
    """Returns the results that are kept, with these in place of an earlier run's, or of its cases that were run again."""
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"cases": {}}
    cases: dict[str, dict[str, str]] = {case: of if only else {**of, kind: ""} for case, of in kept["cases"].items()}
    for case, outcome in outcomes.items():
        cases.setdefault(case.removeprefix("tests::"), {})[kind] = outcome.result
    return {"ran": ran, "version": version("aiokafka"), "cases": dict(sorted(cases.items()))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--kind", choices=("ottla", "kafka"), action="append")
    parser.add_argument("--only", default="", metavar="EXPRESSION")
    arguments = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    ran = stamp()
    for kind in arguments.kind or ("kafka", "ottla"):
        with tempfile.TemporaryDirectory(prefix="ottla-aiokafka-") as directory:
            outcomes = run(arguments.checkout.resolve(), kind, Path(directory), arguments.only)
        RESULTS.write_text(json.dumps(merged(kind, outcomes, arguments.only, ran), indent=1) + "\n")
        bad = {case: outcome.text for case, outcome in outcomes.items() if outcome.result == "failed"}
        print(f"{kind}: {sum(outcome.result == 'passed' for outcome in outcomes.values())} of {len(outcomes)} passed")
        print(*(f"    {case}: {text[:200]}" for case, text in bad.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
