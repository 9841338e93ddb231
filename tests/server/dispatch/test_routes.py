"""Routes, what closes a connection, and that nothing keeps a view of the frame."""

from __future__ import annotations

import asyncio
import importlib
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.dispatch import routes as module
from ottla.server.dispatch.routes import Dispatch, Waiting
from ottla.server.handlers import served
from ottla.server.handlers.api_versions import TELEMETRY
from ottla.server.requests.request import Request
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.header import encode_request_header
from ottla.wire.messages import api_versions, fetch, list_offsets, metadata, produce
from tests.fakes import MemoryBroker
from tests.log.support import batch

API_VERSIONS = 18
MESSAGES = Path(__file__).parents[3] / "wire" / "messages"


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 1})


def frame(key: int, version: int, request: Any, messages: Any) -> bytes:
    parts: list[Any] = [encode_request_header(key, version, 77, "me")]
    messages.ENCODE_REQUEST[version](request, parts)
    return b"".join(parts)


def body(answer: Any) -> bytes:
    """An answer's frame without its size, which is checked."""
    parts = [answer] if isinstance(answer, bytes) else answer
    data = b"".join(part.read() if hasattr(part, "read") else part for part in parts)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return data[4:]


@pytest.mark.parametrize("version", range(6))
def test_a_request_is_answered_under_its_correlation_id(broker: MemoryBroker, version: int) -> None:
    dispatch, session = Dispatch(broker.context), broker.session()
    request = frame(API_VERSIONS, version, api_versions.ApiVersionsRequest("me", "1"), api_versions)
    data = body(dispatch.serve(request, session))
    assert data[:4] == (77).to_bytes(4, "big")
    response, end = api_versions.DECODE_RESPONSE[version](data, 4)  # never a tagged header
    assert (end, response.error_code) == (len(data), ErrorCode.NONE)
    assert [key.api_key for key in response.api_keys] == [key for key in served() if key not in TELEMETRY]
    assert session.client_id == "me"
    assert dispatch.routes[API_VERSIONS << 16 | version].requests == 1


def test_flexible_responses_have_a_tagged_header(broker: MemoryBroker) -> None:
    request = frame(2, 6, list_offsets.ListOffsetsRequest(), list_offsets)
    data = body(Dispatch(broker.context).serve(request, broker.session()))
    assert data[4] == 0
    assert list_offsets.DECODE_RESPONSE[6](data, 5)[1] == len(data)


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_an_unsupported_api_versions_is_answered_in_version_0(broker: MemoryBroker, version: int) -> None:
    request = encode_request_header(API_VERSIONS, 0, 5, None)
    request = request[:2] + version.to_bytes(2, "big", signed=True) + request[4:] + b"\0"
    data = body(Dispatch(broker.context).serve(request, broker.session()))
    response, end = api_versions.DECODE_RESPONSE[0](data, 4)
    assert end == len(data)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [(18, 0, 5)]


@pytest.mark.parametrize(
    ("key", "version"),
    [(4, 0), (1234, 0), (-1, 0), (3, 99), (3, -1), (1, 3), (22, 6), (52, 0), (0, 2), (0, 14)],
)
def test_what_is_not_served_closes(broker: MemoryBroker, key: int, version: int) -> None:
    request = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(60)
    with pytest.raises(CloseConnection):
        Dispatch(broker.context).serve(request, broker.session())


def test_what_does_not_decode_closes(broker: MemoryBroker) -> None:
    whole = frame(2, 1, list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic("topic")]), list_offsets)
    for size in range(len(whole)):
        with pytest.raises(CloseConnection):
            Dispatch(broker.context).serve(whole[:size], broker.session())
    assert body(Dispatch(broker.context).serve(whole + b"more", broker.session()))  # Kafka reads what it knows


class Handler:
    """Stands where a handler's module would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, result: Any) -> None:
        self.requests: list[Request] = []
        self.result = result
        real = importlib.import_module

        def fake(name: str) -> Any:
            return SimpleNamespace(handle=self.handle) if name.startswith("ottla.server.handlers.") else real(name)

        monkeypatch.setattr(module, "import_module", fake)

    def handle(self, body: Any, request: Request) -> Any:
        self.requests.append(request)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_a_failing_handler_is_logged_once_and_closes(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Handler(monkeypatch, ZeroDivisionError("oh"))
    with caplog.at_level(logging.INFO), pytest.raises(CloseConnection, match="ListOffsets v1"):
        Dispatch(broker.context).serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), broker.session())
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "ListOffsets v1" in record.message


def test_each_request_is_an_object_of_its_own(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Handler(monkeypatch, None)
    dispatch, session = Dispatch(broker.context), broker.session()
    for version in (1, 2):
        dispatch.serve(frame(2, version, list_offsets.ListOffsetsRequest(), list_offsets), session)
    first, second = handler.requests
    assert (first.api_key, first.api_version, first.correlation_id, first.client_id) == (2, 1, 77, "me")
    assert (second.api_version, second.session, second.broker) == (2, session, broker.context)
    assert first.session is session


def test_no_answer_and_an_answer_that_comes_later(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    request = frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets)
    handler = Handler(monkeypatch, None)
    assert Dispatch(broker.context).serve(request, broker.session()) is None
    handler.result = promise = object()
    waiting = Dispatch(broker.context).serve(request, broker.session())
    assert isinstance(waiting, Waiting)
    assert waiting.answer is promise


def test_with_ticks_answers_are_counted_by_time_and_error(broker: MemoryBroker) -> None:
    now = iter(range(1_000, 9_000_000, 1_000))
    dispatch, session = Dispatch(broker.context, lambda: next(now)), broker.session()
    asked = [list_offsets.ListOffsetsTopic(name, [list_offsets.ListOffsetsPartition(0)]) for name in ("t", "nowhere", "gone")]
    for _ in range(2):
        dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(-1, 0, asked), list_offsets), session)
    route = dispatch.routes[2 << 16 | 1]
    assert route.requests == 2
    assert route.errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 4}
    assert {bucket: count for bucket, count in enumerate(route.took) if count} == {10: 2}  # 512..1,023 ns is bucket 10
    assert route.took_ns == 2_000


def test_an_answer_that_is_kept_encoded_is_counted_and_not_looked_through(broker: MemoryBroker) -> None:
    now = iter(range(1_000, 9_000_000, 1_000))
    dispatch, session = Dispatch(broker.context, lambda: next(now)), broker.session()
    answers = [dispatch.serve(frame(3, 5, metadata.MetadataRequest(None), metadata), session) for _ in range(2)]
    assert answers[0] == answers[1]
    route = dispatch.routes[3 << 16 | 5]
    assert (route.requests, sum(route.took), route.errors) == (2, 2, {})


def test_a_promise_is_counted_when_it_is_kept(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        now = iter((7, 1_000_007))
        dispatch, session = Dispatch(broker.context, lambda: next(now)), broker.session()
        promise = asyncio.get_running_loop().create_future()
        Handler(monkeypatch, promise)
        waiting = dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), session)
        assert isinstance(waiting, Waiting)
        assert sum(waiting.route.took) == 0
        promise.set_result(list_offsets.ListOffsetsResponse())
        module.finish(promise, waiting)
        assert (sum(waiting.route.took), waiting.route.took_ns) == (1, 1_000_000)

    asyncio.run(scenario())


@pytest.mark.parametrize("messages", [produce, fetch])
def test_produce_and_fetch_tell_of_their_errors(broker: MemoryBroker, messages: Any) -> None:
    dispatch, session = Dispatch(broker.context, lambda: 1), broker.session()

    def ask(topic: str) -> dict[int, int]:
        request: Any
        if messages is produce:
            data = [produce.PartitionProduceData(0, batch())]
            request = produce.ProduceRequest(None, 1, 0, [produce.TopicProduceData(topic, partition_data=data)])
        else:
            wanted = [fetch.FetchPartition(0, partition_max_bytes=100)]
            request = fetch.FetchRequest(max_bytes=100, topics=[fetch.FetchTopic(topic, partitions=wanted)])
        dispatch.serve(frame(messages.API_KEY, 9, request, messages), session)
        return dispatch.routes[messages.API_KEY << 16 | 9].errors

    assert ask("t") == {}
    assert ask("nowhere") == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}
    assert ask("t") == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}


def test_without_ticks_nothing_is_timed_or_searched(broker: MemoryBroker) -> None:
    dispatch = Dispatch(broker.context)
    asked = [list_offsets.ListOffsetsTopic("nowhere", [list_offsets.ListOffsetsPartition(0)])]
    dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(-1, 0, asked), list_offsets), broker.session())
    route = dispatch.routes[2 << 16 | 1]
    assert (route.requests, route.took, route.took_ns, route.errors) == (1, [], 0, {})


def test_modules_are_imported_with_their_first_request(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    real = importlib.import_module

    def watched(name: str) -> Any:
        imported.append(name)
        return real(name)

    monkeypatch.setattr(module, "import_module", watched)
    dispatch = Dispatch(broker.context)
    assert imported == []
    for _ in range(2):
        dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), broker.session())
    assert imported == ["ottla.wire.messages.list_offsets", "ottla.server.handlers.list_offsets"]


def test_only_produce_requests_hold_views_of_the_frame() -> None:
    """Handlers may wait, and the next read reuses the buffer. Generated decoders slice `view` for a view."""
    viewing = set()
    for api in APIS.values():
        source = (MESSAGES / f"{api.module}.py").read_text()
        decoders = importlib.import_module(f"ottla.wire.messages.{api.module}").DECODE_REQUEST.values()
        if any("= view[" in source.split(f"def {decoder.__name__}(")[1].split("\ndef ")[0] for decoder in decoders):
            viewing.add(api.name)
    assert viewing == {"Produce"}


def test_produce_holds_no_view_when_it_returns(broker: MemoryBroker) -> None:
    records = batch(3)
    request = produce.ProduceRequest(
        None, -1, 1000, [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, records)])]
    )
    buffer = bytearray(frame(0, 9, request, produce))
    answer = Dispatch(broker.context).serve(memoryview(buffer), broker.session())
    buffer[:] = b"\xa5" * len(buffer)
    response, _ = produce.DECODE_RESPONSE[9](body(answer), 5)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    ask = fetch.FetchRequest(topics=[fetch.FetchTopic("t", partitions=[fetch.FetchPartition(0, partition_max_bytes=1 << 20)])])
    fetched, _ = fetch.DECODE_RESPONSE[12](body(Dispatch(broker.context).serve(frame(1, 12, ask, fetch), broker.session())), 5)
    found: Any = fetched.responses[0].partitions[0].records
    assert bytes(found)[16:] == records[16:]


def test_an_answer_that_its_version_cannot_carry_closes(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topics = [list_offsets.ListOffsetsTopicResponse("t" * 40_000)]
    Handler(monkeypatch, list_offsets.ListOffsetsResponse(topics=topics))
    with caplog.at_level(logging.INFO), pytest.raises(CloseConnection, match="ListOffsets v1"):
        Dispatch(broker.context).serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), broker.session())
    assert "ListOffsets v1" in caplog.text
