"""Tests of the page about why a group is stuck: the verdict, what it was seen by, what helps, what is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.commands.clients.partition import Partition
from ottla.commands.groups.rows import OffsetState
from ottla.commands.output import Failure
from ottla.commands.why.facts import Left, NextBatch
from ottla.console.broker.inside import NO_BROKER
from ottla.console.pages import group_why
from ottla.console.web.app import Beside
from tests.commands.why.test_verdicts import MEMBER, STUCK, group, partition
from tests.console.browser import browsing, cells, check_page
from tests.console.fakes import FakeInside, FakeSource, group_state, topic_summary

LEFT = group(
    partition(newest_ms=9_000, next_batch=NextBatch(40, 500, 1_500)),
    partition(partition=Partition("orders", 1), committed=99, committed_before=99, left=Left(0, True)),
    name="billing",
)


def test_a_verdict_with_its_evidence_and_remedy() -> None:
    facts, text = STUCK["not-fetching"]
    source = FakeSource(facts=facts)
    with browsing(source, beside=Beside(inside=FakeInside({}), without_inside="")) as browser:
        page = browser.get("/group/why?id=billing")
    assert page.status == 200
    texts = "".join(check_page(page.text).texts)
    assert f"✕ Stuck. {text}" in texts
    assert "no fetch and no commit in the 3 s watched" in texts
    assert "What helps: Look for pause() without resume()" in texts
    assert NO_BROKER not in texts
    assert source.asked == [("billing", 3, True)]


def test_a_transaction_in_the_way_is_a_link_away() -> None:
    for reason in ("blocked", "not-fetching"):
        with browsing(FakeSource(facts=STUCK[reason][0])) as browser:
            page = browser.get("/group/why?id=billing").text
        assert ('href="/transactions?state=open"' in page) == (reason == "blocked")


def test_what_is_left_in_records_and_in_time() -> None:
    with browsing(FakeSource(facts=LEFT)) as browser:
        page = browser.get("/group/why?id=billing").text
    assert cells(page)[10:20] == ["orders", "0", "40", "40", "100", "100", "60", "60", "7.5 s", "app"]
    assert cells(page)[20:30] == ["orders", "1", "99", "40", "100", "100", "1", "0", "0 s", "app"]
    assert "Records left to read</dt><dd>60" in page


def test_partitions_without_a_commit_are_named_if_nobody_reads() -> None:
    said = "The lag leaves out 2 partitions of orders without a committed offset"
    for facts, expected in [(STUCK["no-member"][0], True), (LEFT, False)]:
        with browsing(FakeSource(facts=facts, topics=[topic_summary("orders", 3)])) as browser:
            assert (said in browser.get("/group/why?id=billing").text) is expected


def test_without_a_broker_it_says_what_would_bring_more() -> None:
    source = FakeSource(facts=replace(LEFT, has_inside=False))
    with browsing(source) as browser:
        page = browser.get("/group/why?id=billing&watch=0").text
    assert NO_BROKER in "".join(check_page(page).texts)
    assert source.asked == [("billing", 0, False)]


def test_how_long_it_is_watched_is_bounded() -> None:
    with browsing(FakeSource(facts=LEFT)) as browser:
        assert browser.get("/group/why?id=billing&watch=11").status == 400
        assert browser.get("/group/why?id=nobody").status == 200


def test_the_list_marks_what_is_stuck_and_leads_there() -> None:
    behind = OffsetState(Partition("t", 0), 5, 12)
    groups = [
        replace(group_state("billing"), offsets=(behind,)),
        replace(group_state("busy"), offsets=(behind,), members=(MEMBER,)),
        replace(group_state("on-offline"), offsets=(replace(behind, partition=Partition("gone", 0)),), members=(MEMBER,)),
        group_state("well"),
    ]
    source = FakeSource([topic_summary("t"), topic_summary("gone", offline=1)], groups)
    with browsing(source) as browser:
        page = browser.get("/groups").text
        assert 'href="/group/why?id=billing"' in browser.get("/group?id=billing").text
    assert cells(page)[10::6] == ["7", "7", "7", "0"], "numbers alone, or the script could not sort them"
    assert cells(page)[11::6] == ["✕ no member Why?", "Why?", "✕ gone is offline Why?", ""]
    assert page.count('href="/group/why?id=') == 3


def test_what_is_known_by_the_time_of_a_page_and_a_link_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_why, "MORE_S", 0)
    source = FakeSource()
    gathering = source.gathering
    monkeypatch.setattr(source, "why", lambda *_: gathering)
    with browsing(source) as browser:
        page = browser.get("/group/why?id=billing&watch=0")
        assert page.status == 200
        assert "Nothing is known yet" in page.text
        assert 'href="?id=billing&amp;watch=0&amp;look=1"' in page.text
        gathering.tell(replace(STUCK["no-member"][0], watched_s=0))
        page = browser.get("/group/why?id=billing&watch=0")
        texts = "".join(check_page(page.text).texts)
        assert "So far: Nobody reads: the group has " in texts
        assert STUCK["no-member"][1] in texts
        assert "It has been looked at once, and more is being gathered" in texts
        assert "Stuck." not in texts
        assert "What helps" not in texts
        gathering.end(0)
        assert "Stuck." in browser.get("/group/why?id=billing&watch=0&look=1").text
        gathering.error = Failure("no answer")
        assert browser.get("/group/why?id=billing&watch=0&look=1").status == 502
