"""Rates of a topic and of a group, look by look."""

from __future__ import annotations

from dataclasses import replace

from ottla.commands.clients.partition import Partition
from ottla.commands.groups.rows import OffsetState
from tests.console.browser import browsing, cells
from tests.console.fakes import FakeSource, group_state, topic_summary


def test_a_topic_needs_two_looks_more() -> None:
    with browsing(FakeSource([topic_summary("t", 2)])) as browser:
        first = browser.get("/topics/t/rates").text
        assert "1 sample since" in first
        assert "There is nothing to draw yet" in first
        assert '<main id="main" tabindex="-1" data-live>' in first
        for _ in range(2):
            page = browser.get("/topics/t/rates").text
    assert "<polyline points=" in page
    assert "Records produced in offsets/s" in page
    assert cells(page)[:2] == ["Time", "records"]
    assert cells(page)[3::2] == ["0", "0"]


def test_a_group_has_its_lag_and_two_rates() -> None:
    source = FakeSource()
    with browsing(source) as browser:
        for committed in (5, 9, 10):
            offsets = (OffsetState(Partition("t", 0), committed, 12), OffsetState(Partition("t", 1), None, 3))
            source.states_of = [replace(group_state("g/a"), offsets=offsets)]
            page = browser.get("/group/rates?id=g%2Fa").text
        assert browser.get("/group/rates?id=none").status == 404
    assert page.count("<svg") == 2
    found = cells(page)
    assert found[:2] == ["Time", "lag"]
    assert found[3:8:2] == ["2", "3", "7"]
    assert found[8:11] == ["Time", "produced", "committed"]
    assert found[12:14] == ["0", "0.5"]
    assert found[15:17] == ["0", "2"]
