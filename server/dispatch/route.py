"""A route serves one API at one version: it calls the handler and makes the frame of the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import InTurns, Promise
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.link import Steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.wire.api import APIS, Api
from ottla.wire.header import API_VERSIONS
from ottla.wire.primitives import Parts, WireStruct

logger = logging.getLogger("ottla.server.dispatch")

SIZE_BYTES: Final = 4
"""The bytes of a frame's size, which does not count itself."""
HEAD: Final = Struct(">ii")
"""The size of a frame and the correlation id."""
_HEAD_TAGS: Final = Struct(">iix")


class Plan(NamedTuple):
    """Holds what a route is made from, each time anew."""

    api: Api
    version: int
    traits: Traits
    own_steps: Steps
    """The functions of the codecs and the handler, without any link around them."""
    response: type[WireStruct]
    few_bytes: int
    """The elements of lists are counted in requests that are longer."""

    @property
    def number(self) -> int:
        """Returns the number by which the route is found."""
        return self.api.key << 16 | self.version


class Route:
    """Serves one API at one version."""

    __slots__ = ("decode", "encode", "few_bytes", "handle", "head", "head_bytes", "plan", "regions")

    def __init__(self, plan: Plan, steps: Steps) -> None:
        self.plan = plan
        self.few_bytes = plan.few_bytes
        self.decode = steps.decode
        self.handle = steps.handle
        self.encode = steps.encode
        flexible = plan.version >= plan.api.flexible_from and plan.api.key != API_VERSIONS
        self.head = _HEAD_TAGS if flexible else HEAD
        """Packs the size and the correlation id, and in flexible versions the header's tagged fields, of which there are none."""
        self.head_bytes: int = self.head.size - SIZE_BYTES
        """The number of bytes that the head adds to a frame."""
        self.regions = plan.traits.answers_with_regions
        """True if the answer may hold regions of files, so that its parts must not be joined."""

    def answer(self, body: Any, request: Request) -> bytes | Parts | Waiting | None:
        """Calls the handler; returns what `Dispatch.serve` (routes.py) returns. Raises CloseConnection."""
        try:
            response = self.handle(body, request)
            if isinstance(response, WireStruct):
                return self.frame(response, request.correlation_id)
            return None if response is None else Waiting(self.encoded_later(response, request), self, request)
        except CloseConnection:
            raise
        except Exception as error:
            raise log_failure(error, request) from error

    def encoded_later(self, answer: Any, request: Request) -> Any:
        """Returns what stands for an answer that is still to come: the same, or the promise of its bytes if it is so long that a
        thread has to encode it."""
        if type(answer) is not InTurns:
            return answer
        from ottla.server.dispatch.encode_in_thread import encode_in_thread  # not loaded as long as answers are short

        return encode_in_thread(self, answer, request)

    def wait_for(self, answer: Promise[Any], request: Request) -> Waiting:
        """Returns what stands for a request whose body is not decoded yet; the promise is of what the handler answers."""
        return Waiting(answer, self, request)

    def errors_in(self, answer: Any, request: Request) -> dict[int, int]:
        """Returns how often each error code stands in an answer; this route counts none. Any thread may call this."""
        return {}

    def add_errors(self, errors: dict[int, int]) -> None:
        """Counts the errors of an answer that was encoded before it is finished; this route counts none."""

    def keep_counts(self) -> Callable[[], None]:
        """Returns what sets the counts of requests and of the time they took back to what they are now; this route has none."""
        return _nothing_to_set_back

    def finish(self, answer: asyncio.Future[Any] | Promise[Any], waiting: Waiting) -> bytes | Parts:
        """Returns the frame of an answer that has come, nothing if the client wants none. Raises CloseConnection."""
        try:
            response = answer.result()
            return b"" if response is None else self.frame(response, waiting.request.correlation_id)
        except CloseConnection:
            raise
        except Exception as error:
            raise log_failure(error, waiting.request) from error

    def frame(self, response: Any, correlation_id: int) -> bytes | Parts:
        """Encodes an answer; returns its frame, in parts if it may hold regions of files."""
        parts: Parts = []
        if type(response) is Encoded:
            parts.extend(response.parts)
        else:
            self.encode(response, parts)
        head = self.head
        if not self.regions:
            body = b"".join(parts)
            return head.pack(len(body) + self.head_bytes, correlation_id) + body
        return [head.pack(sum(map(len, parts)) + self.head_bytes, correlation_id), *parts]


class Waiting(NamedTuple):
    """Stands for a request whose answer comes later; `route.finish` then makes its frame."""

    answer: Awaitable[Any]
    route: Route
    request: Request
    started: int = 0
    """The time at which the request came, in the ticks of a route that measures; 0 for all other routes."""


def _nothing_to_set_back() -> None:
    pass


def log_failure(error: BaseException, request: Request) -> CloseConnection:
    """Logs a bug of ours, with its traceback; returns the error that closes the connection."""
    api, version = APIS[request.api_key], request.api_version
    host, client_id = request.session.client_host, request.client_id
    logger.error("handling %s v%d of %s (%s) failed", api.name, version, host, client_id, exc_info=error)
    return CloseConnection(f"handling its {api.name} v{version} failed")
