"""Streams of what comes bit by bit to a browser, as server-sent events: each from a thread of its own, that ends when the browser
goes.

There are so many at once, and each ends after an hour; a browser then asks again, and goes on where it was by the `id` of the
last event. A thread puts what it has into an `Outlet`, which never grows: what does not fit the thread has to leave out, so that
a slow browser costs no memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from ottla.commands.clients.client import explain
from ottla.commands.output import Failure

AT_ONCE: Final = 4
MAX_WAITING: Final = 16
"""The most events that wait for a browser."""
LONGEST_S: Final = 3600.0
_ALIVE_S: Final = 10.0
"""The time after which something is sent when nothing comes, so that a connection that has died is seen."""
_STOP_S: Final = 0.7
"""The time for which the end waits for the streams' clients, all together."""
TOO_MANY: Final = f"{AT_ONCE} live tails are open already; close one, and load this page again."
_log: Final = logging.getLogger("ottla.console")


class Outlet:
    """A place where a thread puts events for one browser."""

    def __init__(self, wake: Callable[[], object], ends_at: float) -> None:
        self._wake = wake
        self._ends_at = ends_at
        self._over = threading.Event()
        self.waiting: deque[bytes] = deque()
        self.has_ended = False

    @property
    def is_over(self) -> bool:
        """Returns whether the thread shall end: the browser has gone, or the hour is over."""
        return self._over.is_set() or time.monotonic() > self._ends_at

    def offer(self, data: dict[str, Any], place: str = "") -> bool:
        """Puts an event, and where the browser would go on after it; returns False if it does not fit."""
        if len(self.waiting) >= MAX_WAITING:
            return False
        self.waiting.append(event_of(data, place))
        self._wake()
        return True

    def rest(self, seconds: float) -> None:
        """Has the thread wait for so long, or until the browser has gone."""
        self._over.wait(seconds)

    def end(self) -> None:
        """Has the thread end soon."""
        self._over.set()

    def ended(self) -> None:
        """Is called by the thread when nothing more will come."""
        self.has_ended = True
        self._wake()


Follow = Callable[[Outlet], None]


def event_of(data: dict[str, Any], place: str = "") -> bytes:
    """Returns an event as it is sent. JSON has no line ends of its own."""
    return (f"id: {place}\n" if place else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"


class Streams:
    """The streams of a console. Its methods are for the event loop."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = threading.Semaphore(at_once)
        self._open: dict[Outlet, threading.Thread] = {}

    def start(self, follow: Follow, wake: Callable[[], object]) -> Outlet | None:
        """Runs the function in a thread; returns None if there are too many already."""
        if not self._free.acquire(blocking=False):
            return None
        outlet = Outlet(wake, time.monotonic() + LONGEST_S)
        thread = threading.Thread(target=self._run, args=(follow, outlet), name="stream", daemon=True)
        self._open[outlet] = thread
        thread.start()
        return outlet

    def _run(self, follow: Follow, outlet: Outlet) -> None:
        from confluent_kafka import KafkaException

        try:
            follow(outlet)
        except (Failure, KafkaException) as error:
            outlet.offer({"problem": str(error) if isinstance(error, Failure) else explain(error.args[0])})
        except Exception:  # noqa: BLE001 - a bug in one stream ends that one, with a traceback in the log
            _log.exception("a stream failed")
            outlet.offer({"problem": "That is a bug; the console's log says where."})
        finally:
            self._open.pop(outlet, None)
            self._free.release()
            outlet.ended()

    def end(self) -> None:
        """Has all streams end soon."""
        for outlet in list(self._open):
            outlet.end()

    def close(self) -> bool:
        """Ends all streams, and waits for a moment until their clients are closed. Returns whether one is still open."""
        threads = list(self._open.values())
        self.end()
        until = time.monotonic() + _STOP_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return any(thread.is_alive() for thread in threads)


class StreamResponse:
    """Answers a request with a stream of events, until the browser goes, its session ends, or no more come."""

    def __init__(self, streams: Streams, follow: Follow) -> None:
        self._streams = streams
        self._follow = follow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "GET":
            await self._events(receive, send, scope["state"]["is_open"])
        await send({"type": "http.response.body", "body": b""})

    async def _events(self, receive: Receive, send: Send, is_open: Callable[[], bool]) -> None:
        loop, came = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(came.set)

        outlet = self._streams.start(self._follow, wake)
        if outlet is None:
            await _send(send, event_of({"problem": TOO_MANY}))
            return
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            while not gone.done():
                waiting = asyncio.ensure_future(came.wait())
                await asyncio.wait({gone, waiting}, timeout=_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if not is_open():
                    return
                if not came.is_set():
                    await _send(send, b": alive\n\n")
                came.clear()
                has_ended = outlet.has_ended
                while outlet.waiting:
                    await _send(send, outlet.waiting.popleft())
                if has_ended:
                    return
        finally:
            outlet.end()
            gone.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
