"""The recorder: what it keeps of requests and answers, for how long, and that it changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.log.disk.files import FileSlice
from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Acknowledgement, Promise
from ottla.server.dispatch.route import Waiting
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.testkit.faults.frames import Frames, joined
from ottla.server.testkit.recording import recording
from ottla.server.testkit.recording.recording import ANSWERED, CLOSED, SILENT, WAITING, Entry
from ottla.wire.messages import create_topics, fetch, list_groups, metadata, produce
from tests.in_loop import in_loop
from tests.log.support import batch
from tests.server.testkit.under_test import UnderTest, frame_of, under_test


def asking(client_id: str = "app") -> bytes:
    return frame_of(metadata, 12, metadata.MetadataRequest([]), client_id, 5)


def producing(acks: int = -1, records: bytes | None = None) -> bytes:
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, records or batch(1))])]
    return frame_of(produce, 9, produce.ProduceRequest(None, acks, 1000, data), "app", 6)


def fetching(max_wait_ms: int = 0, min_bytes: int = 1) -> bytes:
    asked = fetch.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=1 << 20, session_epoch=-1)
    asked.topics = [fetch.FetchTopic("t", partitions=[fetch.FetchPartition(0, partition_max_bytes=1 << 20)])]
    return frame_of(fetch, 12, asked, "app", 7)


class Recording:
    """A broker whose requests are recorded, with a topic `t`."""

    def __init__(self, tested: UnderTest, most: int, records: bool) -> None:
        self.tested = tested
        self.kit = tested.kit
        (self.frames,) = self.kit._frames[:1]
        self.recorder = self.kit.record(most, records=records)
        self.recorder.clear()

    def serve(self, frame: bytes, session: Session | None = None) -> Any:
        return self.frames.serve(memoryview(frame), session or self.tested.session)

    async def send(self, frame: bytes) -> bytes:
        """The frame of the answer."""
        answer = self.serve(frame)
        if isinstance(answer, Waiting):
            promise: Any = answer.answer
            await asyncio.wait_for(asyncio.ensure_future(_until(promise)), 10)
            answer = answer.route.finish(promise, answer)
        return b"" if answer is None else joined(answer)

    def entries(self) -> list[Entry]:
        return list(self.recorder)


async def _until(promise: Promise[Any]) -> None:
    done = asyncio.get_running_loop().create_future()
    promise.add_done_callback(lambda _: done.set_result(None))
    await done


async def recording_of(tested: UnderTest, most: int = 100, *, records: bool = False) -> Recording:
    await tested.ask(create_topics, 7, create_topics.CreateTopicsRequest([create_topics.CreatableTopic("t", 1, 1)]))
    return Recording(tested, most, records)


@in_loop
async def test_a_request_is_kept_as_it_came_and_the_answer_as_it_goes() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        before = tested.context.clock.now_ms()
        answer = kept.serve(asking())
        (entry,) = kept.entries()
        assert entry.frame == asking()
        assert entry.header == (3, 12, 5, "app")
        assert (entry.answer, entry.answer_bytes) == ((answer,), len(answer) - 4)
        assert (entry.seq, entry.node, entry.connection, entry.outcome, entry.fault) == (1, 1, 1, ANSWERED, None)
        assert entry.took_ns > 0
        assert before <= entry.at_ms <= tested.context.clock.now_ms()


@in_loop
async def test_nothing_is_between_while_nothing_is_recorded() -> None:
    async with under_test() as tested:
        frames = tested.kit._frames[0]
        plain = frames._serve
        assert plain == frames._dispatch.serve
        tested.kit.record(5, records=False)
        assert frames._serve != plain
        tested.kit.record(0, records=False)
        assert frames._serve == plain
        later = tested.kit.around(tested.broker, frames._dispatch)
        assert isinstance(later, Frames)
        assert later._serve == plain


@in_loop
async def test_a_listener_that_opens_later_is_recorded() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        later = tested.kit.around(tested.broker, kept.frames._dispatch)
        later.serve(memoryview(asking()), tested.session)
        assert len(kept.entries()) == 1


@in_loop
async def test_the_oldest_are_forgotten() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested, 3)
        for _ in range(5):
            kept.serve(asking())
        assert [entry.seq for entry in kept.entries()] == [3, 4, 5]
        held = kept.recorder.held_bytes
        assert held == sum(entry.held_bytes for entry in kept.entries())
        kept.kit.record(1, records=False)
        assert [entry.seq for entry in kept.entries()] == [5]
        assert kept.recorder.held_bytes == held // 3
        kept.recorder.clear()
        kept.serve(asking())
        assert [entry.seq for entry in kept.entries()] == [6]


@in_loop
async def test_the_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_BYTES", 4000)
    async with under_test() as tested:
        kept = await recording_of(tested)
        for _ in range(50):
            kept.serve(asking())
            assert kept.recorder.held_bytes <= 4000
        assert 2 <= len(kept.entries()) < 8


@in_loop
async def test_an_answer_to_a_forgotten_request_is_not_counted() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested, 1, records=True)
        waiting = kept.serve(fetching(60_000))
        (forgotten,) = kept.entries()
        await kept.send(producing())
        tested.context.purgatory.run_checks()
        assert waiting.answer.done()
        assert forgotten.outcome == ANSWERED
        (last,) = kept.entries()
        assert kept.recorder.held_bytes == last.held_bytes
        assert forgotten.held_bytes == 0


@in_loop
async def test_an_answer_to_a_request_that_was_cleared_away_is_not_counted() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested, records=True)
        waiting = kept.serve(fetching(60_000))
        kept.recorder.clear()
        await kept.send(producing())
        tested.context.purgatory.run_checks()
        assert waiting.answer.done()
        (last,) = kept.entries()
        assert kept.recorder.held_bytes == last.held_bytes


@in_loop
async def test_of_a_long_request_only_the_header_is_kept_unless_records_are() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        long = producing(records=batch(1, value=b"x" * recording.SHORT_FRAME))
        await kept.send(long)
        (entry,) = kept.entries()
        assert (entry.header, entry.frame_bytes, entry.has_body) == ((0, 9, 6, "app"), len(long), False)
        assert len(entry.frame) < 20
        kept.kit.record(10, records=True)
        await kept.send(long)
        assert kept.entries()[-1].frame == long


@pytest.mark.parametrize("records", [False, True])
@in_loop
async def test_records_of_an_answer_are_kept_if_that_is_wanted(records: bool) -> None:
    async with under_test() as tested:
        kept = await recording_of(tested, records=records)
        await kept.send(producing())
        answer = kept.serve(fetching())
        assert any(isinstance(part, FileSlice) for part in answer)
        entry = kept.entries()[-1]
        assert entry.answer is not None
        length = len(batch(1))
        assert (length in entry.answer) is not records
        assert entry.answer_bytes == len(joined(answer)) - 4
        if records:
            assert b"".join(part for part in entry.answer if isinstance(part, bytes)) == joined(answer)


@in_loop
async def test_an_answer_that_comes_later_is_recorded_when_it_comes() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested, records=True)
        waiting = kept.serve(fetching(60_000))
        (entry,) = kept.entries()
        assert entry.outcome == WAITING
        assert entry.request is waiting.request
        plain = await kept.send(producing())
        tested.context.purgatory.run_checks()
        answer = joined(waiting.route.finish(waiting.answer, waiting))
        assert len(answer) > len(batch(1))
        assert entry.answer is not None
        assert b"".join(part for part in entry.answer if isinstance(part, bytes)) == answer
        assert (entry.outcome, entry.request) == (ANSWERED, None)
        assert kept.entries()[-1].answer == (plain,)
        assert not kept.recorder._pending


@in_loop
async def test_who_gives_up_gives_up_the_request_behind_the_recorder() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        waiting = kept.serve(fetching(60_000))
        waiting.answer.cancel()
        (entry,) = kept.entries()
        assert entry.outcome == CLOSED
        assert not kept.recorder._pending
        await kept.send(producing())  # which would answer it


@in_loop
async def test_no_answer_is_no_answer() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        assert await kept.send(producing(acks=0)) == b""
        (entry,) = kept.entries()
        assert (entry.outcome, entry.answer) == (SILENT, None)


@pytest.mark.parametrize("acknowledged", [False, True])
@in_loop
async def test_the_kind_of_a_promise_stays(acknowledged: bool) -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        promise: Promise[Any] = Acknowledgement() if acknowledged else Promise()
        dispatch = kept.frames._dispatch
        dispatch.serve(asking(), tested.session)
        route = dispatch.routes[3 << 16 | 12]
        request = Request(tested.context, tested.session, 3, 12, 9, "app")
        serve = kept.recorder.around(1, lambda: 0, lambda frame, session: Waiting(promise, route, request))
        waiting = serve(asking(), tested.session)
        assert isinstance(waiting, Waiting)
        assert type(waiting.answer) is type(promise)
        promise.set_result(metadata.MetadataResponse())
        assert waiting.route.finish(waiting.answer, waiting) == route.frame(metadata.MetadataResponse(), 9)


@in_loop
async def test_a_request_that_ends_its_connection() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        with pytest.raises(CloseConnection):
            kept.serve(b"\x00\x03\x00\x63" + asking()[4:])
        with pytest.raises(CloseConnection):
            kept.serve(b"\x00\x03")
        assert [entry.outcome for entry in kept.entries()] == [CLOSED]


@in_loop
async def test_connections_are_numbered_in_the_order_of_their_first_requests() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        others = [Session("PLAINTEXT", "127.0.0.1") for _ in range(2)]
        for session in (others[1], others[0], others[1]):
            kept.serve(asking(), session)
        others[1].close()
        kept.serve(asking(), tested.session)
        assert [entry.connection for entry in kept.entries()] == [1, 2, 1, 3]
        assert set(kept.recorder._connections) == {others[0], tested.session}


@in_loop
async def test_the_fault_that_acted_is_noted() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        tested.fault({"api": "Metadata", "client_id": "bad"}, {"error": "REQUEST_TIMED_OUT", "top_level": True})
        tested.fault({"api": "Metadata"}, {"observe": True})
        held = tested.fault({"api": "ListGroups"}, {"hold": True})
        for client_id in ("good", "bad", "good"):
            kept.serve(asking(client_id))
        kept.serve(frame_of(list_groups, 2, list_groups.ListGroupsRequest(), "app"))
        assert [entry.fault for entry in kept.entries()] == [None, "f1", None, held["id"]]
        assert kept.entries()[-1].outcome == WAITING
        tested.call("POST", f"/v1/faults/{held['id']}/release")
        assert kept.entries()[-1].outcome == ANSWERED


@in_loop
async def test_a_fault_that_had_nothing_to_act_on_is_not_noted() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        fault = tested.fault({"api": "Fetch"}, {"corrupt": "crc"})
        await kept.send(fetching())
        await kept.send(producing())
        await kept.send(fetching())
        assert [entry.fault for entry in kept.entries()] == [None, None, fault["id"]]


@in_loop
async def test_a_fault_that_turns_out_later_to_have_had_nothing_to_act_on() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        tested.fault({"api": "Fetch"}, {"corrupt": "crc"})
        waiting = kept.serve(fetching(max_wait_ms=1))
        (entry,) = kept.entries()
        seen = [entry.fault]
        await asyncio.wait_for(_until(waiting.answer), 10)
        assert [*seen, entry.fault] == ["f1", None]
        assert entry.outcome == ANSWERED


@in_loop
async def test_a_request_is_the_one_that_is_served_again_after_one_within_it() -> None:
    async with under_test() as tested:
        kept = await recording_of(tested)
        recorder, request = kept.recorder, Request(tested.context, tested.session, 3, 12, 9, "app")
        inner = recorder.around(1, lambda: 0, lambda frame, session: None)

        def serve(frame: Any, session: Session) -> None:
            inner(frame, session)
            recorder.note_fault(request, "f9")

        recorder.around(1, lambda: 0, serve)(asking(), tested.session)
        recorder.note_fault(request, "f8")  # none is served now
        assert [entry.fault for entry in kept.entries()] == ["f9", None]


@in_loop
async def test_requests_that_are_served_within_another_keep_their_faults() -> None:
    """An append answers other connections, which go on with what they have in their backlog."""
    async with under_test() as tested:
        kept = await recording_of(tested)
        tested.fault({"api": "ListGroups"}, {"error": "NOT_COORDINATOR"}, times=-1)
        other = Session("PLAINTEXT", "127.0.0.1")
        waiting = kept.serve(fetching(60_000), other)
        listing = frame_of(list_groups, 2, list_groups.ListGroupsRequest(), "app")
        waiting.answer.add_done_callback(lambda _: kept.serve(listing, other))
        await kept.send(producing())
        tested.context.purgatory.run_checks()
        by_api = {entry.header.api_key: entry.fault for entry in kept.entries()}
        assert by_api == {1: None, 0: None, 16: "f1"}
