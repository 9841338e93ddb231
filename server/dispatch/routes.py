"""From the bytes of a request to the parts of its answer: header, route, decode, handle, encode.

A route is one API at one version: two functions of the generated codecs and the handler's `handle`. It is made when the first
such request comes, which is also when the handler and the message classes are imported.

How Kafka treats what it cannot serve, and so do we: an unknown key or version, or bytes that are no such request, close the
connection. The one exception is an ApiVersions that is too new, which is answered in version 0, so that a client of the future
can step down (KIP-511). More bytes than the request needs are ignored.

**Who may keep what.** The frame may lie in the receive buffer that all connections share, so nothing of it may live on when
`serve` returns. Decoders copy every field but one kind: `records`, which stay a view. Among requests only Produce has those, and
its handler appends before it does anything else. A handler that waits *before* it is done with a view has to copy it.

A handler's exception is our bug: it is logged once, with its traceback, and the connection is closed, since no answer would be
honest. `CloseConnection` is how a handler closes on purpose.

**What is counted.** Each route counts its requests. With metrics on (`Dispatch` is given ticks then) it also counts its answers
by how long they took, a promised one until the promise is kept, and the error codes in them. All of it is plain integers, which
server/metrics reads when it is asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.dispatch.error_counts import Places, count_errors, places_in
from ottla.server.dispatch.spare_descriptors import SpareDescriptors
from ottla.server.handlers import BROKER, served
from ottla.server.requests.context import BrokerContext
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED
from ottla.wire.header import API_VERSIONS, decode_request_header
from ottla.wire.primitives import Buffer, Parts, WireStruct

logger = logging.getLogger("ottla.server.dispatch")

_REGIONS: Final = frozenset({1, 78})
"""APIs whose answers may hold regions of files: Fetch and ShareFetch."""
_TELLS_OF_ERRORS: Final = frozenset({0, 1})
"""APIs whose handlers set `Request.failed` where an answer holds errors: Produce and Fetch, at which every step counts."""
_SIZE: Final = 4  # bytes of a frame's size, which does not count itself
_HEAD: Final = Struct(">ii")
_HEAD_TAGS: Final = Struct(">iix")


BUCKETS: Final = 65
"""Of a route: the last is for what took 2**63 ns and more, which nothing does."""

Ticks = Callable[[], int]
"""A clock of nanoseconds that never goes back and is never at 0, such as time.perf_counter_ns."""


class Route:
    """One API at one version, and what came of its requests."""

    __slots__ = (
        "decode",
        "encode",
        "error_places",
        "errors",
        "handle",
        "head",
        "regions",
        "requests",
        "tells_of_errors",
        "ticks",
        "took",
        "took_ns",
    )

    def __init__(
        self,
        decode: Callable[[Buffer, int], tuple[Any, int]],
        handle: Callable[[Any, Request], Any],
        encode: Callable[[Any, Parts], None],
        head: Struct,
        regions: bool,
        ticks: Ticks | None = None,
        error_places: Places | None = None,
        tells_of_errors: bool = False,
    ) -> None:
        self.decode = decode
        self.handle = handle
        self.encode = encode
        self.head = head
        """Size and correlation id, and in flexible versions the header's tagged fields, of which there are none."""
        self.regions = regions
        """The answer may hold regions of files: its parts are not joined."""
        self.requests = 0
        self.ticks = ticks
        self.took = [0] * (BUCKETS if ticks is not None else 0)
        """Answers by the time they took: bucket n is for 2**(n-1) to 2**n - 1 ns. Those that closed the connection are not in."""
        self.took_ns = 0
        """The sum of these times."""
        self.error_places = error_places
        """Where in an answer error codes can stand; None if nowhere."""
        self.tells_of_errors = tells_of_errors
        """The handler says whether there are any: the others' answers are looked through."""
        self.errors: dict[int, int] = {}
        """How often each error code was answered."""

    def note(self, answer: Any, started: int, request: Request) -> None:
        """Counts an answer that is done; None for one that nobody wants. One that is encoded already has no errors."""
        assert self.ticks is not None
        took = self.ticks() - started
        self.took_ns += took
        self.took[took.bit_length()] += 1
        if answer is None or type(answer) is Encoded:
            return
        if self.error_places is not None and (request.failed or not self.tells_of_errors):
            count_errors(answer, self.error_places, self.errors)


class Waiting(NamedTuple):
    """A request whose answer comes later. `started` is in the route's ticks."""

    answer: Awaitable[Any]
    route: Route
    request: Request
    started: int
    """In the route's ticks; 0 where there are none."""


class Dispatch:
    """The broker's routes: those that somebody asked for, by key << 16 | version. `role` is that of the listeners it is for."""

    __slots__ = ("_broker", "_role", "_spare", "_ticks", "on_new_route", "routes")

    def __init__(self, broker: BrokerContext, ticks: Ticks | None = None, role: str = BROKER) -> None:
        self._broker = broker
        self._role = role
        self._spare = SpareDescriptors()
        self._ticks = ticks
        self.routes: dict[int, Route] = {}
        self.on_new_route: Callable[[int, Route], None] | None = None
        """Told the API's key. While clients have quotas, it puts what measures them around the route's own functions."""

    def serve(self, frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
        """Answers one request: with a frame, in parts if there are regions of files in it; or Waiting; or None where the client
        wants no answer.

        Raises CloseConnection.
        """
        ticks = self._ticks
        started = ticks() if ticks is not None else 0
        try:
            header, pos = decode_request_header(frame, 0)
        except MALFORMED as error:
            raise CloseConnection(f"the request's header does not decode: {error!r}") from None
        key, version, correlation_id, client_id = header
        session.client_id = client_id
        route = self.routes.get(key << 16 | version)
        if route is None:
            if key == API_VERSIONS and not 0 <= version <= APIS[API_VERSIONS].max_version:
                return unsupported_api_versions(correlation_id)
            route = self._spare.run(lambda: self._make_route(key, version))
        try:
            body, end = route.decode(frame, pos)
        except MALFORMED as error:
            raise CloseConnection(f"{APIS[key].name} v{version} does not decode: {error!r}") from None
        if end > len(frame):
            raise CloseConnection(f"{APIS[key].name} v{version} ends {end - len(frame)} bytes behind its frame")
        route.requests += 1
        request = Request(self._broker, session, key, version, correlation_id, client_id)
        try:
            response = route.handle(body, request)
            if isinstance(response, WireStruct):
                answer = encoded(response, route, correlation_id)
            elif response is not None:
                return Waiting(response, route, request, started)
            else:
                answer = None
        except CloseConnection:
            raise
        except Exception as error:
            raise failed(error, request) from error
        if started:
            route.note(response, started, request)
        return answer

    def _make_route(self, key: int, version: int) -> Route:
        api = served(self._role).get(key)
        if api is None:
            raise CloseConnection(f"API key {key} is not served")
        if not api.min_version <= version <= api.max_version:
            raise CloseConnection(f"{api.name} v{version} is not served, only v{api.min_version} to v{api.max_version}")
        messages = import_module(f"ottla.wire.messages.{api.module}")
        handler = import_module(f"ottla.server.handlers.{api.module}")
        flexible = version >= api.flexible_from and key != API_VERSIONS
        route = Route(
            messages.DECODE_REQUEST[version],
            handler.handle,
            messages.ENCODE_RESPONSE[version],
            _HEAD_TAGS if flexible else _HEAD,
            key in _REGIONS,
            self._ticks,
            places_in(getattr(messages, f"{api.name}Response")) or None if self._ticks is not None else None,
            key in _TELLS_OF_ERRORS,
        )
        self.routes[key << 16 | version] = route
        if self.on_new_route is not None:
            self.on_new_route(key, route)
        return route


def finish(answer: asyncio.Future[Any] | Promise[Any], waiting: Waiting) -> bytes | Parts:
    """The frame of an answer that has come. Raises CloseConnection."""
    route = waiting.route
    try:
        response = answer.result()
        frame = encoded(response, route, waiting.request.correlation_id)
    except CloseConnection:
        raise
    except Exception as error:
        raise failed(error, waiting.request) from error
    if waiting.started:
        route.note(response, waiting.started, waiting.request)
    return frame


def encoded(response: Any, route: Route, correlation_id: int) -> bytes | Parts:
    """The answer's frame."""
    parts: Parts = []
    if type(response) is Encoded:
        parts.append(response.body)
    else:
        route.encode(response, parts)
    head = route.head
    if not route.regions:
        body = b"".join(parts)
        return head.pack(len(body) + head.size - _SIZE, correlation_id) + body
    return [head.pack(sum(map(len, parts)) + head.size - _SIZE, correlation_id), *parts]


def unsupported_api_versions(correlation_id: int) -> bytes | Parts:
    """Version 0, whatever was asked: error 35, and which versions of ApiVersions there are."""
    from ottla.wire.messages.api_versions import ENCODE_RESPONSE, ApiVersion, ApiVersionsResponse

    api = APIS[API_VERSIONS]
    response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(api.key, api.min_version, api.max_version)])
    return encoded(response, Route(_never, _never, ENCODE_RESPONSE[0], _HEAD, False), correlation_id)


def _never(*_: object) -> Any:
    raise AssertionError("this route has no request")


def failed(error: BaseException, request: Request) -> CloseConnection:
    """Our bug: log it with its traceback; the connection is to be closed."""
    api, version = APIS[request.api_key], request.api_version
    host, client_id = request.session.client_host, request.client_id
    logger.error("%s v%d of %s (%s) failed", api.name, version, host, client_id, exc_info=error)
    return CloseConnection(f"{api.name} v{version} failed here")
