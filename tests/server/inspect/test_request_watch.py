"""The link of a watch: what it notes of a request, whichever way its answer comes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.inspect import request_watch
from ottla.server.inspect.request_watch import MOST_FIELDS, RequestWatch
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.link import Steps
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.api import APIS
from ottla.wire.messages import fetch, sasl_authenticate

NO_BROKER: Any = None


class Ticks:
    """A clock by which everything takes a microsecond."""

    def __init__(self) -> None:
        self.ns = 0

    def ticks_ns(self) -> int:
        self.ns += 1000
        return self.ns

    def now_ms(self) -> int:
        return 5


class Rig:
    def __init__(self, answer: Any, most: int = 9, client_id: str | None = None, key: int = 1) -> None:
        clock: Any = Ticks()
        self.over = 0
        self.watch = RequestWatch(clock, client_id, most, self.end)
        self.answer = answer
        self.body: Any = fetch.FetchRequest(topics=[fetch.FetchTopic(f"t{at}") for at in range(50)])
        traits: Any = None
        self.steps = self.watch.around(APIS[key], traits, Steps(lambda frame, pos: (self.body, 9), self.handle, self.encode))
        self.key = key

    def end(self) -> None:
        self.over += 1

    def handle(self, body: Any, request: Request) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def encode(self, response: Any, parts: Any) -> None:
        parts.append(b"1234")

    def serve(self, client_id: str = "app") -> Any:
        body, _ = self.steps.decode(b"", 0)
        answer = self.steps.handle(body, Request(NO_BROKER, Session("L", "host", 7), self.key, 12, 3, client_id))
        if answer is not None and not isinstance(answer, Promise):
            self.steps.encode(answer, [])
        return answer


def test_an_answer_at_once() -> None:
    rig = Rig(fetch.FetchResponse())
    rig.serve()
    (seen,) = rig.watch.seen
    assert (seen.api, seen.client_id, seen.host, seen.port, seen.outcome) == ("Fetch", "app", "host", 7, "answered")
    assert (seen.decoded, seen.handled, seen.waited, seen.encoded, seen.sent_bytes) == (1000, 1000, None, 1000, 4)
    assert seen.fields is not None
    assert seen.response is not None
    assert len(json.loads(seen.fields)["topics"]) == 20
    assert json.loads(seen.response)["error_code"] == 0
    assert not rig.watch._unsent


def test_an_answer_that_comes_later_and_one_that_never_does() -> None:
    promise: Promise[Any] = Promise()
    rig = Rig(promise)
    rig.serve()
    (seen,) = rig.watch.seen
    assert (seen.outcome, seen.waits_for, seen.waited) == ("waiting", "records", None)
    answer = fetch.FetchResponse()
    promise.set_result(answer)
    rig.steps.encode(answer, [])
    assert (seen.outcome, seen.waited, seen.encoded) == ("answered", 1000, 1000)
    cancelled: Promise[Any] = Promise()
    rig.answer = cancelled
    rig.serve()
    cancelled.cancel()
    failed: Promise[Any] = Promise()
    rig.answer = failed
    rig.serve()
    failed.set_exception(ValueError())
    silent: Promise[Any] = Promise()
    rig.answer = silent
    rig.serve()
    silent.set_result(None)
    rig.answer = None
    rig.serve()
    assert [each.outcome for each in rig.watch.seen[1:]] == ["closed", "closed", "no answer wanted", "no answer wanted"]


def test_a_handler_that_fails_is_seen_and_fails() -> None:
    rig = Rig(KeyError())
    with pytest.raises(KeyError):
        rig.serve()
    assert rig.watch.seen[0].outcome == "closed"


@pytest.mark.parametrize("fails_at", ["FetchRequest", "FetchResponse"])
@pytest.mark.parametrize("is_late", [True, False])
def test_a_message_that_cannot_be_shown_ends_the_watch_and_fails_no_request(
    fails_at: str, is_late: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(message: Any, **_: Any) -> dict[str, Any]:
        if type(message).__name__ == fails_at:
            raise KeyError("a bug")
        return {}

    monkeypatch.setattr(request_watch, "fields_of", fail)
    promise: Promise[Any] = Promise()
    rig = Rig(promise if is_late else fetch.FetchResponse())
    assert rig.serve() is rig.answer
    if is_late:
        promise.set_result(fetch.FetchResponse())
    rig.serve()
    assert (rig.over, len(rig.watch.seen)) == (1, 1)
    assert [record.getMessage() for record in caplog.records] == [f"a {fails_at} cannot be shown, so the watch of requests ends"]


def test_one_client_only_and_so_many() -> None:
    rig = Rig(fetch.FetchResponse(), most=2, client_id="app")
    for client in ("other", "app", "other", "app", "app"):
        rig.serve(client)
    assert [seen.client_id for seen in rig.watch.seen] == ["app", "app"]
    assert rig.over == 1


def test_what_carries_credentials_is_shown_without_fields() -> None:
    rig = Rig(sasl_authenticate.SaslAuthenticateResponse(), key=36)
    rig.body = sasl_authenticate.SaslAuthenticateRequest(b"secret")
    rig.serve()
    (seen,) = rig.watch.seen
    assert (seen.api, seen.fields, seen.response, seen.outcome) == ("SaslAuthenticate", None, None, "answered")


def test_a_body_that_was_decoded_in_a_thread_has_no_time_of_that() -> None:
    rig = Rig(fetch.FetchResponse())
    rig.steps.decode(b"", 0)
    rig.steps.handle(fetch.FetchRequest(), Request(NO_BROKER, Session("L", "host", 7), 1, 12, 3, "app"))
    assert (rig.watch.seen[0].decoded, rig.watch.seen[0].handled) == (None, 1000)


def test_a_handler_that_is_a_coroutine_is_seen_to_answer_and_to_fail() -> None:
    async def scenario() -> None:
        response = fetch.FetchResponse(error_code=6)

        async def answer() -> Any:
            return response

        async def fail() -> Any:
            raise KeyError

        rig = Rig(answer())
        body, _ = rig.steps.decode(b"", 0)
        request = Request(NO_BROKER, Session("L", "host", 7), 1, 12, 3, "app")
        coming = rig.steps.handle(body, request)
        assert rig.watch.seen[0].outcome == "waiting"
        assert await coming is response
        rig.steps.encode(response, [])
        rig.answer = fail()
        with pytest.raises(KeyError):
            await rig.steps.handle(body, request)
        first, second = rig.watch.seen
        assert (first.outcome, first.waits_for, first.waited, first.encoded) == ("answered", "others", 1000, 1000)
        assert first.response is not None
        assert json.loads(first.response)["error_code"] == 6
        assert second.outcome == "closed"

    asyncio.run(scenario())


def test_no_body_is_held_for_longer_than_its_request_and_little_of_it_is_kept() -> None:
    rig = Rig(fetch.FetchResponse(), client_id="app")
    rig.body = fetch.FetchRequest(rack_id="r" * 100_000, topics=[fetch.FetchTopic("t" * 30_000) for _ in range(50)])
    rig.serve("other")
    assert rig.watch._decoded[0] is None
    rig.serve()
    kept = rig.watch.seen[0].fields
    assert kept is not None
    assert len(kept) == MOST_FIELDS + 1
    rig.steps.decode(b"", 0)
    rig.watch.close()
    assert rig.watch._decoded[0] is None


def test_an_answer_that_was_kept_encoded_has_a_size_and_no_fields() -> None:
    rig = Rig(Encoded(b"12", b"345"))
    rig.serve()
    (seen,) = rig.watch.seen
    assert (seen.outcome, seen.response, seen.sent_bytes, seen.encoded) == ("answered", None, 5, None)
    assert not rig.watch._unsent
