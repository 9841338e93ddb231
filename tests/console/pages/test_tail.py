"""The page of a live tail, and its events."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ottla.console.pages import tail
from ottla.console.pages.tail import WAIT_MS
from ottla.console.records.reading import Reader
from tests.console.browser import COOKIE, HOST, Browser, cells
from tests.console.conftest import Records


def events_of(page: str) -> str:
    return html.unescape(re.findall(r'data-tail="([^"]*)"', page)[0])


def followed(browser: Browser, path: str, wanted: int, headers: dict[str, str] | None = None) -> list[Any]:
    """Returns the events until so many rows have come."""
    rows: list[Any] = []
    enough = asyncio.Event()

    async def receive() -> Any:
        await enough.wait()
        return {"type": "http.disconnect"}

    inner = browser.app

    async def app(scope: Any, receive_: Any, send: Any) -> None:
        async def seen(message: Any) -> None:
            rows.extend(json.loads(one) for one in re.findall(rb"^data: (.*)$", message.get("body", b""), re.MULTILINE))
            if sum(len(one.get("rows", ())) for one in rows) >= wanted or any("problem" in one for one in rows):
                enough.set()
            await send(message)

        await inner(scope, receive_, seen)

    browser.app = app
    try:
        answer = browser.ask(
            "GET", path, {"Host": HOST, "Cookie": f"{COOKIE}={browser.session}", **(headers or {})}, receive=receive
        )
    finally:
        browser.app = inner
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    return rows


def test_what_comes_after_the_page_is_followed(browser: Browser, topic: Callable[..., str], produced: Records) -> None:
    name = topic("tail", 2)
    produced(name, b"before")
    page = browser.get(f"/topics/{name}/tail").text
    path = events_of(page)
    assert path == f"/topics/{name}/tail/events?at=0.1-1.0"
    produced(name, b"one", b"<b>", partition=1)
    found = followed(browser, path, 2)
    assert [row[:2] + row[4:5] for one in found for row in one["rows"]] == [[1, 0, "one"], [1, 1, "<b>"]]
    again = followed(browser, path, 1, {"Last-Event-ID": "0.1-1.1"})
    assert [row[4] for one in again for row in one["rows"]] == ["<b>"]


def test_the_stream_leaves_with_the_broker_what_it_does_not_look_at(
    browser: Browser, topic: Callable[..., str], produced: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("tail-ahead")
    given: list[tuple[int, int]] = []

    class Noted(Reader):
        def __init__(self, *which: Any, wait_ms: int, ahead: int, **more: Any) -> None:
            given.append((wait_ms, ahead))
            super().__init__(*which, wait_ms=wait_ms, ahead=ahead, **more)

    path = events_of(browser.get(f"/topics/{name}/tail").text)
    monkeypatch.setattr(tail, "Reader", Noted)
    produced(name, b"one")
    followed(browser, path, 1)
    assert given == [(WAIT_MS, 1)]


def test_without_script_a_link_shows_what_came(browser: Browser, topic: Callable[..., str], produced: Records) -> None:
    name = topic("tail-link")
    page = browser.get(f"/topics/{name}/tail?value=x").text
    (link,) = re.findall(r'<a href="([^"]*)">show what has come', page)
    produced(name, b"a", b"x1", b"x2")
    page = browser.get(f"/topics/{name}/tail{html.unescape(link)}").text
    assert [cells(page)[6:][at] for at in (1, 7)] == ["2", "1"]
    assert "2 records of 3 that came" in page
    assert events_of(page).endswith("at=0.3")


def test_a_wrong_filter_is_said_at_its_field(browser: Browser, topic: Callable[..., str]) -> None:
    name = topic("tail-wrong")
    answer = browser.get(f"/topics/{name}/tail?where=5")
    assert answer.status == 400
    assert 'aria-invalid="true" aria-describedby="wrong"' in answer.text
    assert "data-tail" not in answer.text
    assert browser.get(f"/topics/{name}/tail/events?where=5").status == 400
    assert browser.get(f"/topics/{name}/tail/events?at=x").status == 400
    assert browser.get("/topics/tail-none/tail").status == 404
