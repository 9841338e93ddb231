"""With metrics on, requests are counted, answers timed, and error codes found in them; without, none of it is there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.dispatch.chain import Chain, Place
from ottla.server.dispatch.measured import RequestMetrics, Ticks
from ottla.server.dispatch.route import Waiting
from ottla.server.dispatch.routes import Dispatch
from ottla.server.handlers import CONTROLLER
from ottla.server.requests.link import Steps
from ottla.server.requests.traits import Traits
from ottla.wire.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.header import API_VERSIONS
from ottla.wire.messages import api_versions, fetch, list_offsets, metadata, produce
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.dispatch.test_routes import Handler, frame


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 1})


def measured(broker: MemoryBroker, ticks: Ticks = lambda: 1) -> tuple[Dispatch, RequestMetrics]:
    """Returns a dispatch whose requests are measured, and what counts them."""
    chain, metrics = Chain(), RequestMetrics(ticks)
    chain.measure(metrics.make_route)
    return Dispatch(broker.context, chain), metrics


def test_answers_are_counted_by_time_and_error(broker: MemoryBroker) -> None:
    now = iter(range(1_000, 9_000_000, 1_000))
    (dispatch, metrics), session = measured(broker, lambda: next(now)), broker.session()
    asked = [list_offsets.ListOffsetsTopic(name, [list_offsets.ListOffsetsPartition(0)]) for name in ("t", "nowhere", "gone")]
    for _ in range(2):
        dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(-1, 0, asked), list_offsets), session)
    route = metrics.counts[2 << 16 | 1]
    assert route.requests == 2
    assert route.errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 4}
    assert {bucket: count for bucket, count in enumerate(route.took) if count} == {10: 2}  # 512..1,023 ns is bucket 10
    assert route.took_ns == 2_000


def test_an_answer_that_is_kept_encoded_is_counted_and_not_looked_through(broker: MemoryBroker) -> None:
    now = iter(range(1_000, 9_000_000, 1_000))
    (dispatch, metrics), session = measured(broker, lambda: next(now)), broker.session()
    answers = [dispatch.serve(frame(3, 5, metadata.MetadataRequest(None), metadata), session) for _ in range(2)]
    assert answers[0] == answers[1]
    route = metrics.counts[3 << 16 | 5]
    assert (route.requests, sum(route.took), route.errors) == (2, 2, {})


def test_a_promise_is_counted_when_it_is_kept(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        now = iter((7, 1_000_007))
        (dispatch, metrics), session = measured(broker, lambda: next(now)), broker.session()
        promise = asyncio.get_running_loop().create_future()
        Handler(monkeypatch, promise)
        waiting = dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), session)
        assert isinstance(waiting, Waiting)
        counts = metrics.counts[2 << 16 | 1]
        assert sum(counts.took) == 0
        promise.set_result(list_offsets.ListOffsetsResponse())
        waiting.route.finish(promise, waiting)
        assert (sum(counts.took), counts.took_ns) == (1, 1_000_000)

    asyncio.run(scenario())


@pytest.mark.parametrize("messages", [produce, fetch])
def test_produce_and_fetch_report_their_errors(broker: MemoryBroker, messages: Any) -> None:
    (dispatch, metrics), session = measured(broker), broker.session()

    def ask(topic: str) -> dict[int, int]:
        request: Any
        if messages is produce:
            data = [produce.PartitionProduceData(0, batch())]
            request = produce.ProduceRequest(None, 1, 0, [produce.TopicProduceData(topic, partition_data=data)])
        else:
            wanted = [fetch.FetchPartition(0, partition_max_bytes=100)]
            request = fetch.FetchRequest(max_bytes=100, topics=[fetch.FetchTopic(topic, partitions=wanted)])
        dispatch.serve(frame(messages.API_KEY, 9, request, messages), session)
        return metrics.counts[messages.API_KEY << 16 | 9].errors

    assert ask("t") == {}
    assert ask("nowhere") == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}
    assert ask("t") == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}


def test_what_closes_the_connection_is_not_timed(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    Handler(monkeypatch, ZeroDivisionError("oh"))
    dispatch, metrics = measured(broker)
    with pytest.raises(CloseConnection):
        dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), broker.session())
    counts = metrics.counts[2 << 16 | 1]
    assert (counts.requests, sum(counts.took), counts.errors) == (1, 0, {})


def test_no_answer_is_timed(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    Handler(monkeypatch, None)
    dispatch, metrics = measured(broker)
    assert dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), broker.session()) is None
    assert (metrics.counts[2 << 16 | 1].requests, sum(metrics.counts[2 << 16 | 1].took)) == (1, 1)


class Passing:
    """A link that does nothing."""

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        return steps


def test_counts_go_on_when_the_routes_are_made_anew(broker: MemoryBroker) -> None:
    chain, metrics = Chain(), RequestMetrics(lambda: 1)
    chain.measure(metrics.make_route)
    dispatch = Dispatch(broker.context, chain)
    for link in (Passing(), None, None):
        dispatch.serve(frame(2, 1, list_offsets.ListOffsetsRequest(), list_offsets), broker.session())
        chain.put(Place.QUOTAS, link)
    assert (metrics.counts[2 << 16 | 1].requests, sum(metrics.counts[2 << 16 | 1].took)) == (3, 3)


def test_measuring_comes_and_goes_on_all_listeners(broker: MemoryBroker) -> None:
    chain, metrics = Chain(), RequestMetrics(lambda: 1)
    clients, administrators = Dispatch(broker.context, chain), Dispatch(broker.context, chain, CONTROLLER)

    def ask() -> int:
        for dispatch in (clients, administrators):
            dispatch.serve(frame(API_VERSIONS, 0, api_versions.ApiVersionsRequest(), api_versions), broker.session())
        counts = metrics.counts.get(API_VERSIONS << 16)
        return counts.requests if counts is not None else 0

    assert ask() == 0
    chain.measure(metrics.make_route)
    assert [ask(), ask()] == [2, 4]
    chain.measure(None)
    assert ask() == 4
