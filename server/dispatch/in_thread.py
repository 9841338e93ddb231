"""Decodes requests about thousands of things in a thread, and encodes their answers there, so that nobody else waits for that.

Few such requests are under way at once (server/requests/admission.py). The handler is called on the loop when the body is there,
like any other; what it answers belongs to this request alone from then on. A client that goes meanwhile cancels what is left, but
what a handler has begun as a task goes on, as it does for short requests.
"""

from __future__ import annotations

from typing import Any

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, call_in_thread, take_steps
from ottla.server.dispatch.encode_in_thread import encoded
from ottla.server.dispatch.item_limit import count_all, refused
from ottla.server.dispatch.route import Route, Waiting
from ottla.server.requests.request import Request
from ottla.wire.frame import MALFORMED
from ottla.wire.items import TooManyItems
from ottla.wire.primitives import Buffer


def answer_from_thread(route: Route, frame: Buffer, pos: int, request: Request) -> Waiting:
    """Returns what stands for the request whose body is at `pos` of the frame."""
    promise: Promise[Any] = Promise()
    try:
        taken = take_steps(_answer(route, memoryview(bytes(frame)), pos, request), request.broker.clock)
    except Exception as error:  # noqa: BLE001 - `Route.finish` logs it
        promise.set_exception(error)
    else:
        if isinstance(taken, Promise):
            promise = taken
        else:
            promise.set_result(taken)
    return route.wait_for(promise, request)


def _answer(route: Route, frame: memoryview, pos: int, request: Request) -> Steps[Any]:
    """Makes steps that return what the handler answers, once the request is admitted. They raise CloseConnection."""
    admission = request.broker.admission()
    try:
        yield admission.enter(request)
        return (yield from _answer_admitted(route, frame, pos, request))
    finally:
        admission.leave(request)


def _answer_admitted(route: Route, frame: memoryview, pos: int, request: Request) -> Steps[Any]:
    api, version = route.plan.api, request.api_version
    decode = route.plan.own_steps.decode  # without the links around it, which belong on the loop

    def counted() -> tuple[Any, int]:
        count_all(request.broker, api.key, version, frame, pos)
        return decode(frame, pos)

    try:
        body, end = yield from call_in_thread(counted, request.broker.workers)
    except TooManyItems:
        raise refused(request.broker, api.key, version, len(frame)) from None
    except MALFORMED as error:
        raise CloseConnection(f"its {api.name} v{version} does not decode: {error!r:.200}") from None
    if end > len(frame):
        raise CloseConnection(f"its {api.name} v{version} ends {end - len(frame)} bytes after the frame")
    return (yield from encoded(route, route.handle(body, request), request))
