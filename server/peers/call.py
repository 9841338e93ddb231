"""`Call`: one request to another node, from its asking to its outcome.

A request is an object of `wire/messages/`; the module of its class has the codecs and the versions that this node speaks.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ottla.server.base.clock import Cancellable
from ottla.server.base.promise import Promise
from ottla.wire.api import APIS, Api
from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.primitives import Buffer, Parts, WireStruct

Decode = Callable[[Buffer, int], tuple[Any, int]]
"""Decodes a message at a position of a buffer and returns it and the position behind it. Raises one of frame.MALFORMED."""

BYTES_AT_ONCE: Final = 64 * 1024
"""So many bytes of an answer are decoded in less than a turn, whatever is in them."""
_OPAQUE: Final = frozenset((1, 58, 59))
"""The keys of the APIs whose answers are mostly bytes that nobody looks into when they are decoded: Fetch, Envelope and
FetchSnapshot."""
_LAST_CORRELATION_ID: Final = 2**31 - 1
_CORRELATION_ID_BYTES: Final = 4


class Codecs(NamedTuple):
    """An API, and by version the functions that encode its request and decode its answer."""

    api: Api
    encode_request: dict[int, Callable[[Any, Parts], None]]
    decode_response: dict[int, Decode]


@functools.cache
def codecs_of(messages: str) -> Codecs:
    """Returns the codecs in a module of wire/messages/, which has been imported."""
    module: Any = sys.modules[messages]
    return Codecs(APIS[module.API_KEY], module.ENCODE_REQUEST, module.DECODE_RESPONSE)


class Call:
    """A request, and the promise of its answer, which fails with a PeerError if there is none."""

    __slots__ = ("answer", "codecs", "correlation_id", "decode", "min_version", "request", "timer", "version")

    def __init__(self, request: WireStruct, min_version: int = 0) -> None:
        """Makes a call that an answer in `min_version` or any newer version of its API would serve."""
        self.request = request
        self.codecs = codecs_of(type(request).__module__)
        self.min_version = max(min_version, self.codecs.api.min_version)
        self.answer: Promise[Any] = Promise()
        self.timer: Cancellable | None = None
        """The timer that ends the call when its time is over."""
        self.version = self.correlation_id = -1  # from its sending on
        self.decode: Decode | None = None

    @property
    def name(self) -> str:
        """The name of the request's API."""
        return self.codecs.api.name

    def is_decoded_at_once(self, size: int) -> bool:
        """Returns whether decoding an answer of `size` bytes takes less than a turn."""
        return size <= BYTES_AT_ONCE or self.codecs.api.key in _OPAQUE

    def encode(self, version: int, correlation_id: int, client_id: str) -> bytes:
        """Returns the request's frame, with its size, and notes how to read the answer."""
        self.version, self.correlation_id = version, correlation_id
        self.decode = self.decode or self.codecs.decode_response[version]
        parts: Parts = [b"", encode_request_header(self.codecs.api.key, version, correlation_id, client_id)]
        self.codecs.encode_request[version](self.request, parts)
        parts[0] = sum(map(len, parts)).to_bytes(4, "big")
        return b"".join(parts)

    def decode_answer(self, frame: Buffer) -> Any:
        """Returns the answer that is in a frame without its size. Raises one of MALFORMED if there is none, or one to another
        request."""
        assert self.decode is not None, "encode comes first"
        correlation_id = int.from_bytes(frame[:_CORRELATION_ID_BYTES], "big", signed=True)
        if correlation_id != self.correlation_id:
            raise ValueError(f"it has the correlation id {correlation_id}, and {self.correlation_id} is due")
        _, pos = decode_response_header(self.codecs.api.key, self.version, frame, 0)
        answer, end = self.decode(frame, pos)
        if end != len(frame):
            raise ValueError(f"it ends at byte {end} of {len(frame)}")
        return answer

    def succeed(self, answer: object) -> None:
        """Keeps the promise."""
        self._stop_timer()
        if not self.answer.done():  # whoever waited may have cancelled it
            self.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Breaks the promise, with a PeerError unless the request itself is at fault."""
        self._stop_timer()
        if not self.answer.done():
            self.answer.set_exception(error)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


def next_correlation_id(last: int) -> int:
    """Returns the id of a connection's next request: an int32 that is not negative."""
    return 0 if last == _LAST_CORRELATION_ID else last + 1
