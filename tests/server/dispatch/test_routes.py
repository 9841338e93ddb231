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
from ottla.server.dispatch.chain import Chain, Place
from ottla.server.dispatch.route import Waiting
from ottla.server.dispatch.routes import Dispatch
from ottla.server.handlers import CONTROLLER, served
from ottla.server.handlers import list_offsets as handler
from ottla.server.handlers.api_versions import TELEMETRY
from ottla.server.handlers.api_versions import handle as answer_api_versions
from ottla.server.requests.link import Steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.wire import single_produce
from ottla.wire.api import APIS, Api
from ottla.wire.errors import ErrorCode
from ottla.wire.header import encode_request_header
from ottla.wire.messages import api_versions, describe_configs, fetch, list_offsets, metadata, produce
from tests.fakes import MemoryBroker
from tests.log.support import batch

METADATA = 3
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


def test_a_handler_may_have_codecs_of_its_own(broker: MemoryBroker) -> None:
    dispatch, session = Dispatch(broker.context), broker.session()
    dispatch.serve(frame(0, 9, produce.ProduceRequest(None, 1, 1000, []), produce), session)
    dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), session)
    own, generated = (route.plan.own_steps for route in dispatch.routes.values())
    assert (own.decode, own.encode) == (single_produce.DECODE_REQUEST[9], single_produce.ENCODE_RESPONSE[9])
    assert generated.decode == list_offsets.DECODE_REQUEST[1]


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
    assert list(dispatch.routes) == [API_VERSIONS << 16 | version]


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


def test_a_request_with_too_many_items_closes_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = MemoryBroker({"t": 1}, {"ottla.request.max.items": "1000"})
    dispatch, session = Dispatch(broker.context), broker.session()
    for count in (1000, 1001):
        request = frame(METADATA, 13, metadata.MetadataRequest([metadata.MetadataRequestTopic(name="t")] * count), metadata)
        if count == 1000:
            assert body(dispatch.serve(request, session))
            dispatch.routes[METADATA << 16 | 13].decode = lambda buf, pos: pytest.fail("it is decoded")
            continue
        text = rf"its Metadata v13 of {len(request)} bytes has more than 1000 items \(ottla.request.max.items\)"
        assert broker.context.refused_requests == 0
        with pytest.raises(CloseConnection, match=text):
            dispatch.serve(request, session)
        assert broker.context.refused_requests == 1


def test_a_long_request_that_does_not_decode_closes_as_a_short_one_does(broker: MemoryBroker) -> None:
    request = frame(METADATA, 13, metadata.MetadataRequest([metadata.MetadataRequestTopic(name="t")]), metadata)
    at = request.index(b"\x02" + bytes(16))
    with pytest.raises(CloseConnection, match="Metadata v13 does not decode"):
        Dispatch(broker.context).serve(request[:at] + b"\xff" * 3_000_000, broker.session())


def test_an_answer_that_is_too_long_closes() -> None:
    broker = MemoryBroker({"t": 1}, {"ottla.response.max.bytes": str(1 << 20)})
    dispatch, session = Dispatch(broker.context), broker.session()

    def asked(count: int) -> bytes:
        topic = describe_configs.DescribeConfigsResource(2, "t", None)
        return frame(32, 4, describe_configs.DescribeConfigsRequest([topic] * count), describe_configs)

    text = r"the answer to its DescribeConfigs is longer than 1048576 bytes \(ottla.response.max.bytes\)"
    with pytest.raises(CloseConnection, match=text):
        dispatch.serve(asked(4000), session)
    assert broker.context.long_answers.refused == 1
    assert len(body(dispatch.serve(asked(100), session))) > 100_000
    assert broker.context.long_answers.refused == 1


class Handler:
    """Stands where a handler's module would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, result: Any) -> None:
        self.requests: list[Request] = []
        self.result = result
        real = importlib.import_module

        def fake(name: str) -> Any:
            return (
                SimpleNamespace(handle=self.handle, TRAITS=handler.TRAITS)
                if name.startswith("ottla.server.handlers.")
                else real(name)
            )

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


def test_without_links_a_route_is_the_codecs_and_the_handlers_functions(broker: MemoryBroker) -> None:
    dispatch = Dispatch(broker.context)
    dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), broker.session())
    route = dispatch.routes[2 << 16 | 1]
    assert route.decode is list_offsets.DECODE_REQUEST[1]
    assert route.handle is handler.handle
    assert route.encode is list_offsets.ENCODE_RESPONSE[1]


RESPONSES: dict[int, Any] = {2: list_offsets.ListOffsetsResponse, API_VERSIONS: api_versions.ApiVersionsResponse}


class Refusing:
    """A link that answers in place of the handler."""

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        return steps._replace(handle=lambda body, request: RESPONSES[api.key](throttle_time_ms=7))


def test_links_come_and_go_around_all_routes(broker: MemoryBroker) -> None:
    chain = Chain()
    dispatch = Dispatch(broker.context, chain)

    def throttle_time_ms(version: int) -> int:
        request = frame(2, version, list_offsets.ListOffsetsRequest(), list_offsets)
        return list_offsets.DECODE_RESPONSE[version](body(dispatch.serve(request, broker.session())), 4)[0].throttle_time_ms

    assert throttle_time_ms(2) == 0
    chain.put(Place.QUOTAS, Refusing())
    assert [throttle_time_ms(2), throttle_time_ms(3)] == [7, 7]  # a route that was there, and a new one
    chain.put(Place.QUOTAS, None)
    assert [throttle_time_ms(2), throttle_time_ms(3)] == [0, 0]
    assert dispatch.routes[2 << 16 | 2].handle is handler.handle


def test_a_link_holds_in_every_dispatch_of_the_chain_whichever_was_first(broker: MemoryBroker) -> None:
    chain, request = Chain(), frame(API_VERSIONS, 0, api_versions.ApiVersionsRequest(), api_versions)
    dispatches = [Dispatch(broker.context, chain)]

    def are_linked() -> list[bool]:
        for dispatch in dispatches:
            dispatch.serve(request, broker.session())
        return [dispatch.routes[API_VERSIONS << 16].handle is not answer_api_versions for dispatch in dispatches]

    assert are_linked() == [False]
    chain.put(Place.FAULTS, Refusing())
    dispatches.append(Dispatch(broker.context, chain, CONTROLLER))
    assert are_linked() == [True, True]
    chain.put(Place.FAULTS, None)
    assert are_linked() == [False, False]
    chain.put(Place.QUOTAS, Refusing())
    assert are_linked() == [True, True]


def test_who_waits_is_answered_by_the_route_that_it_began_with(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        promise = asyncio.get_running_loop().create_future()
        Handler(monkeypatch, promise)
        chain = Chain()
        dispatch = Dispatch(broker.context, chain)
        waiting = dispatch.serve(frame(2, 2, list_offsets.ListOffsetsRequest(), list_offsets), broker.session())
        assert isinstance(waiting, Waiting)
        chain.put(Place.QUOTAS, Refusing())
        assert dispatch.routes[2 << 16 | 2] is not waiting.route
        promise.set_result(list_offsets.ListOffsetsResponse(throttle_time_ms=1))
        answer, _ = list_offsets.DECODE_RESPONSE[2](body(waiting.route.finish(promise, waiting)), 4)
        assert answer.throttle_time_ms == 1

    asyncio.run(scenario())


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
