"""The pages for readers: the figures in their sentences are those of what they speak of, and the first screen says what not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.tools_diff.site import NOT_COMPARED
from compat_tests.wire_diff.edge_cases import all_served
from ottla import __version__
from ottla.server.settings.broker_settings import OWN_DEFAULTS, OWN_SETTINGS
from ottla.server.telemetry.subscriptions import MAX_INSTANCES, MAX_NUMBERS, MAX_NUMBERS_OF_ONE

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "compat_tests"
NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def words(name: str) -> str:
    """Returns a page's text with single spaces between its words."""
    return " ".join((ROOT / name).read_text().split())


def loaded(path: str) -> Any:
    return json.loads((RESULTS / path).read_text())


def passed_by_both(rows: list[Any]) -> int:
    """Returns how many cases of Kafka's own tests Apache Kafka passes; ottla passes each of them."""
    passed = [row for row in rows if row["kafka"] == "passed"]
    assert all(row["ottla"] == "passed" for row in passed)
    return len(passed)


def of_kafkas_tests() -> str:
    rows, several = loaded("kafka_tests/results.json"), loaded("kafka_tests/several.json")
    excluded = sum(row["kafka"] == "excluded" for row in rows)
    passed = passed_by_both(rows)
    return (
        f"Apache Kafka 4.4.0 passes {passed:,} of {len(rows) - excluded:,} cases, and ottla passes the same {passed:,}; of the "
        f"{len(several)} that need several brokers and get them, with a controller of Kafka's, both pass the same "
        f"{passed_by_both(several)} "
        "(`compat_tests/kafka_tests/results.json` and `several.json` give the reason for each other one)"
    )


def of_apis() -> str:
    served = all_served().values()
    versions = sum(api.max_version - api.min_version + 1 for api in served)
    return f"each of the {len(served)} APIs, in each of its versions ({versions} in all), gave the same answers,"


def of_the_walk() -> str:
    walk = loaded("results/random_walk.json")
    assert walk["unexplained"] == []
    return f"A seeded random walk of {round(walk['requests'], -3):,} requests in lock-step finds no unexplained difference."


@pytest.mark.parametrize(
    "sentence",
    [
        of_kafkas_tests(),
        of_apis(),
        of_the_walk(),
        f"every tool in kafka-tools 4.3.1, except for {NUMBERS[len(NOT_COMPARED)]} that the report names, is compared",
        f"except for {NUMBERS[len(OWN_DEFAULTS)]} with which a broker starts without a configuration",
    ],
)
def test_a_figure_of_readme_is_that_of_its_source(sentence: str) -> None:
    assert sentence in words("README.md"), f"README.md has other figures than their source; it should say: {sentence}"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("docs/when-not.md", f"**You need more than {OWN_SETTINGS['ottla.max.partitions'].default:,} partitions.**"),
        ("docs/when-not.md", f"This is {__version__}:"),
        ("docs/metrics.md", f"The broker remembers the {MAX_INSTANCES:,} clients that were active last,"),
        (
            "docs/metrics.md",
            f"keeps up to {MAX_NUMBERS_OF_ONE:,} numbers of a client and {MAX_NUMBERS:,} of all clients together.",
        ),
    ],
)
def test_a_figure_of_another_page_is_that_of_the_source(page: str, sentence: str) -> None:
    assert sentence in words(page), f"{page} has another figure than its source; it should say: {sentence}"


def test_what_ottla_is_not_for_is_said_on_the_first_screen() -> None:
    before_any_command, _, _ = (ROOT / "README.md").read_text().partition("\n    bash scripts/run\n")
    assert "(docs/when-not.md)" in before_any_command
    assert "(docs/limits.md)" in before_any_command
