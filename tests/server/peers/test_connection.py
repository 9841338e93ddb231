"""One connection: frames in any pieces, answers in order, and everything that is no answer."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.server.peers.call import Call
from ottla.server.peers.connection import BUFFER_BYTES, Connection
from ottla.server.peers.outcomes import Closed, Disconnected, TimedOut
from ottla.wire.header import RequestHeader
from ottla.wire.messages import fetch, metadata
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.fakes import Threads
from tests.server.peers.node import OtherEnd, frame, turns

VERSION = 12
MAX_ANSWER = 1_000_000


class Connected:
    """A connection and the node at its other end. `ends` are the reasons for which it ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.connection = Connection("other:9092", "me", MAX_ANSWER, self.ends.append)
        self.node = OtherEnd(self.connection)
        self.connection.connection_made(self.node)

    def ask(self) -> Call:
        call = Call(MetadataRequest())
        self.connection.send(call, VERSION)
        return call


def run(scenario: Callable[[Connected], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(Connected())

    asyncio.run(main())


def answer(name: str = "c", topics: int = 0) -> MetadataResponse:
    return MetadataResponse(cluster_id=name, topics=[MetadataResponseTopic(name=f"topic-{at:05d}") for at in range(topics)])


def outcome(call: Call) -> Any:
    """Returns what became of a call: the cluster id of its answer, the class of its error, or None."""
    if not call.answer.done():
        return None
    try:
        return call.answer.result().cluster_id
    except Exception as error:  # noqa: BLE001 - it is what is compared
        return type(error)


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 100, 0])
def test_answers_go_to_their_requests_in_order_in_whatever_pieces_they_come(piece: int) -> None:
    async def scenario(rig: Connected) -> None:
        calls = [rig.ask() for _ in range(5)]
        assert [asked.header for asked in rig.node.requests] == [(metadata.API_KEY, VERSION, at, "me") for at in range(5)]
        whole = b"".join(frame(asked.header, answer(f"c{at}", at)) for at, asked in enumerate(rig.node.requests))
        rig.node.send(whole, piece)
        assert [outcome(call) for call in calls] == [f"c{at}" for at in range(5)]
        assert [len(call.answer.result().topics) for call in calls] == [0, 1, 2, 3, 4]
        assert rig.connection.in_flight == 0
        assert not rig.ends

    run(scenario)


@pytest.mark.parametrize("piece", [1_000, 16_384, 70_000, 0])
def test_an_answer_that_is_larger_than_the_buffer_is_read_in_place(piece: int) -> None:
    async def scenario(rig: Connected) -> None:
        calls = [rig.ask() for _ in range(4)]
        headers = [asked.header for asked in rig.node.requests]
        sizes = [3, 6_000, 1_000, 2]
        frames = [frame(header, answer("c", size)) for header, size in zip(headers, sizes, strict=True)]
        assert len(frames[1]) > 8 * BUFFER_BYTES
        rig.node.send(b"".join(frames), piece)
        await calls[3].answer
        assert [len(call.answer.result().topics) for call in calls] == sizes
        assert calls[1].answer.result().topics[-1].name == "topic-05999"

    run(scenario)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_an_answer_that_just_fits_the_buffer_and_one_that_does_not(over: int) -> None:
    async def scenario(rig: Connected) -> None:
        call, after = rig.ask(), rig.ask()
        first, second = (asked.header for asked in rig.node.requests)
        pad = BUFFER_BYTES + over - len(frame(first, answer("")))
        name = "x" * (pad - 1)  # its length takes two bytes, not one
        made = frame(first, answer(name))
        assert len(made) == BUFFER_BYTES + over
        rig.node.send(made + frame(second, answer("b")))
        assert [outcome(call), outcome(after)] == [name, "b"]

    run(scenario)


def test_records_of_an_answer_stay_what_they_are_when_more_is_read() -> None:
    async def scenario(rig: Connected) -> None:
        calls = [Call(fetch.FetchRequest()) for _ in range(5)]
        for call in calls:
            rig.connection.send(call, fetch.MAX_VERSION)
        sent = [bytes([at]) * size for at, size in enumerate((100_000, 10, 100_000, 10, 10))]
        for asked, records in zip(rig.node.requests, sent, strict=True):
            topic = fetch.FetchableTopicResponse(partitions=[fetch.PartitionData(records=records)])
            rig.node.send(frame(asked.header, fetch.FetchResponse(responses=[topic])))
        assert [bytes(call.answer.result().responses[0].partitions[0].records) for call in calls] == sent

    run(scenario)


def held_threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    """Threads that run when the test says so."""
    threads = Threads()
    monkeypatch.setattr("ottla.server.peers.connection.run_in_thread", threads.run)
    return threads


def test_an_answer_about_thousands_of_things_is_decoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    held = held_threads(monkeypatch)

    async def scenario(rig: Connected) -> None:
        calls = [rig.ask() for _ in range(3)]
        headers = [asked.header for asked in rig.node.requests]
        frames = [frame(header, answer("c", size)) for header, size in zip(headers, (3, 6_000, 2), strict=True)]
        rig.node.send(b"".join(frames))
        assert [outcome(call) for call in calls] == ["c", None, None]
        assert (len(held.jobs), rig.node.is_paused, rig.connection.in_flight) == (1, True, 2)
        held.end_first()
        assert [len(call.answer.result().topics) for call in calls] == [3, 6_000, 2]
        assert (held.jobs, rig.node.is_paused, rig.connection.in_flight) == ([], False, 0)
        assert not rig.ends

    run(scenario)


def test_records_are_not_decoded_in_a_thread_however_many_bytes_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    held = held_threads(monkeypatch)

    async def scenario(rig: Connected) -> None:
        rig.connection.send(call := Call(fetch.FetchRequest()), fetch.MAX_VERSION)
        topic = fetch.FetchableTopicResponse(partitions=[fetch.PartitionData(records=bytes(MAX_ANSWER // 2))])
        rig.node.answer(fetch.FetchResponse(responses=[topic]))
        assert call.answer.done()
        assert not held.jobs

    run(scenario)


@pytest.mark.parametrize("ends", ["time out", "close", "nonsense"])
def test_the_connection_ends_while_an_answer_is_decoded(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = held_threads(monkeypatch)

    async def scenario(rig: Connected) -> None:
        calls = [rig.ask(), rig.ask()]
        made = frame(rig.node.requests[0].header, answer("c", 6_000))
        rig.node.send(made[:-1] + b"\7" if ends == "nonsense" else made)
        if ends == "time out":
            rig.connection.time_out(calls[0], TimedOut("too late"))
        elif ends == "close":
            rig.node.close(ConnectionResetError("reset by peer"))
        held.end_first()
        assert [outcome(call) for call in calls] == [TimedOut if ends == "time out" else Disconnected, Disconnected]
        assert len(rig.ends) == 1
        assert not rig.node.open

    run(scenario)


def test_a_system_without_threads_decodes_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(job: object, done: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("ottla.server.peers.connection.run_in_thread", refuse)

    async def scenario(rig: Connected) -> None:
        call = rig.ask()
        rig.node.answer(answer("c", 6_000))
        assert outcome(call) == "c"
        assert not rig.node.is_paused

    run(scenario)


def test_memory_grows_with_what_has_come() -> None:
    async def scenario(rig: Connected) -> None:
        rig.ask()
        rig.node.send(struct.pack(">i", MAX_ANSWER))
        rig.node.send(bytes(BUFFER_BYTES))
        assert rig.connection._large is not None
        assert len(rig.connection._large) <= 4 * BUFFER_BYTES
        assert not rig.ends

    run(scenario)


HEADER = RequestHeader(metadata.API_KEY, VERSION, 0, "me")
BAD = {
    "too large": (struct.pack(">i", MAX_ANSWER + 1), "sent an answer of 1000001 bytes; no more than 1000000 are taken"),
    "negative": (struct.pack(">i", -1), "sent a frame of -1 bytes, which is no answer"),
    "no correlation id": (struct.pack(">ihb", 3, 0, 0), "sent a frame of 3 bytes, which is no answer"),
    "another correlation id": (frame(HEADER, answer(), correlation_id=1), "has the correlation id 1, and 0 is due"),
    "cut short inside": (struct.pack(">iibi", 9, 0, 0, 5), "cannot be read"),
    "with more behind it": (
        struct.pack(">i", len(frame(HEADER, answer())) - 3) + frame(HEADER, answer())[4:] + b"\0",
        "it ends at byte",
    ),
    "nothing but an id": (struct.pack(">ii", 4, 0), "cannot be read"),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_answer_ends_the_connection(bad: str) -> None:
    async def scenario(rig: Connected) -> None:
        calls = [rig.ask(), rig.ask()]
        data, reason = BAD[bad]
        rig.node.send(data + frame(HEADER._replace(correlation_id=1), answer()))
        assert [outcome(call) for call in calls] == [Disconnected, Disconnected]
        with pytest.raises(Disconnected, match=reason):
            calls[0].answer.result()
        assert not rig.node.open
        await turns()
        assert rig.node.gone
        assert len(rig.ends) == 1

    run(scenario)


def test_an_answer_that_nobody_asked_for() -> None:
    async def scenario(rig: Connected) -> None:
        call = rig.ask()
        rig.node.answer(answer())
        rig.node.send(frame(HEADER, answer()))
        assert outcome(call) == "c"
        assert rig.ends == ["other:9092 sent an answer that nobody asked for"]

    run(scenario)


@pytest.mark.parametrize("error", [None, ConnectionResetError("reset by peer")])
@pytest.mark.parametrize("half", [b"", b"\0\0", struct.pack(">ii", 90_000, 0) + bytes(50_000)])
def test_the_other_side_ends_it_also_in_the_middle_of_an_answer(half: bytes, error: Exception | None) -> None:
    async def scenario(rig: Connected) -> None:
        calls = [rig.ask(), rig.ask()]
        rig.node.send(half)
        rig.node.close(error)
        assert [outcome(call) for call in calls] == [Disconnected, Disconnected]
        assert rig.ends == [
            "other:9092 closed the connection" if error is None else "the connection to other:9092 broke: reset by peer"
        ]
        await rig.connection.wait_until_gone()

    run(scenario)


def test_a_request_whose_time_is_over_takes_the_others_along() -> None:
    async def scenario(rig: Connected) -> None:
        calls = [rig.ask() for _ in range(3)]
        rig.connection.time_out(calls[1], TimedOut("too late"))
        assert [outcome(call) for call in calls] == [Disconnected, TimedOut, Disconnected]
        assert not rig.node.open
        assert rig.ends == ["too late"]

    run(scenario)


def test_what_comes_after_the_end_is_ignored_and_nothing_is_sent() -> None:
    async def scenario(rig: Connected) -> None:
        call = rig.ask()
        rig.connection.end("done", Closed)
        rig.connection.end("again")
        rig.connection.get_buffer(-1)[:4] = b"\0\0\0\1"
        rig.connection.buffer_updated(4)
        late = rig.ask()
        assert [outcome(call), outcome(late)] == [Closed, Disconnected]
        assert rig.ends == ["done"]
        await rig.connection.wait_until_gone()

    run(scenario)


def test_an_end_while_the_connection_is_being_made() -> None:
    async def main() -> None:
        connection = Connection("other:9092", "me", MAX_ANSWER, lambda reason: None)
        await connection.wait_until_gone()
        connection.end("given up")
        node = OtherEnd(connection)
        connection.connection_made(node)
        assert not node.open
        await connection.wait_until_gone()

    asyncio.run(main())


def test_one_who_no_longer_waits_leaves_the_order_as_it_is() -> None:
    async def scenario(rig: Connected) -> None:
        first, second = rig.ask(), rig.ask()
        first.answer.cancel()
        rig.node.answer(answer("a"))
        rig.node.answer(answer("b"))
        assert outcome(second) == "b"

    run(scenario)


def test_the_end_is_known_before_a_request_fails() -> None:
    async def main() -> None:
        order: list[str] = []
        connection = Connection("other:9092", "me", MAX_ANSWER, lambda reason: order.append("end"))
        connection.connection_made(OtherEnd(connection))
        call = Call(MetadataRequest())
        connection.send(call, VERSION)
        call.answer.add_done_callback(lambda done: order.append("failed"))
        connection.end("over")
        assert order == ["end", "failed"]

    asyncio.run(main())
