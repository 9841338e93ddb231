"""kafka-python's own integration tests, unchanged, against a fresh ottla and a fresh Apache Kafka (compat_tests/suites).

Every case that Apache Kafka passes must pass with ottla, each a test here by its name; the suite runs once for each kind of
broker, or those of its cases that the run is about: chosen with -k, or tried a second time by scripts/test. The list is held
against what runs: a case that is in neither part of suites/cases.json fails, and so does one that is said to be out and passes
after all.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from compat_tests.brokers import CLASSES
from compat_tests.suites.runner import BROKER, TIMEOUT_S, Outcome, asked_for, listed, run

CASES = listed()

pytestmark = pytest.mark.timeout(TIMEOUT_S + 120)  # the first test runs the suite, and starts a broker for it


@pytest.fixture(scope="session")
def outcomes(kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    directory = Path(tmp_path_factory.mktemp(f"suite-{kind}"))
    broker = CLASSES[kind](directory / "broker", BROKER)
    broker.start()
    try:
        here: list[Any] = [item for item in request.session.items if item.path == Path(__file__)]
        calls = [item.callspec.params for item in here]
        return run(broker.bootstrap, directory / "results", asked_for(calls, kind))
    finally:
        broker.stop()
        shutil.rmtree(broker.directory)


@pytest.mark.parametrize("case", CASES["passes"])
def test_kafka_python(outcomes: dict[str, Outcome], case: str) -> None:
    assert case in outcomes, "it did not run"
    assert outcomes[case].result == "passed", outcomes[case].text


def test_all_cases_are_listed_and_what_is_out_does_not_pass(outcomes: dict[str, Outcome]) -> None:
    assert set(outcomes) == {*CASES["passes"], *CASES["out"]}
    assert not [case for case in CASES["out"] if outcomes[case].result == "passed"]
