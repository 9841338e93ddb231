"""Takes the bytes of a request to the parts of its answer: header, route, decode, handle, encode.

A route (route.py) is one API at one version: two functions of the generated codecs, the handler's `handle`, and the links that
stand around them at the time (chain.py). It is made when the first such request comes, which is also when the handler and the
message classes are imported.

Requests that cannot be served are treated as in Kafka: an unknown API key or version, or bytes that do not decode, close the
connection. The one exception is an ApiVersions request that is too new, which is answered in version 0, so that a client of the
future can step down (KIP-511). Bytes beyond the end of the request are ignored.

**What may be kept.** The frame may lie in the receive buffer that all connections share, so nothing may refer to it once `serve`
has returned. Decoders copy every field except `records`, which stay a view. Among requests only Produce has those, and its
handler appends them before it does anything else. (What the log then holds to be written with others, the connection has written
before it reads again.) A handler that waits *before* it is done with a view has to copy it.

**What is too much.** A request is a number of things to do, and 100 MB hold a hundred million. So the elements of its lists are
counted before it is decoded (`ottla.request.max.items`), in a frame that is long enough to hold many, which few are. Too many of
them close the connection, as a frame does that is too long: not every answer has a place for an error that says so. And what has
so many that decoding takes longer than a turn is decoded in a thread, from a copy (in_thread.py).

An exception in a handler is a bug of ours: it is logged once, with its traceback, and the connection is closed, since no answer
would be honest. A handler closes the connection on purpose by raising `CloseConnection`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from ottla.server.base.errors import CloseConnection
from ottla.server.dispatch.chain import Chain
from ottla.server.dispatch.route import HEAD, SIZE_BYTES, Plan, Route, Waiting
from ottla.server.handlers import BROKER, served
from ottla.server.requests.context import BrokerContext
from ottla.server.requests.link import Steps
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.requests.traits import Traits
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED
from ottla.wire.header import API_VERSIONS, decode_request_header, read_request_header
from ottla.wire.primitives import Buffer, Parts

ITEMS_AT_ONCE: Final = 5000
"""So many elements are decoded in about a turn."""
BYTES_AT_ONCE: Final = 2 * ITEMS_AT_ONCE
"""Requests of so many bytes are not looked at, because few elements take less than two. Where they carry records, which are
longer, it is a byte for each element that is allowed."""


class Dispatch:
    """Serves the requests of listeners of one `role`. The links of `chain` stand around its handlers; None is for no links, ever.

    `routes` holds the routes that were needed so far, by API key << 16 | version.
    """

    __slots__ = ("_broker", "_chain", "_max_items", "_reserved", "_role", "routes")

    def __init__(self, broker: BrokerContext, chain: Chain | None = None, role: str = BROKER) -> None:
        self._broker = broker
        self._chain = chain or Chain()
        self._role = role
        self._max_items: int = broker.config.values["ottla.request.max.items"]
        self._reserved = self._chain.reserved
        self.routes: dict[int, Route] = {}
        self._chain.subscribe(self._compose_anew)

    def leave(self) -> None:
        """Ends, though the broker goes on."""
        self._chain.unsubscribe(self._compose_anew)

    @property
    def node_id(self) -> int:
        """Returns the id of the broker whose requests these are; a test may have one broker simulate several."""
        return self._broker.config.node_id

    def serve(self, frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
        """Serves one request; returns the frame of its answer, in parts if it may hold regions of files; or Waiting if the answer
        comes later; or None if the client wants no answer.

        Raises CloseConnection.
        """
        try:
            if type(frame) is bytes:
                key, version, correlation_id, client_id, pos = read_request_header(frame)
            else:
                (key, version, correlation_id, client_id), pos = decode_request_header(frame, 0)
        except MALFORMED as error:
            raise CloseConnection(f"the header of its request does not decode: {error!r:.200}") from None
        session.client_id = client_id
        route = self.routes.get(key << 16 | version)
        if route is None:
            if key == API_VERSIONS and not 0 <= version <= APIS[API_VERSIONS].max_version:
                return unsupported_api_versions(correlation_id)
            route = self._open_with_reserve(key, version)
        try:
            if len(frame) > route.few_bytes and self._is_long(key, version, frame, pos):
                from ottla.server.dispatch.in_thread import answer_from_thread  # not loaded as long as requests are small

                return answer_from_thread(
                    route, frame, pos, Request(self._broker, session, key, version, correlation_id, client_id)
                )
            body, end = route.decode(frame, pos)
        except MALFORMED as error:
            raise CloseConnection(f"its {APIS[key].name} v{version} does not decode: {error!r:.200}") from None
        if end > len(frame):
            raise CloseConnection(f"its {APIS[key].name} v{version} ends {end - len(frame)} bytes after the frame")
        return route.answer(body, Request(self._broker, session, key, version, correlation_id, client_id))

    def serve_again(
        self, frame: Buffer, session: Session, serve: Callable[[Buffer, Session], Any] | None = None
    ) -> bytes | Parts | Waiting | None:
        """Serves a request whose first answer is not sent, as `serve` of this class does, or another that stands around it. It
        counts as one request with the first time."""
        route = self.routes[int.from_bytes(frame[:4], "big")]  # a frame begins with the number of its route
        set_back = route.keep_counts()
        session.is_repeated = True
        try:
            answer: bytes | Parts | Waiting | None = (serve or self.serve)(frame, session)
            return answer
        finally:
            session.is_repeated = False
            set_back()

    def _is_long(self, key: int, version: int, frame: Buffer, pos: int) -> bool:
        """Returns whether the lists of the request at `pos` have more than ITEMS_AT_ONCE elements. Raises CloseConnection if it
        is certain already that there are more than are allowed, or one of MALFORMED."""
        from ottla.server.dispatch.item_limit import is_long  # not loaded as long as requests are small

        return is_long(self._broker, key, version, frame, pos, ITEMS_AT_ONCE)

    def _compose_anew(self) -> None:
        """Makes all routes anew, because the links have changed."""
        self.routes = {number: self._chain.compose(route.plan) for number, route in self.routes.items()}

    def _open_with_reserve(self, key: int, version: int) -> Route:
        """Makes the route though descriptors may have run out. (A lambda in `serve` would cost every request.)"""
        return self._reserved.run(lambda: self._open_route(key, version))

    def _open_route(self, key: int, version: int) -> Route:
        """Makes the route of an API at a version, with its first request. Raises CloseConnection if the API is not served."""
        api = served(self._role).get(key)
        if api is None:
            raise CloseConnection(f"it sent API key {key}, which is not served")
        if not api.min_version <= version <= api.max_version:
            raise CloseConnection(f"it sent {api.name} v{version}, but only v{api.min_version} to v{api.max_version} are served")
        messages = import_module(f"ottla.wire.messages.{api.module}")
        handler = import_module(f"ottla.server.handlers.{api.module}")
        traits: Traits = handler.TRAITS
        codecs = traits.own_codecs or messages
        encode = codecs.ENCODE_RESPONSE[version]
        if traits.long_answer:
            encode = self._broker.long_answers.around(encode, api.name)
        steps = Steps(codecs.DECODE_REQUEST[version], handler.handle, encode)
        few_bytes = self._max_items if traits.carries_records else min(self._max_items, BYTES_AT_ONCE)
        plan = Plan(api, version, traits, steps, getattr(messages, f"{api.name}Response"), few_bytes)
        route = self.routes[plan.number] = self._chain.compose(plan)
        return route


def unsupported_api_versions(correlation_id: int, served: tuple[int, int] | None = None) -> bytes:
    """Returns an answer in version 0, whatever the request's version: error 35, and the versions of ApiVersions, which are those
    that are `served`, or else all that there are."""
    from ottla.wire.messages.api_versions import ENCODE_RESPONSE, ApiVersion, ApiVersionsResponse

    api = APIS[API_VERSIONS]
    low, high = served or (api.min_version, api.max_version)
    response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(api.key, low, high)])
    parts: Parts = []
    ENCODE_RESPONSE[0](response, parts)
    body = b"".join(parts)
    return HEAD.pack(len(body) + HEAD.size - SIZE_BYTES, correlation_id) + body
