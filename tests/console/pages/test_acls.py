"""Access rules: added by the form, listed, and removed by who types the principal; without an authorizer, a sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource

ALLOW = {"principal": "User:alice", "operation": "read", "resource": "topic", "name": "orders"}


def rules(browser: Browser, query: str = "") -> list[list[str]]:
    found = cells(browser.get(f"/access{query}").text)[8:]
    return [found[at : at + 7] for at in range(0, len(found) - 7, 8)]


def test_a_rule_from_its_form_to_its_end(guarded_browser: Browser, audited: Callable[[], list[str]]) -> None:
    assert guarded_browser.get("/access/new").status == 200
    deny = {"rule": "deny", "principal": "User:*", "host": "10.0.0.1", "operation": "write", "name": "ord", "prefix": "1"}
    cluster = {"principal": "User:bob", "operation": "all", "resource": "cluster", "prefix": "1"}
    for form in (ALLOW, deny, cluster):
        answer = guarded_browser.post("/access/new", **form)
        assert (answer.status, answer.headers["location"]) == (303, "/access")
    assert rules(guarded_browser) == [
        ["✕ deny", "User:*", "10.0.0.1", "write", "topic", "ord", "prefix"],
        ["● allow", "User:alice", "*", "read", "topic", "orders", "literal"],
        ["● allow", "User:bob", "*", "all", "cluster", "kafka-cluster", "literal"],
    ]
    assert [one[1] for one in rules(guarded_browser, "?principal=ALICE&q=order")] == ["User:alice"]
    path = "/access/remove?rule=allow&principal=User%3Aalice&host=%2A&operation=read&resource=topic&name=orders&pattern=literal"
    assert path.replace("&", "&amp;") in guarded_browser.get("/access").text
    assert "allow User:alice read on topic orders" in guarded_browser.get(path).text
    assert guarded_browser.post(path, typed="alice").status == 400
    assert guarded_browser.post(path, typed="User:alice").status == 303
    again = guarded_browser.post(path, typed="User:alice")
    assert (again.status, "there is no such rule" in again.text) == (400, True)
    assert len(rules(guarded_browser)) == 2
    assert audited()[2:] == [
        "add access rule 'allow User:bob all on the cluster': done",
        "remove access rule 'allow User:alice read on topic orders': done",
        "remove access rule 'allow User:alice read on topic orders': failed: there is no such rule",
    ]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"principal": "alice"}, "write User:alice"),
        ({"principal": ""}, "principal is empty"),
        ({"name": " "}, "the resource&#39;s name is empty"),
        ({"operation": "fly"}, "operation has to be one of all, read"),
        ({"resource": "moon"}, "resource has to be one of"),
        ({"rule": "maybe"}, "rule has to be one of allow, deny"),
    ],
)
def test_what_is_no_rule_is_said_above_the_form(wrong: dict[str, str], why: str) -> None:
    with browsing(FakeSource()) as browser:
        answer = browser.post("/access/new", **(ALLOW | wrong))
    assert answer.status == 400
    assert why in answer.text


def test_without_an_authorizer_it_is_a_sentence(browser: Browser) -> None:
    answer = browser.get("/access")
    assert (answer.status, "The cluster has no authorizer" in answer.text, "New rule" in answer.text) == (200, True, False)
    refused = browser.post("/access/new", **ALLOW)
    assert refused.status == 400


def test_an_address_that_names_no_rule() -> None:
    with browsing(FakeSource()) as browser:
        assert browser.get("/access/remove?rule=allow").status == 400
