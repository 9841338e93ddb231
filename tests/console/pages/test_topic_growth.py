"""A topic gets more partitions, and loses its oldest records, if its name is typed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.console.browser import Browser, browsing, cells
from tests.console.conftest import Records
from tests.console.fakes import FakeSource, topic_summary

Audited = Callable[[], list[str]]


def test_more_partitions(browser: Browser, topic: Callable[..., str], audited: Audited) -> None:
    name = topic("growth")
    path = f"/topics/{name}/partitions"
    assert path in browser.get(f"/topics/{name}").text
    assert "has 1 partition." in browser.get(path).text
    for wrong in ("", "1", "x"):
        assert browser.post(path, partitions=wrong).status == 400
    answer = browser.post(path, partitions="3")
    assert (answer.status, answer.headers["location"]) == (303, f"/topics/{name}")
    assert cells(browser.get(f"/topics/{name}").text)[9::9] == ["0", "1", "2"]
    assert audited()[-1] == f"add partitions to topic '{name}', to have '3': done"


def test_the_oldest_records_go(browser: Browser, topic: Callable[..., str], produced: Records, audited: Audited) -> None:
    name = topic("growth-records")
    produced(name, b"a", b"b", b"c")
    path = f"/topics/{name}/delete-records"
    assert 'value="2"' in browser.get(f"{path}?partition=0&offset=2").text
    assert browser.post(path, typed="growth", partition="0", offset="2").status == 400
    answer = browser.post(path, typed=name, partition="0", offset="9")
    assert answer.status == 400
    assert browser.post(path, typed=name, partition="0", offset="2").status == 303
    assert cells(browser.get(f"/topics/{name}").text)[13:16] == ["2", "3", "3"]
    assert browser.post(path, typed=name, partition="0", offset="end").status == 303
    assert cells(browser.get(f"/topics/{name}").text)[13:16] == ["3", "3", "3"]
    lines = audited()
    assert lines[0].startswith(f"delete records of '{name}' [0] before offset 9: failed: ")
    assert lines[1:] == [
        f"delete records of '{name}' [0] before offset 2: done",
        f"delete records of '{name}' [0] before offset the end: done",
    ]


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"offset": "1"}, "partition is empty"),
        ({"partition": "0"}, "offset is empty"),
        ({"partition": "1", "offset": "1"}, "partition has to be a whole number from 0 to 0"),
        ({"partition": "0", "offset": "-1"}, "offset has to be a whole number from 0"),
    ],
)
def test_what_is_no_place_is_said(form: dict[str, str], why: str, audited: Audited) -> None:
    with browsing(FakeSource([topic_summary("t")])) as browser:
        answer = browser.post("/topics/t/delete-records", typed="t", **form)
    assert (answer.status, why in answer.text) == (400, True)
    assert audited()[0].startswith(f"delete records of topic 't': refused: {why}")
