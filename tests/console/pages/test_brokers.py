"""The brokers and their settings."""

from __future__ import annotations

from ottla.commands.config_rows import Entry, Kind
from tests.console.browser import browsing, cells
from tests.console.fakes import FakeSource


def test_brokers_and_the_settings_of_one() -> None:
    source = FakeSource(entries=[Entry("a", "1", "default", False, False), Entry("b", "2", "file", True, False)])
    with browsing(source) as browser:
        assert cells(browser.get("/brokers").text)[5:] == ["1", "host:9092", "● yes", "3", "3"]
        page = browser.get("/brokers/1").text
        assert [browser.get(f"/brokers/{wrong}").status for wrong in ("2", "x", "-1")] == [404, 400, 400]
    assert source.asked == [(Kind.BROKER, "1")]
    assert cells(page)[4:8] == ["b", "2", "file", "only at start"]


def test_many_settings_are_searched_and_paged_within_the_budget() -> None:
    long = "a.setting.with.a.name.as.long."
    others = [Entry(f"{long}{number:03}", "9223372036854775807", "default", False, False) for number in range(320)]
    source = FakeSource(entries=[*others, Entry("mine", "2", "file", True, False)])
    with browsing(source) as browser:
        first, last = browser.get("/brokers/1").text, browser.get("/brokers/1?page=3").text
        found = cells(browser.get("/brokers/1?q=LONG.007").text)
    assert len(first.encode()) < 60_000
    assert cells(first)[4] == "mine"
    assert "1–150 of 321 settings" in first
    assert "mine" not in cells(last)
    assert cells(last)[4] == f"{long}299"
    assert [cell for cell in found if cell.startswith(long)] == [f"{long}007"]
