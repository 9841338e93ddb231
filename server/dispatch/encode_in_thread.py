"""Encodes long answers in a thread: those to requests about thousands of things (in_thread.py), and those that took more than a
turn to make, because there is much that they are about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

from ottla.log.disk.files import FileSlice
from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, call_in_thread, take_steps
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.request import Request
from ottla.wire.primitives import Parts, WireStruct


class Encoder(Protocol):
    """The part of a route (route.py) that handles the answer."""

    def encode(self, answer: Any, parts: Parts, /) -> None:
        """Appends the bytes of an answer to the parts."""
        ...

    def errors_in(self, answer: Any, request: Request) -> dict[int, int]:
        """Returns how often each error code stands in an answer."""
        ...

    def add_errors(self, errors: dict[int, int]) -> None:
        """Counts errors."""
        ...


def encode_in_thread(route: Encoder, answer: Promise[Any], request: Request) -> Promise[Any]:
    """Returns a promise of a promised answer, encoded."""
    taken = take_steps(encoded(route, answer, request), request.broker.clock)
    assert isinstance(taken, Promise)  # it waits for the answer
    return taken


def encoded(route: Encoder, answer: Any, request: Request) -> Steps[Any]:
    """Makes steps that return an answer, which may be promised, as its bytes. They raise CloseConnection."""
    if not isinstance(answer, WireStruct) and answer is not None:
        if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Task):
            answer = asyncio.shield(answer)
        yield answer
        if answer.cancelled():  # somebody else gave it up
            raise CloseConnection("its request was cancelled")
        answer = answer.result()
    if answer is None or type(answer) is Encoded:
        return answer
    parts, errors = yield from call_in_thread(lambda: _encode(route, answer, request), request.broker.workers)
    route.add_errors(errors)
    return Encoded(*parts)


def _encode(route: Encoder, answer: WireStruct, request: Request) -> tuple[Parts, dict[int, int]]:
    """Returns the bytes of an answer, in one part or around regions of files, and the error codes in it that count."""
    parts: Parts = []
    route.encode(answer, parts)
    return list(_joined(parts)), route.errors_in(answer, request)


def _joined(parts: Parts) -> Iterator[Any]:
    """Yields the regions among the parts, and what is between two of them as one part."""
    between: list[bytes] = []
    for part in parts:
        if isinstance(part, FileSlice):
            yield b"".join(between)
            yield part
            between = []
        else:
            between.append(part)
    yield b"".join(between)
