"""The questions about what requests do: `watch_requests` begins a watch, `watched_requests` tells what it has seen so far, and
`unwatch_requests` ends it. There is one watch at a time, and it ends by itself; what it has seen stays for a while."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ottla.server.dispatch.chain import Place
from ottla.server.inspect.request_watch import RequestWatch, Seen
from ottla.server.inspect.subject import BadQuestion, Subject

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable
    from ottla.server.dispatch.chain import Chain

MOST_SECONDS: Final = 60.0
MOST_REQUESTS: Final = 500
KEPT_SECONDS: Final = 600.0
"""For how long what was seen can be read after the end."""
MOST_FIELDS: Final = 8_192
"""How many letters the fields of one message may have."""


class Watching:
    """A watch that runs, or has run."""

    def __init__(self, subject: Subject, number: int, client_id: str | None, most: int, seconds: float) -> None:
        self.number = number
        self._subject = subject
        self._ends_s = subject.clock.monotonic() + seconds
        self.watch = RequestWatch(subject.context.clock, client_id, most, self._over)
        self._chain: Chain | None = subject.broker.chain
        self._chain.put(Place.REQUESTS, self.watch)
        self._timer: Cancellable = subject.clock.call_later(seconds, self.end)

    @property
    def is_running(self) -> bool:
        return self._chain is not None

    @property
    def left_s(self) -> float:
        return max(0.0, self._ends_s - self._subject.clock.monotonic()) if self.is_running else 0.0

    def _over(self) -> None:
        self._timer.cancel()
        self._timer = self._subject.clock.call_later(0, self.end)  # not within a request, whose route would change

    def end(self) -> None:
        """Takes the link away."""
        if self._chain is None:
            return
        self._chain.put(Place.REQUESTS, None)
        self._chain = None
        self._timer.cancel()
        self.watch.close()
        self._subject.clock.call_later(KEPT_SECONDS, self._forget)

    def _forget(self) -> None:
        if self._subject.watching is self:
            self._subject.watching = None


def watch_requests(subject: Subject, client_id: str | None, most: int, seconds: float) -> dict[str, Any]:
    """Begins to watch `most` requests of a client id, or with None of everybody, for so many seconds at most. Raises
    BadQuestion."""
    if not 0 < seconds <= MOST_SECONDS or not 0 < most <= MOST_REQUESTS:
        raise BadQuestion(f"Up to {MOST_REQUESTS} requests are watched, for up to {MOST_SECONDS:g} s.")
    before: Watching | None = subject.watching
    if before is not None and before.is_running:
        raise BadQuestion(f"Requests are being watched already, for {before.left_s:.0f} s more; there is one watch at a time.")
    subject.watching = Watching(subject, 1 if before is None else before.number + 1, client_id, most, seconds)
    return {"watch": subject.watching.number}


def watched_requests(subject: Subject, request: int | None = None) -> dict[str, Any]:
    """Returns the watch that runs, or the last one, with the requests it has seen, None if there was none. Of one `request`, by
    its place, it returns the fields, too."""
    found: Watching | None = subject.watching
    if found is None:
        return {"watch": None}
    seen = found.watch.seen
    return {
        "watch": found.number,
        "client_id": found.watch.client_id,
        "most": found.watch.most,
        "is_running": found.is_running,
        "left_s": found.left_s,
        "requests": [_describe(each, seen[0].began) for each in seen],
        "fields": None if request is None or not 0 <= request < len(seen) else _fields(seen[request]),
    }


def unwatch_requests(subject: Subject) -> None:
    """Ends the watch, if one runs."""
    if subject.watching is not None:
        subject.watching.end()


def _describe(seen: Seen, first: int) -> dict[str, Any]:
    return {
        "api": seen.api,
        "version": seen.version,
        "client_id": seen.client_id,
        "host": seen.host,
        "port": seen.port,
        "correlation_id": seen.correlation_id,
        "at_ms": seen.at_ms,
        "after_us": (seen.began - first) // 1000,
        "decoded_us": _us(seen.decoded),
        "handled_us": _us(seen.handled),
        "waited_us": _us(seen.waited),
        "encoded_us": _us(seen.encoded),
        "waits_for": seen.waits_for,
        "outcome": seen.outcome,
        "sent_bytes": seen.sent_bytes,
    }


def _us(ns: int | None) -> float | None:
    return None if ns is None else round(ns / 1000, 1)


def _fields(seen: Seen) -> dict[str, str | None]:
    return {"request": _text(seen.fields), "response": _text(seen.response)}


def _text(fields: Any) -> str | None:
    """Returns fields as JSON for who reads it, cut off if it is long."""
    if fields is None:
        return None
    text = json.dumps(fields, indent=1, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_FIELDS else f"{text[:MOST_FIELDS]}…"
