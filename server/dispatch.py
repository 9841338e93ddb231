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
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.server.context import RequestContext
from ottla.server.errors import CloseConnection
from ottla.server.handlers import served
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED
from ottla.wire.header import API_VERSIONS, decode_request_header
from ottla.wire.primitives import Buffer, Parts, WireStruct

logger = logging.getLogger("ottla.server.dispatch")

_REGIONS: Final = frozenset({1})
"""APIs whose answers may hold regions of files: Fetch."""
_SIZE: Final = 4  # bytes of a frame's size, which does not count itself
_HEAD: Final = Struct(">ii")
_HEAD_TAGS: Final = Struct(">iix")


class Route(NamedTuple):
    """One API at one version."""

    decode: Callable[[Buffer, int], tuple[Any, int]]
    handle: Callable[[Any, RequestContext], Any]
    encode: Callable[[Any, Parts], None]
    head: Struct
    """Size and correlation id, and in flexible versions the header's tagged fields, of which there are none."""
    regions: bool
    """The answer may hold regions of files: its parts are not joined."""


class Waiting(NamedTuple):
    """A request whose answer comes later."""

    answer: Awaitable[Any]
    route: Route
    correlation_id: int


class Dispatch:
    """The broker's routes, and how often each API was asked (by key)."""

    __slots__ = ("_routes", "requests")

    def __init__(self) -> None:
        self._routes: dict[int, Route] = {}
        self.requests: dict[int, int] = dict.fromkeys(served(), 0)

    def serve(self, frame: Buffer, context: RequestContext) -> bytes | Parts | Waiting | None:
        """Answers one request: with a frame, in parts if there are regions of files in it; or Waiting; or None where the client
        wants no answer.

        `context` is filled in with what the header says. Raises CloseConnection.
        """
        try:
            header, pos = decode_request_header(frame, 0)
        except MALFORMED as error:
            raise CloseConnection(f"the request's header does not decode: {error!r}") from None
        key, version, correlation_id, context.client_id = header
        context.api_key = key
        context.api_version = version
        context.correlation_id = correlation_id
        route = self._routes.get(key << 16 | version)
        if route is None:
            if key == API_VERSIONS and not 0 <= version <= APIS[API_VERSIONS].max_version:
                return unsupported_api_versions(correlation_id)
            route = self._make_route(key, version)
        try:
            request, end = route.decode(frame, pos)
        except MALFORMED as error:
            raise CloseConnection(f"{APIS[key].name} v{version} does not decode: {error!r}") from None
        if end > len(frame):
            raise CloseConnection(f"{APIS[key].name} v{version} ends {end - len(frame)} bytes behind its frame")
        self.requests[key] += 1
        try:
            response = route.handle(request, context)
            if isinstance(response, WireStruct):
                return encoded(response, route, correlation_id)
        except CloseConnection:
            raise
        except Exception as error:
            raise failed(error, context) from error
        return None if response is None else Waiting(response, route, correlation_id)

    def _make_route(self, key: int, version: int) -> Route:
        api = served().get(key)
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
        )
        self._routes[key << 16 | version] = route
        return route


def finish(answer: asyncio.Future[Any], waiting: Waiting, context: RequestContext) -> bytes | Parts:
    """The frame of an answer that has come. Raises CloseConnection."""
    try:
        return encoded(answer.result(), waiting.route, waiting.correlation_id)
    except CloseConnection:
        raise
    except Exception as error:
        raise failed(error, context) from error


def encoded(response: Any, route: Route, correlation_id: int) -> bytes | Parts:
    """The answer's frame."""
    parts: Parts = []
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


def failed(error: BaseException, context: RequestContext) -> CloseConnection:
    """Our bug: log it with its traceback; the connection is to be closed."""
    api = APIS[context.api_key]
    logger.error(
        "%s v%d of %s (%s) failed", api.name, context.api_version, context.client_host, context.client_id, exc_info=error
    )
    return CloseConnection(f"{api.name} v{context.api_version} failed here")
