"""docs/client-behaviours.md is made of what was seen, with a row for each scenario."""

from __future__ import annotations

import json

import pytest

from compat_tests.behaviours.clients import CLIENTS
from compat_tests.behaviours.scenarios import SCENARIOS
from compat_tests.behaviours.suite import one_text, without_time
from scripts.client_behaviours import RESULTS, measure, pages, refuse_other_versions
from scripts.written_pages import outdated


def test_the_page_is_that_of_the_results() -> None:
    assert outdated(pages()) == [], "run python -m scripts.client_behaviours --page"


def test_there_are_results_of_every_client_in_every_scenario() -> None:
    found = json.loads(RESULTS.read_text())
    names = [client.name for client in CLIENTS]
    assert list(found["versions"]) == names
    assert list(found["cells"]) == [scenario.key for scenario in SCENARIOS]
    assert {tuple(cells) for cells in found["cells"].values()} == {tuple(names)}
    assert len(set(found["cells"])) == len(SCENARIOS) >= 40


def test_what_differs_only_in_its_time_is_the_same() -> None:
    assert one_text(["all records", "all records"]) == "all records"
    assert one_text(["all records", "all records after 7 s or more"]) == "all records sometimes after 7 s or more"
    mixed = ["delivered after 2 to 4 s, 1 record", "delivered, 1 record", "delivered after 5 to 6 s, 1 record"]
    assert one_text(mixed) == "delivered sometimes after 5 to 6 s, 1 record"
    assert without_time(one_text(mixed)) == "delivered, 1 record"
    assert one_text(["no record", "all records", "no record"]) == "varies: all records / no record"


def test_rows_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^--only: there is no row crcs, fence; the keys are in docs/client-behaviours.json$"):
        measure(["crc-once", "fence", "crcs"], 1)


def test_some_rows_are_not_measured_with_other_clients_than_the_rest() -> None:
    refuse_other_versions({"Java": "4.4.0", "sarama": "v1"}, {"Java": "4.4.0", "sarama": "v1"})
    with pytest.raises(ValueError, match=r"^--only: here is sarama v2, not v1, which the other rows are about; run all rows$"):
        refuse_other_versions({"Java": "4.4.0", "sarama": "v1"}, {"Java": "4.4.0", "sarama": "v2"})
