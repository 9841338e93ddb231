"""The questions about what requests do: `watch_requests` begins a watch, `watched_requests` tells what it has seen so far, and
`unwatch_requests` ends it. There is one watch at a time, and it ends by itself; what it has seen stays for a while."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ottla.server.inspect.request_watch import RequestWatch, Seen
from ottla.server.inspect.subject import BadQuestion, Subject
from ottla.server.inspect.watching import Watching

MOST_SECONDS: Final = 60.0
MOST_REQUESTS: Final = 500


def watch_requests(subject: Subject, client_id: str | None, most: int, seconds: float) -> dict[str, Any]:
    """Begins to watch `most` requests of a client id, or with None of everybody, for so many seconds at most. Raises
    BadQuestion."""
    if not 0 < seconds <= MOST_SECONDS or not 0 < most <= MOST_REQUESTS:
        raise BadQuestion(f"Up to {MOST_REQUESTS} requests are watched, for up to {MOST_SECONDS:g} s.")
    before = subject.watching
    if before is not None and before.is_running:
        raise BadQuestion(f"Requests are being watched already, for {before.left_s:.0f} s more; there is one watch at a time.")
    context, chain = subject.context, subject.broker.chain
    number = 1
    if before is not None:
        number += before.number
        before.drop()

    def forget() -> None:
        if subject.watching is begun:
            subject.watching = None

    make = partial(RequestWatch, context.clock, client_id, most)
    begun = subject.watching = Watching(number, make, chain, subject.clock, seconds, forget)
    return {"watch": number}


def watched_requests(subject: Subject, request: int | None = None) -> dict[str, Any]:
    """Returns the watch that runs, or the last one, with the requests it has seen, None if there was none. Of one `request`, by
    its place, it returns the fields, too."""
    found = subject.watching
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
        "fields": None
        if request is None or not 0 <= request < len(seen)
        else {"request": seen[request].fields, "response": seen[request].response},
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
        "fault": seen.fault,
        "sent_bytes": seen.sent_bytes,
    }


def _us(ns: int | None) -> float | None:
    return None if ns is None else round(ns / 1000, 1)
