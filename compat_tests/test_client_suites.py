"""kafka-python's own integration tests, unchanged, against a fresh ottla and a fresh Apache Kafka (compat_tests/suites).

Every case that Apache Kafka passes must pass with ottla, each a test here by its name; the suite runs once for each kind of
broker. The list is held against what runs: a case that is in neither part of suites/cases.json fails, and so does one that is
said to be out and passes after all.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compat_tests.brokers import CLASSES
from compat_tests.suites.runner import BROKER, Outcome, listed, run_twice

CASES = listed()


@pytest.fixture(scope="session")
def outcomes(kind: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    directory = Path(tmp_path_factory.mktemp(f"suite-{kind}"))
    broker = CLASSES[kind](directory / "broker", BROKER)
    broker.start()
    try:
        return run_twice(broker.bootstrap, directory / "results", CASES["passes"])
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
