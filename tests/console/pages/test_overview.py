"""The first page says whether the cluster is well."""

from __future__ import annotations

from ottla.commands.output import Failure
from ottla.console.source import Groups
from tests.console.browser import browsing, cells
from tests.console.fakes import FakeSource, group_state, topic_summary


def test_a_cluster_that_is_well() -> None:
    source = FakeSource([topic_summary("a", 3), topic_summary("b")], [group_state("g"), group_state("h", "share", "Stable")])
    with browsing(source) as browser:
        page = browser.get("/").text
    assert "Every partition has a leader" in page
    assert "Topics that need attention" not in page
    assert cells(page)[3:] == ["classic", "○ Empty", "1", "share", "● Stable", "1"]


def test_what_is_wrong_is_named_with_the_way_to_it() -> None:
    bad = [topic_summary(f"bad-{number:02}", 3, under=2, offline=number % 2) for number in range(25)]
    with browsing(FakeSource([topic_summary("good"), *bad], notes=("something is not known",))) as browser:
        page = browser.get("/").text
    assert "12 partitions without a leader, 50 under-replicated" in page
    assert cells(page)[3:9] == ["bad-00", "▲ 2 under-replicated", "3", "bad-01", "✕ 1 offline", "3"]
    assert "and 5 more" in page
    assert "good" not in cells(page)
    assert "something is not known" in page


def test_the_cluster_is_shown_even_if_groups_are_not_known() -> None:
    class Closed(FakeSource):
        def groups(self) -> Groups:
            raise Failure("not allowed for this user (cluster)")

    with browsing(Closed([topic_summary("a")])) as browser:
        page = browser.get("/")
    assert page.status == 200
    assert "groups are not known: not allowed for this user (cluster)" in page.text
