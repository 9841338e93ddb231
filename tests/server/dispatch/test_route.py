"""A route makes one frame of an answer, whether it comes at once, later, or was encoded before."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.dispatch.route import Plan, Route, Waiting, log_failure
from ottla.server.handlers import fetch, heartbeat
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.link import Handle, Steps
from ottla.server.requests.request import Request
from ottla.wire.api import BY_MODULE
from ottla.wire.messages import heartbeat as messages
from ottla.wire.messages.heartbeat import HeartbeatResponse
from tests.fakes import MemoryBroker

ANSWER = HeartbeatResponse(throttle_time_ms=5, error_code=27)
BODY = b"\0\0\0\5\0\x1b"


def route_of(handle: Handle, version: int = 3, module: str = "heartbeat") -> Route:
    traits = {"heartbeat": heartbeat, "fetch": fetch}[module].TRAITS
    steps = Steps(messages.DECODE_REQUEST[version], handle, messages.ENCODE_RESPONSE[version])
    return Route(Plan(BY_MODULE[module], version, traits, steps, HeartbeatResponse, 1000), steps)


def request(version: int = 3) -> Request:
    broker = MemoryBroker({})
    return Request(broker.context, broker.session(), 12, version, 7, "me")


def test_an_answer_at_once_is_a_frame() -> None:
    assert route_of(lambda body, request: ANSWER).answer(None, request()) == b"\0\0\0\x0a" + b"\0\0\0\7" + BODY


def test_a_flexible_version_has_tagged_fields_in_its_header_and_body() -> None:
    assert route_of(lambda body, request: ANSWER, 4).answer(None, request(4)) == b"\0\0\0\x0c" + b"\0\0\0\7\0" + BODY + b"\0"


def test_an_answer_that_was_encoded_before_gets_a_head() -> None:
    assert route_of(lambda body, request: Encoded(b"kept")).answer(None, request()) == b"\0\0\0\x08" + b"\0\0\0\7" + b"kept"


def test_an_answer_that_may_hold_regions_stays_in_parts() -> None:
    assert route_of(lambda body, request: Encoded(b"kept"), module="fetch").answer(None, request()) == [
        b"\0\0\0\x08" + b"\0\0\0\7",
        b"kept",
    ]


def test_no_answer_is_none() -> None:
    assert route_of(lambda body, request: None).answer(None, request()) is None


def test_an_answer_that_comes_later() -> None:
    promise: Promise[HeartbeatResponse] = Promise()
    route, asked = route_of(lambda body, request: promise), request()
    waiting = route.answer(None, asked)
    assert waiting == Waiting(promise, route, asked)
    promise.set_result(ANSWER)
    assert route.finish(promise, waiting) == b"\0\0\0\x0a" + b"\0\0\0\7" + BODY


def test_no_answer_may_come_later() -> None:
    promise: Promise[None] = Promise()
    route, asked = route_of(lambda body, request: promise), request()
    waiting = route.answer(None, asked)
    assert isinstance(waiting, Waiting)
    promise.set_result(None)
    assert route.finish(promise, waiting) == b""


@pytest.mark.parametrize("later", [False, True])
def test_a_bug_is_logged_with_its_traceback_and_closes(later: bool, caplog: pytest.LogCaptureFixture) -> None:
    promise: Promise[Any] = Promise()

    def handle(body: Any, request: Request) -> Any:
        if later:
            return promise
        raise ZeroDivisionError("oh")

    route, asked = route_of(handle), request()
    if later:
        promise.set_exception(ZeroDivisionError("oh"))
    with pytest.raises(CloseConnection, match="handling its Heartbeat v3 failed"):
        route.finish(promise, Waiting(promise, route, asked)) if later else route.answer(None, asked)
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None) == (logging.ERROR, True)


@pytest.mark.parametrize("later", [False, True])
def test_closing_on_purpose_is_not_logged(later: bool, caplog: pytest.LogCaptureFixture) -> None:
    promise: Promise[Any] = Promise()
    reason = CloseConnection("because")

    def handle(body: Any, request: Request) -> Any:
        raise reason

    route, asked = route_of(handle), request()
    promise.set_exception(reason)
    with pytest.raises(CloseConnection, match="because"):
        route.finish(promise, Waiting(promise, route, asked)) if later else route.answer(None, asked)
    assert not caplog.records


def test_the_log_names_who_asked(caplog: pytest.LogCaptureFixture) -> None:
    log_failure(ValueError("oh"), request())
    assert "Heartbeat v3 of" in caplog.text
    assert "(me)" in caplog.text
