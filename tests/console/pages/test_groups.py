"""The list of groups."""

from __future__ import annotations

import pytest

from tests.console.browser import browsing, cells
from tests.console.fakes import FakeSource, group_state

GROUPS = [group_state("b"), group_state("A", "share", "Stable"), group_state("c", "streams", "NotReady"), group_state("")]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["(empty name)", "A", "b", "c"]),
        ("?q=a", ["A"]),
        ("?kind=share", ["A"]),
        ("?state=Empty", ["(empty name)", "b"]),
        ("?kind=classic&state=Stable", ["No group fits."]),
    ],
)
def test_search(query: str, found: list[str]) -> None:
    with browsing(FakeSource(states_of=GROUPS)) as browser:
        assert cells(browser.get(f"/groups{query}").text)[6::6] == found


def test_only_what_is_on_the_page_is_asked_for() -> None:
    source = FakeSource(states_of=[group_state(f"g{number:03}") for number in range(60)])
    with browsing(source) as browser:
        page = browser.get("/groups?page=2").text
    assert source.asked == [[f"g{number:03}" for number in range(50, 60)]]
    assert cells(page)[6:12] == ["g050", "classic", "○ Empty", "0", "0", ""]
