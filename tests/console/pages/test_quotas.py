"""Quotas: set for every kind of entity, listed, and removed by who types the quota's name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.console.pages.quotas import address_of
from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource


def test_quotas_from_the_form_to_the_end(browser: Browser, audited: Callable[[], list[str]]) -> None:
    assert browser.get("/access/quotas/new").status == 200
    for form in (
        {"user": "al&ice", "key": "producer_byte_rate", "value": "1048576"},
        {"user": "al&ice", "client-id-default": "1", "key": "request_percentage", "value": "12.5"},
        {"ip": "10.0.0.1", "key": "connection_creation_rate", "value": "3"},
    ):
        answer = browser.post("/access/quotas/new", **form)
        assert (answer.status, answer.headers["location"]) == (303, "/access/quotas")
    page = browser.get("/access/quotas").text
    found = cells(page)[4:]
    assert sorted(zip(found[::4], found[1::4], found[2::4], strict=True)) == [
        ("ip 10.0.0.1", "connection_creation_rate", "3 /s"),
        ("user al&ice", "producer_byte_rate", "1,048,576 B/s"),
        ("user al&ice, client id <default>", "request_percentage", "12.5 %"),
    ]
    assert cells(browser.get("/access/quotas?q=10.0").text)[4::4] == ["ip 10.0.0.1"]
    path = "/access/quotas/remove?user=al%26ice&defaults=client-id&key=request_percentage"
    assert path.replace("&", "&amp;") in page
    assert "request_percentage of user al&amp;ice, client id &lt;default&gt;" in browser.get(path).text
    assert browser.post(path, typed="request").status == 400
    assert browser.post(path, typed="request_percentage").status == 303
    again = browser.post(path, typed="request_percentage")
    assert (again.status, "has no quota request_percentage" in again.text) == (400, True)
    assert len(cells(browser.get("/access/quotas").text)[4::4]) == 2
    lines = audited()
    assert lines[0] == "set quota user='al&ice' key='producer_byte_rate' value='1048576': done"
    assert lines[3] == "remove quota 'request_percentage' of 'user al&ice, client id <default>': done"
    for rest in ("user=al%26ice&key=producer_byte_rate", "ip=10.0.0.1&key=connection_creation_rate"):
        assert browser.post(f"/access/quotas/remove?{rest}", typed=rest.rpartition("=")[2]).status == 303


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({}, "say whose quota it is"),
        ({"user": "a", "ip": "10.0.0.1"}, "say whose quota it is"),
        ({"user": "a", "user-default": "1"}, "user: either a name or the default"),
        ({"user": "a", "value": "much"}, "value has to be a number"),
        ({"user": "a", "value": "nan"}, "value has to be a number above 0"),
        ({"user": "a", "value": "0"}, "value has to be a number above 0"),
        ({"user": "a", "key": "no_such"}, "quota has to be one of"),
    ],
)
def test_what_is_no_quota_is_said_above_the_form(form: dict[str, str], why: str) -> None:
    with browsing(FakeSource()) as browser:
        answer = browser.post("/access/quotas/new", **({"value": "1"} | form))
    assert answer.status == 400
    assert why in answer.text


def test_an_address_of_an_entity() -> None:
    assert address_of({"user": None, "client-id": "<&"}) == "client-id=%3C%26&defaults=user"
    with browsing(FakeSource()) as browser:
        for query in ("", "?key=producer_byte_rate", "?user=a"):
            assert browser.get(f"/access/quotas/remove{query}").status == 404
