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
