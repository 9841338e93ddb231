"""A client over a limit gets a throttle time with its answer, and its connection is muted for as long. All of that is gone with
the last limit.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.handlers import produce as produce_handler
from ottla.server.handlers import share_fetch
from ottla.server.metadata.operation import NO_LIMIT, Caller, Permits, Refused
from ottla.server.requests.kept_answers import KeptAnswers
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.fetch import MAX_VERSION as FETCH_MAX
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.share_fetch import PartitionData, ShareFetchableTopicResponse, ShareFetchRequest, ShareFetchResponse
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.log.support import batch
from tests.server.handlers.data_calls import fetch_request, produce_request
from tests.server.quotas.limited import LimitedBroker


@pytest.fixture
def broker() -> LimitedBroker:
    return LimitedBroker({"t": 1})


def produced(size: int, acks: int = -1) -> ProduceRequest:
    return produce_request("t", {0: batch(value=b"x" * size)}, acks=acks)


def fetched(broker: LimitedBroker, version: int = 12, **fields: Any) -> tuple[int, int, int]:
    """(throttle time, bytes of records, session id)."""
    answer = broker.serve(fetch_request("t", {0: 0}, version, **fields), version)
    sizes = [len(data.records or b"") for topic in answer.responses for data in topic.partitions]
    return answer.throttle_time_ms, sum(sizes), answer.session_id


# Produce


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_producer_over_its_rate_is_throttled_and_muted(broker: LimitedBroker, version: int) -> None:
    broker.limit(producer_byte_rate=100.0)
    first = broker.serve(produced(800), version)
    assert (first.throttle_time_ms, broker.client.muted) == (0, [])
    second = broker.serve(produced(800), version)
    assert second.responses[0].partition_responses[0].error_code == 0
    over = 2 * broker.frame_bytes - 1000  # of 10 s at 100 a second, in hundredths of a second
    assert second.throttle_time_ms == pytest.approx(over * 10, abs=1)
    assert broker.client.muted == [second.throttle_time_ms]


def test_who_has_no_limit_is_not_measured(broker: LimitedBroker) -> None:
    broker.limit(("client-id", "other"), producer_byte_rate=1.0)
    assert broker.serve(produced(900), 9).throttle_time_ms == 0
    assert broker.quotas.produce.shares == {}


def test_a_produce_that_nobody_waits_for_mutes(broker: LimitedBroker) -> None:
    """Its time counts against nobody."""
    broker.limit(producer_byte_rate=10.0, request_percentage=0.1)
    broker.step_ns = 10**9
    assert broker.serve(produced(900, acks=0), 9) is None
    assert broker.client.muted == [(broker.frame_bytes - 100) * 100]
    assert broker.quotas.request.shares == {}


@pytest.mark.parametrize("ended", ["kept", "failed", "cancelled"])
def test_a_produce_that_nobody_waits_for_mutes_when_it_is_appended(
    broker: LimitedBroker, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    promise: Promise[None] = Promise()
    monkeypatch.setattr(produce_handler, "handle", lambda body, request: promise)
    broker.limit(producer_byte_rate=10.0)
    broker.serve(produced(900, acks=0), 9)
    assert broker.client.muted == []
    {"kept": lambda: promise.set_result(None), "cancelled": promise.cancel}.get(
        ended, lambda: promise.set_exception(CloseConnection("because"))
    )()
    assert broker.client.muted == ([(broker.frame_bytes - 100) * 100] if ended == "kept" else [])


def test_an_answer_that_waits_for_a_flush_has_its_throttle_time_then(broker: LimitedBroker) -> None:
    broker.create_topic("durable", 1, flush_messages="1")
    broker.limit(producer_byte_rate=1.0)
    answer = broker.serve(produce_request("durable", {0: batch(value=b"x" * 500)}), 9)
    assert broker.client.muted == []
    broker.clock.advance()
    assert broker.client.muted == [answer().throttle_time_ms]
    assert broker.client.muted[0] > 0


def test_several_connections_of_a_client_share_its_limit(broker: LimitedBroker) -> None:
    broker.limit(("user", None), producer_byte_rate=100.0)
    assert broker.serve(produced(800), 9, client_id="one").throttle_time_ms == 0
    assert broker.serve(produced(800), 9, client_id="two").throttle_time_ms > 0
    assert broker.serve(produced(800), 9, client_id="two", user="alice").throttle_time_ms == 0


# Fetch


@pytest.mark.parametrize("version", range(4, FETCH_MAX + 1))
def test_a_fetch_over_the_rate_is_empty_and_counts_nothing(broker: LimitedBroker, version: int) -> None:
    broker.serve(produced(800), 9)
    broker.limit(consumer_byte_rate=100.0)
    throttle_time_ms, size, _ = fetched(broker, version)
    assert (throttle_time_ms, size > 800) == (0, True)
    throttle_time_ms, size, _ = fetched(broker, version)
    assert (throttle_time_ms > 5000, size) == (True, 0)
    assert fetched(broker, version) == (throttle_time_ms, 0, 0)
    assert broker.client.muted == [throttle_time_ms] * 2
    broker.clock.advance(11)
    assert fetched(broker, version)[:2] == (0, size or len(batch(value=b"x" * 800)))


def test_more_than_the_limit_ever_allows_is_not_read(broker: LimitedBroker) -> None:
    """With the header of the answer it is too much, though, and after that little wait it is not."""
    for _ in range(3):
        broker.serve(produced(400), 9)
    broker.limit(consumer_byte_rate=80.0)
    wait_ms, size, _ = fetched(broker)
    assert (wait_ms < 1500, size) == (True, 0)
    broker.clock.advance(wait_ms / 1000)
    assert fetched(broker) == (0, 800, 0)


def test_a_session_stays_as_it_was(broker: LimitedBroker) -> None:
    broker.serve(produced(800), 9)
    begun = broker.serve(fetch_request("t", {0: 0}, session=(0, 0)), 12)
    assert begun.session_id > 0
    broker.serve(produced(800), 9)
    broker.limit(consumer_byte_rate=1.0)
    going_on = FetchRequest(max_wait_ms=0, max_bytes=10**6, min_bytes=1, session_id=begun.session_id, session_epoch=1)
    held_back = broker.serve(going_on, 12)
    assert (held_back.session_id, held_back.error_code, held_back.responses) == (begun.session_id, 0, [])
    assert held_back.throttle_time_ms > 0
    broker.limit()
    going_on.session_epoch = 2
    answer = broker.serve(going_on, 12)
    assert [len(data.records) > 800 for topic in answer.responses for data in topic.partitions] == [True]


@pytest.mark.parametrize(("version", "around"), [(7, 4), (12, 5)])
def test_an_answer_counts_as_it_is_sent(broker: LimitedBroker, version: int, around: int) -> None:
    """Without its size and, in flexible versions, the tags of its header. What a session leaves out does not count."""
    broker.serve(produced(800), 9)
    broker.limit(consumer_byte_rate=1e6)
    sent = 0
    session_id = 0
    for session_epoch in range(3):
        topics = fetch_request("t", {0: 0}).topics if session_epoch == 0 else []
        if session_epoch == 1:
            topics = fetch_request("t", {0: 1}).topics
        request = FetchRequest(max_bytes=10**6, session_id=session_id, session_epoch=session_epoch, topics=topics)
        session_id = broker.serve(request, version).session_id
        sent += broker.answer_bytes - around
    (rate,) = broker.quotas.fetch.shares.values()
    assert rate.per_second(0) * 10 == sent < 1100


def test_a_follower_is_no_client(broker: LimitedBroker) -> None:
    broker.limit(consumer_byte_rate=1.0, request_percentage=1.0)
    broker.step_ns = 10**9
    answer = broker.serve(fetch_request("t", {0: 0}, replica_id=5), 12)
    assert (answer.throttle_time_ms, len(answer.responses), broker.client.muted) == (0, 1, [])


def test_no_session_begins_with_an_answer_that_is_held_back(broker: LimitedBroker) -> None:
    broker.serve(produced(800), 9)
    broker.limit(consumer_byte_rate=1.0)
    answer = broker.serve(fetch_request("t", {0: 0}, session=(0, 0)), 12)
    assert (answer.session_id, answer.throttle_time_ms > 0) == (0, True)
    assert len(broker.context.fetch_sessions) == 0


def test_a_parked_fetch_is_limited_when_its_records_come(broker: LimitedBroker) -> None:
    broker.limit(consumer_byte_rate=1.0)
    answer = broker.serve(fetch_request("t", {0: 0}, max_wait_ms=500), 12)
    broker.serve(produced(800), 9, client_id="somebody")
    broker.clock.advance()
    throttled = answer()
    assert (throttled.responses, throttled.throttle_time_ms) == ([], broker.client.muted[0])


def test_bytes_held_back_are_not_bytes_sent(broker: LimitedBroker) -> None:
    broker.serve(produced(800), 9)
    broker.limit(consumer_byte_rate=1.0)
    fetched(broker)
    assert broker.replicas.traffic["t"].bytes_out == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_share_fetch_gets_what_is_acquired_for_it_and_waits_then(
    broker: LimitedBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def handle(request: ShareFetchRequest, ctx: object) -> ShareFetchResponse:
        asked.append(request.max_bytes)
        topic = ShareFetchableTopicResponse(bytes(16), [PartitionData(0, records=b"x" * 1500)])
        return ShareFetchResponse(responses=[topic])

    monkeypatch.setattr(share_fetch, "handle", handle)
    broker.limit(consumer_byte_rate=100.0)
    answer = broker.serve(ShareFetchRequest("g", "m", 0, max_bytes=10**6), version)
    assert asked == [1000]
    assert len(answer.responses[0].partitions[0].records) == 1500
    assert 5000 < answer.throttle_time_ms < 7000
    assert broker.client.muted == [answer.throttle_time_ms]


def test_a_share_fetch_of_a_client_without_a_limit_does_not_wait(broker: LimitedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = ShareFetchableTopicResponse(bytes(16), [PartitionData(0, records=b"x" * 1500)])
    monkeypatch.setattr(share_fetch, "handle", lambda body, request: ShareFetchResponse(responses=[topic]))
    broker.limit(("client-id", "other"), consumer_byte_rate=1.0)
    answer = broker.serve(ShareFetchRequest("g", "m", 0, max_bytes=10**6), 2)
    assert (answer.throttle_time_ms, broker.client.muted) == (0, [])


@pytest.mark.parametrize("kept_before", [True, False])
def test_a_promised_answer_is_charged_once_whenever_its_promise_is_kept(
    broker: LimitedBroker, monkeypatch: pytest.MonkeyPatch, *, kept_before: bool
) -> None:
    topic = ShareFetchableTopicResponse(bytes(16), [PartitionData(0, records=b"x" * 1500)])
    promise: Promise[ShareFetchResponse] = Promise()
    if kept_before:
        promise.set_result(ShareFetchResponse(responses=[topic]))
    monkeypatch.setattr(share_fetch, "handle", lambda body, request: promise)
    broker.limit(consumer_byte_rate=100.0)
    read = broker.serve(ShareFetchRequest("g", "m", 0, max_bytes=10**6), 2)
    if not kept_before:
        assert broker.client.muted == []
        promise.set_result(ShareFetchResponse(responses=[topic]))
    answer = read()
    assert 5000 < answer.throttle_time_ms < 7000
    assert broker.client.muted == [answer.throttle_time_ms]


# Time


@pytest.mark.parametrize("version", range(5))
def test_a_client_that_takes_too_much_time_waits_one_window_at_most(broker: LimitedBroker, version: int) -> None:
    broker.limit(request_percentage=10.0)
    broker.step_ns = 10**8  # a request takes 10 % of a second
    waits = [broker.serve(ApiVersionsRequest("me", "1"), version).throttle_time_ms for _ in range(13)]
    assert broker.client.muted == [1000, 1000, 1000]
    assert waits == ([0] * 10 + [1000] * 3 if version > 0 else [0] * 13)


def test_a_fetch_of_a_client_that_takes_too_much_time_is_empty(broker: LimitedBroker) -> None:
    broker.serve(produced(800), 9)
    broker.limit(request_percentage=1.0)
    broker.step_ns = 10**9
    assert fetched(broker) == (1000, 0, 0)
    assert broker.client.muted == [1000]


def test_the_time_of_a_parked_fetch_counts_once(broker: LimitedBroker) -> None:
    broker.limit(request_percentage=1.0)
    broker.step_ns = 10**8
    answer = broker.serve(fetch_request("t", {0: 0}, max_wait_ms=500), 12)
    ((rate),) = broker.quotas.request.shares.values()
    assert rate.per_second(0) == 1.0  # 10 % in 10 s
    broker.clock.advance(0.5)
    assert answer().throttle_time_ms == 0
    assert rate.per_second(500) == pytest.approx(10 / 10.5)


def test_the_longer_wait_counts(broker: LimitedBroker) -> None:
    broker.limit(producer_byte_rate=10.0, request_percentage=1.0)
    broker.step_ns = 10**9
    assert broker.serve(produced(200), 9).throttle_time_ms == (broker.frame_bytes - 100) * 100 > 1000
    broker.limit(producer_byte_rate=1e9, request_percentage=1.0)
    assert broker.serve(produced(200), 9).throttle_time_ms == 1000


def test_what_only_brokers_send_counts_against_nobody(broker: LimitedBroker) -> None:
    broker.limit(request_percentage=1.0)
    broker.step_ns = 10**9
    broker.serve(WriteTxnMarkersRequest([]), 1)
    assert broker.client.muted == []


@pytest.mark.parametrize(("version", "told"), [(2, 0), (3, 1000), (13, 1000)])
def test_the_throttle_time_goes_into_one_copy_of_a_kept_answer(broker: LimitedBroker, version: int, told: int) -> None:
    broker.context.kept_answers = KeptAnswers()
    before = broker.serve(MetadataRequest(None), version)
    broker.limit(request_percentage=1.0)
    broker.step_ns = 10**9
    answer = broker.serve(MetadataRequest(None), version)
    assert answer.throttle_time_ms == told
    assert broker.client.muted == [1000]
    broker.limit()
    assert broker.serve(MetadataRequest(None), version) == before
    answer.throttle_time_ms = 0
    assert answer == before


# Changes


def test_changes_are_taken_from_a_bucket(broker: LimitedBroker) -> None:
    request = broker.request(7)
    request.client_id = "c"
    assert request.permits(6) is NO_LIMIT
    broker.limit(controller_mutation_rate=2.0)
    strict = request.permits(6)
    strict.take(25)  # of 20, as one topic
    assert strict.throttle_time_ms == 0
    with pytest.raises(Refused) as refused:
        strict.take(1)
    assert (refused.value.code, refused.value.message) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
    assert strict.throttle_time_ms == 2500
    broker.clock.advance(2.5)
    strict = request.permits(6)
    strict.take(1)
    assert strict.throttle_time_ms == 0


def test_older_versions_are_let_through_with_a_throttle_time(broker: LimitedBroker) -> None:
    request = broker.request(5)
    request.client_id = "c"
    broker.limit(controller_mutation_rate=2.0)
    permits = request.permits(6)
    permits.take(19)
    assert permits.throttle_time_ms == 0
    permits.take(3)
    assert permits.throttle_time_ms == 1000
    permits.take(2)
    assert permits.throttle_time_ms == 2000


def test_what_is_given_back_can_be_taken_again(broker: LimitedBroker) -> None:
    broker.limit(controller_mutation_rate=2.0)
    for version in (5, 7):
        request = broker.request(version)
        request.client_id = f"c{version}"
        permits = request.permits(6)
        permits.take(25)
        permits.give_back(25)
        assert permits.throttle_time_ms == 0
        permits.take(20)
        assert permits.throttle_time_ms == 0, "of 20"


@pytest.mark.parametrize(("version", "code"), [(5, 0), (6, 89)])
def test_the_longer_of_a_handlers_wait_and_that_for_its_time_is_answered(broker: LimitedBroker, version: int, code: int) -> None:
    """The handler is a coroutine; the longer of both waits is answered."""

    async def create_topics(request: CreateTopicsRequest, caller: Caller, permits: Permits) -> CreateTopicsResponse:
        try:
            permits.take(30)
        except Refused as refused:
            return CreateTopicsResponse(topics=[CreatableTopicResult("t", error_code=refused.code)])
        return CreateTopicsResponse(topics=[CreatableTopicResult("t")])

    context: Any = broker.context
    context.controller = SimpleNamespace(create_topics=create_topics)
    broker.limit(controller_mutation_rate=1.0)
    request = CreateTopicsRequest([CreatableTopic("t", 30, 1)])
    first, second = (broker.serve(request, version) for _ in range(2))
    assert [answer.topics[0].error_code for answer in (first, second)] == [0, code]
    assert [answer.throttle_time_ms for answer in (first, second)] == ([20_000, 50_000] if code == 0 else [0, 20_000])
    assert broker.client.muted == [wait for wait in (first.throttle_time_ms, second.throttle_time_ms) if wait]
    broker.limit(controller_mutation_rate=1e9, request_percentage=1.0)
    broker.step_ns = 10**9
    assert broker.serve(request, version).throttle_time_ms == 1000


# With and without


def test_without_limits_routes_are_their_own(broker: LimitedBroker) -> None:
    broker.serve(produced(1), 9)
    number, route = next(iter(broker.dispatch.routes.items()))
    own = route.decode, route.handle, route.encode

    def steps() -> tuple[Any, Any, Any]:
        now = broker.dispatch.routes[number]
        return now.decode, now.handle, now.encode

    broker.limit(producer_byte_rate=1.0)
    limited = steps()
    assert limited[0] is not own[0]
    assert limited[1] is not own[1]
    assert broker.context.quotas is broker.quotas
    broker.limit()
    assert steps() == own
    assert broker.context.quotas is None
    broker.limit(("ip", None), connection_creation_rate=1.0)
    assert steps() == own


def test_what_was_used_up_counts_when_a_limit_comes_back(broker: LimitedBroker) -> None:
    broker.limit(producer_byte_rate=1e6)
    broker.serve(produced(900), 9)
    broker.limit(producer_byte_rate=1.0)
    assert broker.serve(produced(1), 9).throttle_time_ms > 800_000


def test_a_request_that_closes_the_connection_leaves_nothing_behind(broker: LimitedBroker) -> None:
    broker.limit(request_percentage=1.0)
    broker.step_ns = 10**9
    with pytest.raises(CloseConnection):
        broker.serve(produce_request("nope", {0: batch()}, acks=0), 9)
    assert broker.quotas._took_ns() == 0
    assert broker.quotas.request.shares == {}


def test_what_is_used_is_shown(broker: LimitedBroker) -> None:
    broker.limit(("user", None), producer_byte_rate=100.0)
    assert broker.quotas.used("producer_byte_rate") == []
    broker.serve(produced(500), 9)
    assert broker.quotas.used("producer_byte_rate") == [(("ANONYMOUS", ""), broker.frame_bytes / 10)]
    assert broker.quotas.used("consumer_byte_rate") == []
    broker.limit(("user", None), controller_mutation_rate=2.0)
    assert broker.quotas.used("producer_byte_rate") == []
    broker.request(7).permits(6).take(5)
    assert broker.quotas.used("controller_mutation_rate") == [(("ANONYMOUS", ""), 15.0)]
