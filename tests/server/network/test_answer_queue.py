"""server/network/answer_queue.py through a connection: Produce behind Produce that waits for an fsync, answers in order, all else
behind them.
"""

from __future__ import annotations

import asyncio
import gc
import random
from typing import Any

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Acknowledgement, Promise
from ottla.server.dispatch.route import Waiting
from ottla.server.network.answer_queue import MAX_ANSWERS
from ottla.server.network.connection import Connection
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from tests.server.network.peer import NO_BROKER, ROUTE, Peer, framed, turn

PRODUCE = b"\0\0"
OTHER = b"\0\3"


class Promising:
    """Keeps requests for what they say behind their key: `wait` is promised, and only an fsync is waited for; so is `later`,
    and for something else; `bad` closes, `none` has no answer. A promise to a request that says `done` is kept already.
    """

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.promises: dict[bytes, Promise[bytes]] = {}

    def serve(self, frame: memoryview, session: Session) -> Any:
        request = bytes(frame)
        self.served.append(request)
        if b"wait" in request or b"later" in request:
            promise = self.promises[request] = Acknowledgement() if b"wait" in request else Promise()
            if b"done" in request:
                promise.set_result(request[-1:])
            return Waiting(promise, ROUTE, Request(NO_BROKER, session, request[1], 0, 0, None), 0)
        if b"bad" in request:
            raise CloseConnection("it is bad")
        return None if b"none" in request else framed(request)

    def keep(self, *requests: bytes) -> None:
        """The promises come true, each with an answer of its request's last letter."""
        for request in requests:
            self.promises[request].set_result(request[-1:])


A, B, C = PRODUCE + b"wait a", PRODUCE + b"wait b", PRODUCE + b"wait c"


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Peer:
    peer = Peer()
    dispatch = Promising()
    for part in (peer, peer.listener):
        monkeypatch.setattr(part, "dispatch", dispatch)
    peer.connection, peer.transport = peer.connect()
    return peer


def promising(peer: Peer) -> Promising:
    assert isinstance(peer.dispatch, Promising)
    return peer.dispatch


def answers(peer: Peer) -> list[bytes]:
    """Returns what was sent: the answers of `keep` come with a head of eight bytes, immediate ones with their size."""
    sent, found = peer.transport.sent, []
    while sent:
        size = int.from_bytes(sent[:4], "big")
        found.append(sent[4 : 4 + size])
        sent = sent[4 + size :]
    return found


async def scenario(peer: Peer, *frames: bytes) -> None:
    peer.send(b"".join(map(framed, frames)))
    await turn()


def test_what_waits_for_an_fsync_is_served_side_by_side_and_answered_in_order(peer: Peer) -> None:
    async def run() -> None:
        await scenario(peer, A, B, C)
        assert promising(peer).served == [A, B, C]
        promising(peer).keep(C, B)
        await turn()
        assert answers(peer) == []
        promising(peer).keep(A)
        await turn()
        assert [answer[-1:] for answer in answers(peer)] == [b"a", b"b", b"c"]
        assert peer.transport.writes == 1
        assert not peer.connection.waiting

    asyncio.run(run())


def test_a_later_promise_does_not_hold_up_an_earlier_answer(peer: Peer) -> None:
    async def run() -> None:
        await scenario(peer, A, B)
        promising(peer).keep(A)
        await turn()
        assert [answer[-1:] for answer in answers(peer)] == [b"a"]
        await scenario(peer, C)
        promising(peer).keep(B, C)
        await turn()
        assert [answer[-1:] for answer in answers(peer)] == [b"a", b"b", b"c"]

    asyncio.run(run())


def test_a_batch_that_is_not_appended_yet_holds_back_those_behind_it(peer: Peer) -> None:
    async def run() -> None:
        unappended = PRODUCE + b"later l"
        await scenario(peer, A, unappended, B)
        assert promising(peer).served == [A, unappended]
        promising(peer).keep(unappended)
        await turn()
        assert answers(peer) == []
        promising(peer).keep(A)
        await turn()
        assert [answer[-1:] for answer in answers(peer)] == [b"a", b"l"]
        assert promising(peer).served == [A, unappended, B]
        await scenario(peer, unappended, C)
        promising(peer).keep(unappended)
        await scenario(peer, PRODUCE + b"wait d")
        assert promising(peer).served[3:] == [unappended]
        promising(peer).keep(B)
        await turn()
        assert promising(peer).served[3:] == [unappended, C, PRODUCE + b"wait d"]

    asyncio.run(run())


def test_a_promise_that_is_kept_already_is_answered_in_its_turn(peer: Peer) -> None:
    async def run() -> None:
        await scenario(peer, PRODUCE + b"wait done x")
        assert [answer[-1:] for answer in answers(peer)] == [b"x"]
        assert not peer.connection.waiting
        await scenario(peer, A, PRODUCE + b"wait done y")
        assert len(answers(peer)) == 1
        promising(peer).keep(A)
        await turn()
        assert [answer[-1:] for answer in answers(peer)] == [b"x", b"a", b"y"]

    asyncio.run(run())


def test_promises_that_are_kept_already_are_answered_by_the_connection_with_their_turn(peer: Peer) -> None:
    done = OTHER + b"later done z"
    peer.send(b"".join(map(framed, [done, OTHER + b"now", done])))
    assert [answer[-1:] for answer in answers(peer)] == [b"z", b"w", b"z"]
    assert peer.transport.writes == 1
    assert not peer.connection.waiting


def test_kept_promises_of_a_backlog_are_answered_one_after_the_other(peer: Peer) -> None:
    async def run() -> None:
        first = OTHER + b"later q"
        await scenario(peer, first, *[OTHER + b"later done %d" % (number % 10) for number in range(200)])
        assert answers(peer) == []
        promising(peer).keep(first)
        assert [answer[-1:] for answer in answers(peer)] == [b"q", *(b"%d" % (number % 10) for number in range(200))]

    asyncio.run(run())


def test_an_answer_that_is_there_at_once_waits_for_its_turn(peer: Peer) -> None:
    async def run() -> None:
        refused, silent = PRODUCE + b"now", PRODUCE + b"none"
        await scenario(peer, A, silent, refused, B)
        assert answers(peer) == []
        promising(peer).keep(A)
        await turn()
        first, second = answers(peer)
        assert (first[-1:], second) == (b"a", refused)

    asyncio.run(run())


def test_other_requests_wait_until_the_line_is_gone_and_hold_back_those_behind_them(peer: Peer) -> None:
    async def run() -> None:
        behind = PRODUCE + b"behind"
        await scenario(peer, A, OTHER + b"x", behind)
        await scenario(peer, behind)
        assert promising(peer).served == [A]
        promising(peer).keep(A)
        await turn()
        assert promising(peer).served == [A, OTHER + b"x", behind, behind]
        assert answers(peer)[1:] == [OTHER + b"x", behind, behind]

    asyncio.run(run())


def test_a_request_that_closes_does_so_behind_the_answers_before_it(peer: Peer) -> None:
    async def run() -> None:
        bad = PRODUCE + b"bad"
        await scenario(peer, A, bad, B)
        assert promising(peer).served == [A, bad]
        assert not peer.transport.closed
        promising(peer).keep(A)
        await turn()
        assert [answer[-1:] for answer in answers(peer)] == [b"a"]
        assert peer.transport.closed

    asyncio.run(run())


def test_a_line_is_bounded(peer: Peer) -> None:
    async def run() -> None:
        frames = [PRODUCE + b"wait %03d" % number for number in range(MAX_ANSWERS + 10)]
        await scenario(peer, *frames)
        assert promising(peer).served == frames[:MAX_ANSWERS]
        promising(peer).keep(*frames[:MAX_ANSWERS])
        await turn()
        assert promising(peer).served == frames

    asyncio.run(run())


def test_a_lost_connection_gives_up_all_that_stand_in_line(peer: Peer) -> None:
    async def run() -> None:
        await scenario(peer, A, B)
        peer.connection.connection_lost(None)
        assert all(promise.cancelled() for promise in promising(peer).promises.values())

    asyncio.run(run())


def test_a_connection_that_is_lost_with_a_line_is_freed_without_the_cycle_collector(peer: Peer) -> None:
    async def run() -> None:
        connection, transport = peer.connect("10.0.0.78")
        peer.connection, peer.transport = connection, transport
        await scenario(peer, A, B)
        gc.disable()
        try:
            connection.connection_lost(None)
            await turn()
            transport.protocol = peer.connection = None  # type: ignore[assignment]  # as transports do then
            del connection
            assert not [held for held in gc.get_objects() if type(held) is Connection and held.host == "10.0.0.78"]
        finally:
            gc.enable()

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(40))
def test_answers_come_in_order_whatever_else_happens(seed: int, peer: Peer) -> None:
    """Requests of all kinds in any pieces, promises kept in any order, a peer that reads or does not, and an end or none."""

    async def run() -> None:
        choose = random.Random(seed)
        dispatch = promising(peer)
        kinds = [b"wait", b"wait", b"wait", b"now", b"none"]
        sent: list[bytes] = []
        for number in range(choose.choice([20, 200])):
            key = PRODUCE if choose.random() < 0.8 else OTHER
            sent.append(key + choose.choice(kinds if key == PRODUCE else [b"now", b"later"]) + b" %d" % number)
        end = choose.choice([None, None, PRODUCE + b"bad", OTHER + b"bad"])
        if end is not None:
            sent.insert(choose.randrange(len(sent)), end)
        stream = b"".join(map(framed, sent))
        kept: set[bytes] = set()
        while not peer.transport.closed:
            if stream and peer.transport.reading:
                count = choose.choice([1, 7, 100, 5000])
                peer.send(stream[:count])
                stream = stream[count:]
            for request in choose.sample(open_ones := sorted(dispatch.promises.keys() - kept), choose.randint(0, len(open_ones))):
                kept.add(request)
                dispatch.promises[request].set_result(request)
            if choose.random() < 0.3:
                peer.transport.full = not peer.transport.full
                if not peer.transport.full:
                    peer.transport.drain()
            await asyncio.sleep(0)
            if not stream and not open_ones and not peer.transport.full and dispatch.served == sent:
                break
        await turn()
        peer.transport.drain()
        answered = [request for request in sent[: sent.index(end) if end else None] if b"none" not in request]
        assert [answer.removeprefix(bytes(4)) for answer in answers(peer)] == answered
        assert dispatch.served == (sent[: sent.index(end) + 1] if end else sent)
        assert peer.transport.closed == (end is not None)
        assert peer.transport.reading
        assert (peer.counts.queued_requests, peer.counts.queued_bytes) == (0, 0) or end

    asyncio.run(run())


def test_a_promise_that_fails_closes(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        await scenario(peer, A, B)
        promising(peer).promises[A].set_exception(ValueError("broken"))
        await turn()
        assert peer.transport.closed
        assert answers(peer) == []

    asyncio.run(run())
    assert "broken" in caplog.text


def test_a_large_request_counts_as_held_while_its_answer_comes_later(peer: Peer) -> None:
    """Checks that the frame counts while what it asks for is done in turns or in a thread, and much of the frame is still
    needed."""

    async def run() -> None:
        large = OTHER + bytes(peer.buffers.small_frame) + b"later l"
        for end in ("kept", "gone"):
            await scenario(peer, large)
            assert peer.memory.held == peer.connection.held_bytes == len(large), end
            if end == "kept":
                promising(peer).keep(large)
                await turn()
            else:
                peer.connection.connection_lost(None)
            assert peer.memory.held == peer.connection.held_bytes == 0

    asyncio.run(run())


def test_a_small_request_is_not_counted(peer: Peer) -> None:
    async def run() -> None:
        await scenario(peer, OTHER + b"later l")
        assert peer.memory.held == 0

    asyncio.run(run())


@pytest.mark.parametrize("before", [(), (A,)], ids=["alone", "in a queue"])
@pytest.mark.parametrize("gone", [False, True])
def test_what_is_produced_counts_until_it_is_appended_even_if_its_client_has_gone(
    peer: Peer, before: tuple[bytes, ...], gone: bool
) -> None:
    """Otherwise nothing bounds what clients send to be validated in a thread, one connection after the other."""

    async def run() -> None:
        produced = PRODUCE + b"later l"
        await scenario(peer, *before, produced)
        if gone:
            peer.connection.connection_lost(None)
        assert (peer.memory.held, peer.connection.held_bytes) == (len(produced), 0)
        promising(peer).keep(produced)
        assert peer.memory.held == 0
        if not gone:
            promising(peer).keep(*before)
            await turn()
            assert len(answers(peer)) == len(before) + 1

    asyncio.run(run())


def test_closing_connections_ends_where_it_frees_nothing(peer: Peer) -> None:
    peer.memory.limit = peer.memory.reserve = 2

    async def run() -> None:
        await scenario(peer, PRODUCE + b"later l")
        peer.broker.clock.advance(60.0)
        assert (peer.memory.evictions, peer.transport.closed) == (0, False)
        promising(peer).keep(PRODUCE + b"later l")
        peer.broker.clock.advance(1.0)
        assert (peer.memory.held, peer.broker.clock.waiting) == (0, 0)

    asyncio.run(run())
