"""Tests of the page about why somebody is denied something."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.commands.program import AccessRule
from ottla.console.broker.inside import NO_BROKER
from ottla.console.pages import denied
from ottla.console.web.app import Beside
from tests.console.browser import browsing, cells, check_page
from tests.console.fakes import FakeInside, FakeSource

ASK = "/denied?principal=User%3Aalice&host=10.0.0.7&operation=write&resource=topic&name=orders"
DENY: list[Any] = [2, "ord", 4, "User:*", "*", 4, 2]
ALLOW: list[Any] = [2, "orders", 3, "User:alice", "*", 3, 3]
DENIAL = {
    "principal": "User:alice",
    "host": "10.0.0.7",
    "api": "Produce",
    "operation": 4,
    "resource": 2,
    "name": "orders",
    "times": 3,
    "last_ms": 1_000,
}


def told(**decided: Any) -> FakeInside:
    said = {"allowed": False, "rule": None, "without_rule": "DefaultDeny", "considered": [ALLOW]} | decided
    return FakeInside({"denials": {"enabled": True, "since_ms": 0, "denials": [DENIAL]}, "decision": said})


def inside(**decided: Any) -> Beside:
    return Beside(inside=told(**decided), without_inside="")


def test_no_rule_allows_it_and_the_line_that_would() -> None:
    asked = told()
    with browsing(FakeSource(), beside=Beside(inside=asked, without_inside="")) as browser:
        texts = "".join(check_page(browser.get(ASK).text).texts)
    assert "✕ User:alice may not write topic orders from 10.0.0.7: no rule allows it." in texts
    assert "ottla acl add --topic orders --allow User:alice --operation write" in texts
    what = {"principal": "User:alice", "host": "10.0.0.7", "operation": 4, "resource": 2, "name": "orders"}
    assert asked.asked == [("decision", what), ("denials", {})]


def test_a_rule_denies_it_and_is_among_those_that_count() -> None:
    with browsing(FakeSource(), beside=inside(rule=DENY, without_rule="", considered=[ALLOW, DENY])) as browser:
        page = browser.get(ASK).text
    texts = "".join(check_page(page).texts)
    assert "may not write topic orders from 10.0.0.7: the rule: deny User:* write on topic ord...." in texts
    assert "ottla acl remove --topic ord --prefix --deny 'User:*' --operation write" in texts
    assert cells(page)[7:21] == [
        *("allow", "User:alice", "*", "read", "topic", "orders", "literal"),
        *("decides: deny", "User:*", "*", "write", "topic", "ord", "prefix"),
    ]


def test_what_is_allowed_needs_no_line() -> None:
    with browsing(FakeSource(), beside=inside(allowed=True, without_rule="SuperUser", considered=[])) as browser:
        page = browser.get(ASK).text
    assert "may write topic orders from 10.0.0.7: it is one of super.users." in page
    assert "ottla acl add" not in page


def test_who_was_denied_what_lately() -> None:
    with browsing(FakeSource(), beside=inside()) as browser:
        page = browser.get("/denied").text
    assert cells(page)[8:15] == ["User:alice", "10.0.0.7", "Produce", "write", "topic", "orders", "3"]
    assert (
        'href="/denied?principal=User%3Aalice&amp;host=10.0.0.7&amp;operation=write&amp;resource=topic&amp;name=orders"' in page
    )
    nothing = FakeInside({"denials": {"enabled": False, "since_ms": None, "denials": []}})
    with browsing(FakeSource(), beside=Beside(inside=nothing, without_inside="")) as browser:
        assert "has no authorizer" in browser.get("/denied").text


def test_a_client_is_shown_the_rules_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denied, "_rules", lambda *_: [AccessRule(*ALLOW)])
    with browsing(FakeSource()) as browser:
        texts = "".join(check_page(browser.get(ASK).text).texts)
    assert "as far as a client can see" in texts
    assert "ottla acl why User:alice write --topic orders --host 10.0.0.7" in texts
    assert NO_BROKER in texts


@pytest.mark.parametrize("query", ["principal=alice", "principal=User:a", "principal=User:a&operation=read&resource=topic&name="])
def test_what_cannot_be_asked(query: str) -> None:
    with browsing(FakeSource(), beside=inside()) as browser:
        assert browser.get(f"/denied?{query}").status == 400
