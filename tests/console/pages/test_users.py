"""Users: a password that works is set, nothing of it is shown or logged, and it is removed by who types the name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.console.cluster.source import Source
from ottla.console.subjects import access
from tests.console.browser import Browser, cells

FORM = {"name": " al<ice ", "mechanism": "SCRAM-SHA-256", "password": "hunter2", "again": "hunter2"}


def test_a_user_from_the_form_to_the_end(browser: Browser, source: Source, audited: Callable[[], list[str]]) -> None:
    answer = browser.post("/access/users/new", **FORM)
    assert (answer.status, answer.headers["location"]) == (303, "/access/users")
    assert access.users(source) == [access.User("al<ice", "SCRAM-SHA-256", 8192)]
    page = browser.get("/access/users?q=ICE").text
    assert cells(page)[4:7] == ["al<ice", "SCRAM-SHA-256", "8,192"]
    assert 'value="al&lt;ice"' in browser.get("/access/users/new?name=al%3Cice").text
    path = "/access/users/remove?name=al%3Cice&mechanism=SCRAM-SHA-256"
    assert path.replace("&", "&amp;") in page
    assert browser.get(path).status == 200
    assert browser.post(path, typed="alice").status == 400
    assert browser.post(path, typed="al<ice").status == 303
    assert access.users(source) == []
    assert browser.post(path, typed="al<ice").status == 400
    assert browser.get("/access/users/remove?name=al%3Cice&mechanism=PLAIN").status == 404
    lines = audited()
    assert lines[:2] == [
        "set password of user 'al<ice' ('SCRAM-SHA-256'): done",
        "remove SCRAM-SHA-256 password of user 'al<ice': done",
    ]
    assert lines[2].startswith("remove SCRAM-SHA-256 password of user 'al<ice': failed: ")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": ""}, "name is empty"),
        ({"password": "", "again": ""}, "password is empty"),
        ({"again": "Hunter2"}, "the passwords are not the same"),
        ({"iterations": "4095"}, "iterations has to be a whole number from 4096 to 16384"),
        ({"mechanism": "PLAIN"}, "mechanism has to be one of"),
    ],
)
def test_a_form_that_is_wrong_comes_back_without_the_password(
    browser: Browser, audited: Callable[[], list[str]], wrong: dict[str, str], why: str
) -> None:
    answer = browser.post("/access/users/new", **(FORM | wrong))
    assert answer.status == 400
    assert why in answer.text
    assert "unter2" not in answer.text
    assert "unter2" not in "".join(audited())


def test_a_name_of_a_megabyte_is_no_line_of_a_megabyte_in_the_audit(browser: Browser, audited: Callable[[], list[str]]) -> None:
    assert browser.post("/access/users/new", **(FORM | {"name": "a" * 1_000_000, "again": "x"})).status == 400
    (line,) = audited()
    assert line.startswith("set password of user 'aaa")
    assert line.endswith(": refused: the passwords are not the same")
    assert len(line) < 2100
