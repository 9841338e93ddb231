"""Takes the bytes of a request to the parts of its answer: header, route, decode, handle, encode.

A route is one API at one version: two functions of the generated codecs, the handler's `handle`, and the links that stand around
them at the time (chain.py). It is made when the first such request comes, which is also when the handler and the message classes
are imported. Another kind of route counts and times requests for the metrics (measured.py).

Requests that cannot be served are treated as in Kafka: an unknown API key or version, or bytes that do not decode, close the
connection. The one exception is an ApiVersions request that is too new, which is answered in version 0, so that a client of the
future can step down (KIP-511). Bytes beyond the end of the request are ignored.

**What may be kept.** The frame may lie in the receive buffer that all connections share, so nothing may refer to it once `serve`
has returned. Decoders copy every field except `records`, which stay a view. Among requests only Produce has those, and its
handler appends them before it does anything else. A handler that waits *before* it is done with a view has to copy it.

An exception in a handler is a bug of ours: it is logged once, with its traceback, and the connection is closed, since no answer
would be honest. A handler closes the connection on purpose by raising `CloseConnection`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.dispatch.chain import Chain
from ottla.server.dispatch.reserved_descriptors import ReservedDescriptors
from ottla.server.handlers import BROKER, served
from ottla.server.requests.context import BrokerContext
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.link import Steps
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.requests.traits import Traits
from ottla.wire.api import APIS, Api
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED
from ottla.wire.header import API_VERSIONS, decode_request_header
from ottla.wire.primitives import Buffer, Parts, WireStruct

logger = logging.getLogger("ottla.server.dispatch")

_SIZE: Final = 4  # bytes of a frame's size, which does not count itself
_HEAD: Final = Struct(">ii")
_HEAD_TAGS: Final = Struct(">iix")


class Plan(NamedTuple):
    """Holds what a route is made from, each time anew."""

    api: Api
    version: int
    traits: Traits
    own_steps: Steps
    """The functions of the codecs and the handler, without any link around them."""
    response: type[WireStruct]

    @property
    def number(self) -> int:
        """Returns the number by which the route is found."""
        return self.api.key << 16 | self.version


class Route:
    """Serves one API at one version."""

    __slots__ = ("decode", "encode", "handle", "head", "plan", "regions")

    def __init__(self, plan: Plan, steps: Steps) -> None:
        self.plan = plan
        self.decode = steps.decode
        self.handle = steps.handle
        self.encode = steps.encode
        flexible = plan.version >= plan.api.flexible_from and plan.api.key != API_VERSIONS
        self.head = _HEAD_TAGS if flexible else _HEAD
        """Packs the size and the correlation id, and in flexible versions the header's tagged fields, of which there are none."""
        self.regions = plan.traits.answers_with_regions
        """True if the answer may hold regions of files, so that its parts must not be joined."""

    def answer(self, body: Any, request: Request) -> bytes | Parts | Waiting | None:
        """Calls the handler; returns what `Dispatch.serve` returns. Raises CloseConnection."""
        try:
            response = self.handle(body, request)
            if isinstance(response, WireStruct):
                return self.frame(response, request.correlation_id)
            return None if response is None else Waiting(response, self, request)
        except CloseConnection:
            raise
        except Exception as error:
            raise log_failure(error, request) from error

    def finish(self, answer: asyncio.Future[Any] | Promise[Any], waiting: Waiting) -> bytes | Parts:
        """Returns the frame of an answer that has come. Raises CloseConnection."""
        try:
            return self.frame(answer.result(), waiting.request.correlation_id)
        except CloseConnection:
            raise
        except Exception as error:
            raise log_failure(error, waiting.request) from error

    def frame(self, response: Any, correlation_id: int) -> bytes | Parts:
        """Encodes an answer; returns its frame, in parts if it may hold regions of files."""
        parts: Parts = []
        if type(response) is Encoded:
            parts.append(response.body)
        else:
            self.encode(response, parts)
        head = self.head
        if not self.regions:
            body = b"".join(parts)
            return head.pack(len(body) + head.size - _SIZE, correlation_id) + body
        return [head.pack(sum(map(len, parts)) + head.size - _SIZE, correlation_id), *parts]


class Waiting(NamedTuple):
    """Stands for a request whose answer comes later; `route.finish` then makes its frame."""

    answer: Awaitable[Any]
    route: Route
    request: Request
    started: int = 0
    """When the request came, in the ticks of a route that measures; 0 for all other routes."""


class Dispatch:
    """Serves the requests of listeners of one `role`. The links of `chain` stand around its handlers; None is for no links, ever.

    `routes` holds the routes that were needed so far, by API key << 16 | version.
    """

    __slots__ = ("_broker", "_chain", "_reserved", "_role", "routes")

    def __init__(self, broker: BrokerContext, chain: Chain | None = None, role: str = BROKER) -> None:
        self._broker = broker
        self._chain = chain or Chain()
        self._role = role
        self._reserved = ReservedDescriptors()
        self.routes: dict[int, Route] = {}
        self._chain.subscribe(self._compose_anew)

    def serve(self, frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
        """Serves one request; returns the frame of its answer, in parts if it may hold regions of files; or Waiting if the answer
        comes later; or None if the client wants no answer.

        Raises CloseConnection.
        """
        try:
            header, pos = decode_request_header(frame, 0)
        except MALFORMED as error:
            raise CloseConnection(f"the header of its request does not decode: {error!r}") from None
        key, version, correlation_id, client_id = header
        session.client_id = client_id
        route = self.routes.get(key << 16 | version)
        if route is None:
            if key == API_VERSIONS and not 0 <= version <= APIS[API_VERSIONS].max_version:
                return unsupported_api_versions(correlation_id)
            route = self._reserved.run(lambda: self._open_route(key, version))
        try:
            body, end = route.decode(frame, pos)
        except MALFORMED as error:
            raise CloseConnection(f"its {APIS[key].name} v{version} does not decode: {error!r}") from None
        if end > len(frame):
            raise CloseConnection(f"its {APIS[key].name} v{version} ends {end - len(frame)} bytes after the frame")
        return route.answer(body, Request(self._broker, session, key, version, correlation_id, client_id))

    def _compose_anew(self) -> None:
        """Makes all routes anew, because the links have changed."""
        self.routes = {number: self._compose(route.plan) for number, route in self.routes.items()}

    def _open_route(self, key: int, version: int) -> Route:
        """Makes the route of an API at a version, with its first request. Raises CloseConnection if the API is not served."""
        api = served(self._role).get(key)
        if api is None:
            raise CloseConnection(f"it sent API key {key}, which is not served")
        if not api.min_version <= version <= api.max_version:
            raise CloseConnection(f"it sent {api.name} v{version}, but only v{api.min_version} to v{api.max_version} are served")
        messages = import_module(f"ottla.wire.messages.{api.module}")
        handler = import_module(f"ottla.server.handlers.{api.module}")
        steps = Steps(messages.DECODE_REQUEST[version], handler.handle, messages.ENCODE_RESPONSE[version])
        plan = Plan(api, version, handler.TRAITS, steps, getattr(messages, f"{api.name}Response"))
        route = self.routes[plan.number] = self._compose(plan)
        return route

    def _compose(self, plan: Plan) -> Route:
        return self._make_route(plan, self._chain.compose(plan.api, plan.traits, plan.own_steps))

    def _make_route(self, plan: Plan, steps: Steps) -> Route:
        return Route(plan, steps)


def unsupported_api_versions(correlation_id: int) -> bytes:
    """Returns an answer in version 0, whatever the request's version: error 35, and the supported versions of ApiVersions."""
    from ottla.wire.messages.api_versions import ENCODE_RESPONSE, ApiVersion, ApiVersionsResponse

    api = APIS[API_VERSIONS]
    response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(api.key, api.min_version, api.max_version)])
    parts: Parts = []
    ENCODE_RESPONSE[0](response, parts)
    body = b"".join(parts)
    return _HEAD.pack(len(body) + _HEAD.size - _SIZE, correlation_id) + body


def log_failure(error: BaseException, request: Request) -> CloseConnection:
    """Logs a bug of ours, with its traceback; returns the error that closes the connection."""
    api, version = APIS[request.api_key], request.api_version
    host, client_id = request.session.client_host, request.client_id
    logger.error("handling %s v%d of %s (%s) failed", api.name, version, host, client_id, exc_info=error)
    return CloseConnection(f"handling its {api.name} v{version} failed")
