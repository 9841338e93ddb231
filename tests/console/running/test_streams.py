"""Events for a browser, from a thread that ends when the browser goes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.commands.output import Failure
from ottla.console.running import streams
from ottla.console.running.streams import MAX_WAITING, TOO_MANY, Outlet, StreamResponse, Streams, event_of

GET: Any = {"type": "http", "method": "GET", "state": {"is_open": lambda: True}}


def answered(of: Streams, follow: Callable[[Outlet], None], gone_after: int = 10**6, scope: Any = GET) -> bytes:
    """Returns the body that a browser gets that goes after so many events."""

    async def run() -> bytes:
        bodies: list[bytes] = []
        gone = asyncio.Event()

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            bodies.append(message.get("body", b""))
            if sum(one.startswith(b"data") for one in bodies) >= gone_after:
                gone.set()

        await StreamResponse(of, follow)(scope, receive, send)
        return b"".join(bodies)

    return asyncio.run(run())


def test_events_come_in_order_and_then_the_end() -> None:
    def follow(outlet: Outlet) -> None:
        outlet.offer({"n": "\n\u2028"}, "0.1")
        outlet.offer({"n": 2})

    of = Streams()
    assert answered(of, follow) == b'id: 0.1\ndata: {"n": "\\n\\u2028"}\n\ndata: {"n": 2}\n\n'
    of.close()


def test_it_ends_soon_when_the_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_ALIVE_S", 0.01)
    of, ended, looks = Streams(1), threading.Event(), iter([True, True, False])

    def follow(outlet: Outlet) -> None:
        while not outlet.is_over:
            threading.Event().wait(0.001)
        ended.set()

    answered(of, follow, scope={**GET, "state": {"is_open": lambda: next(looks)}})
    assert ended.wait(10)
    of.close()


def test_the_thread_ends_when_the_browser_goes() -> None:
    of, ended = Streams(1), threading.Event()

    def follow(outlet: Outlet) -> None:
        outlet.offer({})
        while not outlet.is_over:
            threading.Event().wait(0.001)
        ended.set()

    answered(of, follow, gone_after=1)
    assert ended.wait(30)
    of.close()
    assert of._free.acquire(timeout=30)  # its place is free again, a moment after it ended
    of._free.release()
    assert answered(of, lambda outlet: None) == b""


def test_too_many_are_told_so() -> None:
    of, go = Streams(1), threading.Event()

    def wait(_: Outlet) -> None:
        go.wait(30)

    outlet = of.start(wait, lambda: None)
    assert outlet is not None
    assert answered(of, lambda _: None) == event_of({"problem": TOO_MANY})
    go.set()
    of.close()


def test_what_fails_is_an_event(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Outlet) -> None:
        raise Failure("the broker is away")

    def bug(_: Outlet) -> None:
        raise ZeroDivisionError

    of = Streams()
    assert answered(of, fail) == event_of({"problem": "the broker is away"})
    assert b"a bug" in answered(of, bug)
    assert "a stream failed" in caplog.text
    of.close()


def test_an_outlet_never_grows() -> None:
    outlet = Outlet(lambda: None, float("inf"))
    assert [outlet.offer({}) for _ in range(MAX_WAITING + 2)] == [True] * MAX_WAITING + [False] * 2


def test_a_rest_ends_with_its_time_or_when_the_browser_goes() -> None:
    outlet = Outlet(lambda: None, float("inf"))
    begun = time.monotonic()
    outlet.rest(0.02)
    assert time.monotonic() - begun >= 0.02
    outlet.end()
    outlet.rest(3600)


def test_an_hour_is_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_S", -1.0)
    seen: list[bool] = []
    of = Streams()
    answered(of, lambda outlet: seen.append(outlet.is_over))
    assert seen == [True]
    of.close()
