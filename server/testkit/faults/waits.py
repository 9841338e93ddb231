"""Answers that the kit holds back: until a time, until a test says so, or for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.server.base.answers import keep_running, settle
from ottla.server.base.promise import Promise
from ottla.wire.primitives import WireStruct

if TYPE_CHECKING:
    from ottla.server.requests.request import Request

PRODUCE = 0


def forward(answer: Any, promise: Promise[Any]) -> None:
    """Keeps a promise with what a handler answers, in whatever form it does; nobody may want the answer any more."""
    if answer is None or isinstance(answer, WireStruct):
        if not promise.done():
            promise.set_result(answer)
        return
    if not isinstance(answer, Promise):
        answer = keep_running(answer)
    answer.add_done_callback(partial(_pass_on, promise))


def _pass_on(promise: Promise[Any], answer: Promise[Any] | asyncio.Future[Any]) -> None:
    if answer.cancelled():
        promise.cancel()
    else:
        settle(promise, answer.result)


def settle_with(promise: Promise[Any], compute: Callable[[], Any]) -> None:
    """Calls what answers a request now, and keeps the promise with the answer or the error."""
    try:
        answer = compute()
    except Exception as error:  # noqa: BLE001 - as a handler's own
        if not promise.done():
            promise.set_exception(error)
    else:
        forward(answer, promise)


def outlive_frame(body: Any, request: Request) -> None:
    """Copies what a decoded request has of its frame, which lies in a buffer that others use as soon as the request waits. Only
    the records of Produce are not copies already."""
    if request.api_key != PRODUCE:
        return
    for topic in body.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = bytes(data.records)


def until_gone(promise: Promise[Any], request: Request) -> Promise[Any]:
    """Returns the promise, which is given up when its client has gone: a connection does not give up a Produce itself, and counts
    its memory until it is answered."""
    request.session.on_close(lambda _: None if promise.done() else promise.cancel())
    return promise
