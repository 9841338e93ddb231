"""docs/client-behaviours.md says what clients do: some rows that are quick and always the same, for all six clients."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from compat_tests.behaviours.clients import CLIENTS, JAVA, KAFKAJS
from compat_tests.behaviours.scenarios import SCENARIOS
from compat_tests.behaviours.suite import run_all, without_time

RESULTS: Final = Path(__file__).resolve().parents[1] / "docs" / "client-behaviours.json"
NAMES: Final = [client.name for client in CLIENTS]
ROWS: Final = ("retries", "timed-out", "lost-idempotent", "lost-plain", "commit-lost", "fenced", "aborted", "crc-checked")
Cells = Mapping[tuple[str, str], str]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """Returns what each client does, by row and client."""
    scenarios = [scenario for scenario in SCENARIOS if scenario.key in ROWS]
    seen, _ = run_all(tmp_path_factory.mktemp("behaviours"), scenarios)
    return {where: without_time(texts[0]) for where, texts in seen.items()}


@pytest.mark.parametrize("client", NAMES)
def test_it_does_what_the_page_says(client: str, cells: Cells) -> None:
    written = json.loads(RESULTS.read_text())["cells"]
    said = {row: without_time(written[row][client]) for row in ROWS}
    found = {row: cells[row, client] for row in ROWS}
    changed = [f"{row}: {found[row]!r}, where the page has {said[row]!r}" for row in ROWS if found[row] != said[row]]
    assert not changed, f"{client} does something else: python -m scripts.client_behaviours --only {','.join(ROWS)}"


@pytest.mark.parametrize("client", NAMES)
def test_after_two_errors_worth_a_retry_an_idempotent_producer_leaves_one_record(client: str, cells: Cells) -> None:
    assert cells["retries", client] == "delivered, 1 record, 3 requests"
    assert cells["lost-idempotent", client] == "delivered, 1 record, 2 requests"


@pytest.mark.parametrize("client", NAMES)
def test_an_answer_that_is_lost_doubles_the_record_of_a_producer_that_is_not(client: str, cells: Cells) -> None:
    assert cells["lost-plain", client] == "delivered, 2 records, 2 requests"


def test_a_commit_whose_answer_is_lost_is_one_transaction(cells: Cells) -> None:
    assert cells["commit-lost", JAVA] == "committed, 1 record; goes on"
    for client in NAMES:
        assert ", 1 record" in cells["commit-lost", client]


@pytest.mark.parametrize("client", [name for name in NAMES if name != KAFKAJS])  # which has no check
def test_records_with_a_wrong_checksum_are_reported_and_not_delivered(client: str, cells: Cells) -> None:
    error, _, delivered = cells["crc-checked", client].rpartition(", ")
    assert error
    assert delivered == "no record"
