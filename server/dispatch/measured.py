"""Routes that count and time their requests for the metrics; a broker without metrics never loads this.

Each route counts its requests, the error codes in its answers, and its answers by how long they took; the time of a promised
answer runs until the promise is kept. All counts are plain integers, which server/metrics reads when somebody asks for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.dispatch.error_counts import count_errors, places_in
from ottla.server.dispatch.route import Plan, Route, Waiting, log_failure
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.link import Decode, Steps
from ottla.server.requests.request import Request
from ottla.wire.primitives import Buffer, Parts, WireStruct

BUCKETS: Final = 65
"""The number of buckets of time; the last is for 2**63 ns and more, which nothing takes."""

Ticks = Callable[[], int]
"""A clock of nanoseconds that never goes back: `Clock.ticks_ns`."""


class RequestCounts:
    """Counts the requests of one route and how they ended."""

    __slots__ = ("errors", "requests", "took", "took_ns")

    def __init__(self) -> None:
        self.requests = 0
        """The number of requests whose body was decoded, or is to be decoded in a thread."""
        self.took = [0] * BUCKETS
        """The numbers of answers by the time they took: bucket n is for 2**(n-1) to 2**n - 1 ns. A request that closed its
        connection is not counted."""
        self.took_ns = 0
        """The sum of these times."""
        self.errors: dict[int, int] = {}
        """The number of times that each error code was answered."""

    def set_back(self, requests: int, took: list[int], took_ns: int) -> None:
        self.requests, self.took, self.took_ns = requests, took, took_ns


class Stopwatch:
    """Holds when the latest request began, in `ticks`."""

    __slots__ = ("started", "ticks")

    def __init__(self, ticks: Ticks) -> None:
        self.ticks = ticks
        self.started = 0

    def timed(self, decode: Decode) -> Decode:
        """Returns the step with which a request begins, with a look at the clock before it."""

        def begin(frame: Buffer, pos: int) -> tuple[Any, int]:
            self.started = self.ticks()
            return decode(frame, pos)

        return begin


class RequestMetrics:
    """Makes the routes that measure (`Chain.measure`), and holds what they count, for all listeners together."""

    __slots__ = ("_watch", "counts")

    def __init__(self, ticks: Ticks) -> None:
        self._watch = Stopwatch(ticks)
        self.counts: dict[int, RequestCounts] = {}
        """The counts by the number of the route. They outlive the routes, which are made anew when a link comes or goes."""

    def make_route(self, plan: Plan, steps: Steps) -> Route:
        """Returns a route that counts and times its requests."""
        return MeasuredRoute(plan, steps, self.counts.setdefault(plan.number, RequestCounts()), self._watch)


class MeasuredRoute(Route):
    """Serves requests as Route does, and counts and times them."""

    __slots__ = ("_counts", "_error_places", "_watch")

    def __init__(self, plan: Plan, steps: Steps, counts: RequestCounts, watch: Stopwatch) -> None:
        super().__init__(plan, steps._replace(decode=watch.timed(steps.decode)))
        self._counts = counts
        self._watch = watch
        self._error_places = places_in(plan.response)

    def answer(self, body: Any, request: Request) -> bytes | Parts | Waiting | None:
        started = self._watch.started
        self._counts.requests += 1
        frame: bytes | Parts | None = None
        try:
            response = self.handle(body, request)
            if isinstance(response, WireStruct):
                frame = self.frame(response, request.correlation_id)
            elif response is not None:
                return Waiting(self.encoded_later(response, request), self, request, started)
        except CloseConnection:
            raise
        except Exception as error:
            raise log_failure(error, request) from error
        self._note(response, started, request)
        return frame

    def wait_for(self, answer: Promise[Any], request: Request) -> Waiting:
        self._counts.requests += 1
        return Waiting(answer, self, request, self._watch.ticks())

    def errors_in(self, answer: Any, request: Request) -> dict[int, int]:
        errors: dict[int, int] = {}
        if self._error_places and (request.failed or not self.plan.traits.reports_failure):
            count_errors(answer, self._error_places, errors)
        return errors

    def add_errors(self, errors: dict[int, int]) -> None:
        counted = self._counts.errors
        for code, times in errors.items():
            counted[code] = counted.get(code, 0) + times

    def keep_counts(self) -> Callable[[], None]:
        counts = self._counts
        return partial(counts.set_back, counts.requests, counts.took.copy(), counts.took_ns)

    def finish(self, answer: asyncio.Future[Any] | Promise[Any], waiting: Waiting) -> bytes | Parts:
        frame = super().finish(answer, waiting)
        self._note(answer.result(), waiting.started, waiting.request)
        return frame

    def _note(self, response: Any, started: int, request: Request) -> None:
        """Counts a finished answer; None stands for one that the client did not want. An answer that was encoded before
        has no errors, or they have been counted."""
        counts = self._counts
        took = self._watch.ticks() - started
        counts.took_ns += took
        counts.took[took.bit_length()] += 1
        if response is None or type(response) is Encoded:
            return
        if self._error_places and (request.failed or not self.plan.traits.reports_failure):
            count_errors(response, self._error_places, counts.errors)
