"""The first page says whether the cluster is well."""

from __future__ import annotations

from typing import Any

from ottla.commands.clients.direct import Refused
from ottla.commands.output import Failure
from ottla.console.broker.inside import NO_BROKER
from ottla.console.cluster.source import Groups
from ottla.console.subjects.absent import SENTENCES
from ottla.console.subjects.storage import Directory
from ottla.wire.errors import ErrorCode
from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource, group_state, topic_summary


def test_a_cluster_that_is_well() -> None:
    source = FakeSource([topic_summary("a", 3), topic_summary("b")], [group_state("g"), group_state("h", "share", "Stable")])
    with browsing(source) as browser:
        page = browser.get("/").text
    assert "Every partition has a leader" in page
    assert "Topics that need attention" not in page
    assert "This console started" in page
    assert "No client can ask" in page
    assert "which errors they get. " + NO_BROKER in page
    assert '<main id="main" tabindex="-1" data-live="5">' in page
    assert cells(page)[6:] == ["None.", "Kind", "State", "Groups", "classic", "○ Empty", "1", "share", "● Stable", "1"]


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


def directory(broker: int, path: str, total: int | None = 100 << 30, usable: int | None = 40 << 30, **more: Any) -> Directory:
    return Directory(broker, path, more.get("problem"), total, usable, more.get("is_cordoned", False), [])


def test_disks_of_which_the_bad_ones_come_first() -> None:
    found = [
        directory(1, "/a"),
        directory(2, "/b", usable=5 << 30, is_cordoned=True),
        directory(3, "/c", None, None),
        directory(4, "/d", usable=(5 << 30) - 1),
        directory(5, "/e", None, None, problem="closed"),
    ]
    with browsing(FakeSource(directories_of=found)) as browser:
        page = browser.get("/").text
    assert cells(page)[6:36] == [
        *("/e", "5", "✕ offline: closed", "–", "–", "–"),
        *("/d", "4", "▲ nearly full", "95.0 GiB", "5.0 GiB", "100.0 GiB"),
        *("/a", "1", "● online", "60.0 GiB", "40.0 GiB", "100.0 GiB"),
        *("/b", "2", "▲ cordoned", "95.0 GiB", "5.0 GiB", "100.0 GiB"),
        *("/c", "3", "● online", "–", "–", "–"),
    ]
    assert '✕ <a href="/broker/directories">1 log directory</a> offline' in page
    many = [directory(number, "/a") for number in range(23)]
    with browsing(FakeSource(directories_of=many)) as browser:
        assert '<a href="/broker/directories">and 3 more</a>' in browser.get("/").text


def test_disks_that_are_not_shown_are_a_sentence() -> None:
    refused = Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "refused")
    with browsing(FakeSource(directories_of=refused)) as browser:
        assert SENTENCES[ErrorCode.CLUSTER_AUTHORIZATION_FAILED] in browser.get("/").text
    with browsing(FakeSource(directories_of=Failure("closed"))) as browser:
        assert "<li>the log directories are not known: closed</li>" in browser.get("/").text


def test_any_cluster_has_a_chart_of_what_is_produced() -> None:
    with browsing(FakeSource()) as browser:
        assert "There is nothing to draw yet" in browser.get("/").text
        browser.get("/")
        page = browser.get("/").text
    assert "Records in in offsets/s" in page
    assert "one is taken every 5 seconds" in page
    assert page.count("<svg") == 1
    assert 'viewBox="0 0 520 220"' in page
    with browsing(FakeSource(rising=iter([None]))) as browser:
        page = browser.get("/").text
    assert "<svg" not in page
    assert "nothing to draw" not in page


def test_the_disks_of_a_broker(browser: Browser) -> None:
    path, number, state, used, free, of = cells(browser.get("/").text)[6:12]
    assert (number, state) == ("1", "● online")
    assert path.startswith("/")
    assert all(size.endswith("iB") for size in (used, free, of))
