"""Requests about thousands of things are decoded in a thread, answered on the loop, and their answers encoded in a thread."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ottla.log.disk.files import FileSlice
from ottla.server.base.clock import TURN_NS
from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Workers
from ottla.server.dispatch import routes
from ottla.server.dispatch.chain import Chain
from ottla.server.dispatch.measured import RequestMetrics
from ottla.server.dispatch.route import Waiting
from ottla.server.dispatch.routes import Dispatch
from ottla.server.handlers.create_topics import TOPICS_AT_ONCE
from ottla.server.requests.admission import MOST
from ottla.server.requests.link import Steps
from ottla.server.requests.request import Request
from ottla.wire.header import encode_request_header
from ottla.wire.messages import create_topics, describe_log_dirs, fetch, list_offsets, metadata, offset_for_leader_epoch, produce
from tests.fakes import MemoryBroker, Threads
from tests.log.support import batch

MANY = routes.ITEMS_AT_ONCE + 1


def frame(messages: Any, version: int, request: Any) -> bytes:
    parts: list[Any] = [encode_request_header(messages.API_KEY, version, 77, "me")]
    messages.ENCODE_REQUEST[version](request, parts)
    return b"".join(parts)


def asked(count: int) -> bytes:
    partitions = [list_offsets.ListOffsetsPartition(index, -1, -1) for index in range(count - 1)]
    return frame(list_offsets, 7, list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic("t", partitions)]))


class Serving:
    """A broker whose threads run when the test says so."""

    def __init__(self, settings: dict[str, str] | None = None, chain: Chain | None = None) -> None:
        self.broker = MemoryBroker({"t": 1}, settings or {})
        self.threads = Threads()
        self.broker.context.existing_workers = Workers(self.threads.run)
        self.dispatch = Dispatch(self.broker.context, chain)

    def serve(self, request: bytes | bytearray) -> Any:
        return self.dispatch.serve(memoryview(request), self.broker.session())

    def end_thread(self) -> None:
        self.threads.end_first()
        for _ in range(100):
            self.broker.clock.advance(0)

    def answer(self, waiting: Any) -> bytes:
        """Ends all threads; returns the frame of the answer."""
        assert isinstance(waiting, Waiting)
        assert isinstance(waiting.answer, Promise)
        self.broker.clock.advance(0)
        while self.threads.jobs:
            self.end_thread()
        found = waiting.route.finish(waiting.answer, waiting)
        return found if isinstance(found, bytes) else b"".join(part if isinstance(part, bytes) else part.read() for part in found)


@pytest.fixture
def serving() -> Serving:
    return Serving()


def test_the_answer_is_the_same(serving: Serving) -> None:
    waiting = serving.serve(asked(MANY))
    assert [len(serving.threads.jobs), waiting.answer.done()] == [1, False]
    serving.end_thread()
    assert [len(serving.threads.jobs), waiting.answer.done()] == [1, False]
    whole = serving.answer(waiting)
    body, _ = list_offsets.DECODE_REQUEST[7](asked(MANY), asked(MANY).index(b"me") + 3)
    request = Request(serving.broker.context, serving.broker.session(), 2, 7, 77, "me")
    assert whole == serving.dispatch.routes[2 << 16 | 7].answer(body, request)
    decoded, end = list_offsets.DECODE_RESPONSE[7](whole, 9)
    assert (end, len(decoded.topics[0].partitions)) == (len(whole), MANY - 1)


class Creating:
    """Says that it creates all topics."""

    async def create_topics(self, body: Any, *_: Any) -> create_topics.CreateTopicsResponse:
        await asyncio.sleep(0)
        return create_topics.CreateTopicsResponse(0, [create_topics.CreatableTopicResult(topic.name) for topic in body.topics])


def test_an_answer_that_is_long_though_the_request_is_not_is_encoded_in_a_thread(serving: Serving) -> None:
    """Each topic that is created is answered with all its settings."""
    serving.broker.context.controller = Creating()  # type: ignore[assignment]  # it has what is asked of it

    async def created(count: int) -> tuple[bool, int]:
        topics = [create_topics.CreatableTopic(f"new-{at}", 1, 1) for at in range(count)]
        waiting: Any = serving.serve(frame(create_topics, 7, create_topics.CreateTopicsRequest(topics, validate_only=True)))
        answer = asyncio.ensure_future(waiting.answer)
        while not (answer.done() or serving.threads.jobs):
            await asyncio.sleep(0)
            serving.broker.clock.advance(0)
        in_thread = not answer.done()
        while serving.threads.jobs:
            serving.end_thread()
        await answer
        whole = waiting.route.finish(answer, waiting)
        decoded, end = create_topics.DECODE_RESPONSE[7](whole, 9)
        assert end == len(whole)
        return in_thread, len(decoded.topics)

    assert asyncio.run(created(TOPICS_AT_ONCE)) == (False, TOPICS_AT_ONCE)
    assert asyncio.run(created(TOPICS_AT_ONCE + 1)) == (True, TOPICS_AT_ONCE + 1)


def test_what_is_counted_only_in_the_thread_has_a_bound_as_well() -> None:
    """There are enough topics to know that the request is long; their partitions make it too long."""
    serving = Serving({"ottla.request.max.items": str(MANY + 1000)})
    one = [list_offsets.ListOffsetsPartition(0, -1, -1)]
    for named in (1000, 1001):
        topics = [list_offsets.ListOffsetsTopic("t", one if at < named else []) for at in range(MANY)]
        waiting = serving.serve(frame(list_offsets, 7, list_offsets.ListOffsetsRequest(-1, 0, topics)))
        if named == 1000:
            assert serving.answer(waiting)
        else:
            assert serving.broker.context.refused_requests == 0
            with pytest.raises(CloseConnection, match=f"has more than {MANY + 1000} items"):
                serving.answer(waiting)
    assert serving.broker.context.refused_requests == 1


def test_few_things_are_decoded_at_once(serving: Serving) -> None:
    assert isinstance(serving.serve(asked(MANY - 1)), bytes)
    assert serving.threads.jobs == []


def test_the_frame_is_copied(serving: Serving) -> None:
    data = [produce.PartitionProduceData(index, batch(2) if index == 0 else None) for index in range(2 * MANY)]
    request = bytearray(
        frame(produce, 9, produce.ProduceRequest(None, -1, 1, [produce.TopicProduceData("t", partition_data=data)]))
    )
    waiting = serving.serve(request)
    request[:] = bytes(len(request))
    answer, _ = produce.DECODE_RESPONSE[9](serving.answer(waiting), 9)
    (topic,) = answer.responses
    assert (topic.partition_responses[0].error_code, len(topic.partition_responses)) == (0, 2 * MANY)
    assert serving.broker.replica().log.log_end_offset == 2


def test_regions_of_files_are_not_read_for_it(serving: Serving) -> None:
    serving.broker.replica().log.append_as_leader(batch(2), leader_epoch=0)
    partitions = [fetch.FetchPartition(index, partition_max_bytes=1000) for index in range(MANY)]
    request = fetch.FetchRequest(None, max_bytes=1 << 20, topics=[fetch.FetchTopic("t", partitions=partitions)])
    waiting = serving.serve(frame(fetch, 12, request))
    serving.end_thread()
    serving.end_thread()
    assert serving.threads.jobs == []
    encoded = waiting.answer.result()
    assert [type(part) for part in encoded.parts] == [bytes, FileSlice, bytes]
    answer, _ = fetch.DECODE_RESPONSE[12](serving.answer(waiting), 9)
    records: Any = answer.responses[0].partitions[0].records
    assert bytes(records).endswith(batch(2)[-20:])
    assert len(answer.responses[0].partitions) == MANY


def test_what_does_not_decode_closes_the_connection(serving: Serving) -> None:
    request = asked(MANY)
    serving.serve(asked(MANY))
    decodes: list[tuple[Callable[[Any, int], Any], str]] = [
        (lambda buf, pos: (None, len(buf) + 3), "its ListOffsets v7 ends 3 bytes after the frame"),
        (lambda buf, pos: bytes(buf)[len(buf)], "its ListOffsets v7 does not decode: IndexError"),
    ]
    for decode, text in decodes:
        route = serving.dispatch.routes[2 << 16 | 7]
        steps = Steps(decode, route.plan.own_steps.handle, route.plan.own_steps.encode)
        serving.dispatch.routes[2 << 16 | 7] = type(route)(route.plan._replace(own_steps=steps), steps)
        waiting = serving.serve(request)
        with pytest.raises(CloseConnection, match=text):
            serving.answer(waiting)


def test_without_threads_it_is_done_here(serving: Serving) -> None:
    def refuse(job: Any, done: Any) -> None:
        raise RuntimeError("can't start new thread")

    usual = serving.answer(serving.serve(asked(MANY)))
    serving.broker.context.existing_workers = Workers(refuse)
    assert serving.answer(serving.serve(asked(MANY))) == usual


def test_a_mistake_of_ours_closes_the_connection_and_is_logged(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    serving.answer(serving.serve(asked(MANY)))
    serving.dispatch.routes[2 << 16 | 7].handle = lambda body, request: 1 // 0
    waiting = serving.serve(asked(MANY))
    with pytest.raises(CloseConnection, match="handling its ListOffsets v7 failed"):
        serving.answer(waiting)
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_who_has_gone_is_not_answered(serving: Serving) -> None:
    waiting = serving.serve(asked(MANY))
    serving.dispatch.routes[2 << 16 | 7].handle = lambda body, request: pytest.fail("it is answered")
    waiting.answer.cancel()
    serving.end_thread()
    assert waiting.answer.cancelled()


def test_a_task_goes_on_without_its_client(serving: Serving) -> None:
    async def scenario() -> None:
        served, done = asyncio.get_running_loop().create_future(), []

        async def handle(body: Any, request: Any) -> None:
            await served
            done.append(True)

        serving.serve(asked(2))
        serving.dispatch.routes[2 << 16 | 7].handle = handle
        waiting = serving.serve(asked(MANY))
        serving.end_thread()
        await asyncio.sleep(0)
        waiting.answer.cancel()
        served.set_result(None)
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == [True]

    asyncio.run(scenario())


def test_an_answer_that_is_given_up_closes_the_connection(serving: Serving) -> None:
    later: Promise[Any] = Promise()
    serving.serve(asked(2))
    serving.dispatch.routes[2 << 16 | 7].handle = lambda body, request: later
    waiting = serving.serve(asked(MANY))
    serving.end_thread()
    later.cancel()
    with pytest.raises(CloseConnection, match="its request was cancelled"):
        serving.answer(waiting)


def test_its_errors_are_counted(serving: Serving) -> None:
    chain = Chain()
    measured = Serving(chain=chain)
    metrics = RequestMetrics(measured.broker.clock.ticks_ns)
    chain.measure(metrics.make_route)
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(f"none-{number}") for number in range(MANY - 1)]
    topics[0].partitions = [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)]
    request = frame(offset_for_leader_epoch, 4, offset_for_leader_epoch.OffsetForLeaderEpochRequest(-2, topics))
    measured.answer(measured.serve(request))
    (counts,) = metrics.counts.values()
    assert (counts.requests, sum(counts.took), counts.errors) == (1, 1, {3: 1})


def test_the_metadata_of_all_topics_is_answered_as_ever(serving: Serving) -> None:
    topics = [metadata.MetadataRequestTopic(name=f"none-{number}") for number in range(MANY)]
    request = frame(metadata, 12, metadata.MetadataRequest(topics, allow_auto_topic_creation=False))
    answer, _ = metadata.DECODE_RESPONSE[12](serving.answer(serving.serve(request)), 9)
    assert len(answer.topics) == MANY


def test_an_answer_that_takes_more_than_a_turn_to_make_is_encoded_in_a_thread(serving: Serving) -> None:
    for number in range(20):
        serving.broker.create_topic(f"t{number}", 100)
    request = frame(describe_log_dirs, 4, describe_log_dirs.DescribeLogDirsRequest(None))
    usual = serving.serve(request)
    assert isinstance(usual, bytes)
    clock: Any = serving.broker.clock
    looks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "ticks_ns", lambda: next(looks) * TURN_NS)
        waiting = serving.serve(request)
        assert isinstance(waiting, Waiting)
        while not serving.threads.jobs:
            assert not waiting.answer.done()  # type: ignore[attr-defined]  # it is a promise
            clock.advance(0)
        assert serving.answer(waiting) == usual


def test_who_goes_while_a_long_answer_is_made_stops_it(serving: Serving) -> None:
    for number in range(20):
        serving.broker.create_topic(f"t{number}", 100)
    clock: Any = serving.broker.clock
    looks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "ticks_ns", lambda: next(looks) * TURN_NS)
        waiting: Any = serving.serve(frame(describe_log_dirs, 4, describe_log_dirs.DescribeLogDirsRequest(None)))
        waiting.answer.cancel()
        for _ in range(100):
            clock.advance(0)
    assert serving.threads.jobs == []


def test_few_requests_are_decoded_at_once_and_the_next_ones_when_these_are_answered_or_gone(serving: Serving) -> None:
    waiting = [serving.serve(asked(MANY)) for _ in range(MOST + 2)]
    for _ in range(MOST):
        serving.broker.clock.advance(0)
    assert len(serving.threads.jobs) == 2  # as many as there are threads
    waiting[0].answer.cancel()
    waiting[1].answer.cancel()
    for each in waiting[2:]:
        answer, _ = list_offsets.DECODE_RESPONSE[7](serving.answer(each), 9)
        assert len(answer.topics[0].partitions) == MANY - 1
    assert serving.broker.context.admission()._inside == {}
