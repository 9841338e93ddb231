"""A muted connection: what was answered goes out, what comes is neither read nor served until its time is over."""

from __future__ import annotations

import asyncio
import random

import pytest

from ottla.server.dispatch.route import Waiting
from ottla.server.network.connection import BACKLOG_FRAMES
from ottla.server.requests.session import Session
from ottla.wire.primitives import Buffer, Parts
from tests.server.network.peer import Peer, framed, turn


def test_nothing_is_read_until_the_time_is_over() -> None:
    peer = Peer()
    peer.send(framed(b"one"))
    peer.connection.mute(1500)
    assert not peer.transport.reading
    peer.broker.clock.advance(1.499)
    assert not peer.transport.reading
    peer.broker.clock.advance(0.001)
    assert peer.transport.reading
    peer.send(framed(b"two"))
    assert peer.received() == [b"one", b"two"]


def test_what_was_read_already_waits() -> None:
    """The request that is over its quota is one of several in a read."""
    peer = Peer()
    echo = peer.dispatch.serve

    def serve(frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
        if bytes(frame) == b"mute":
            peer.connection.mute(100)
        return echo(frame, session)

    peer.connection.serve = serve
    peer.send(b"".join(map(framed, (b"one", b"mute", b"two", b"mute", b"three"))))
    assert peer.received() == [b"one", b"mute"]
    peer.broker.clock.advance(0.1)
    assert peer.received() == [b"one", b"mute", b"two", b"mute"]
    assert not peer.transport.reading
    peer.broker.clock.advance(0.1)
    assert peer.received() == [b"one", b"mute", b"two", b"mute", b"three"]
    assert peer.transport.reading


def test_the_longest_of_several_counts() -> None:
    peer = Peer()
    peer.connection.mute(1000)
    peer.connection.mute(300)
    assert peer.connection.muted_until == 1.0
    peer.broker.clock.advance(0.9)
    assert not peer.transport.reading
    peer.broker.clock.advance(0.1)
    assert peer.transport.reading


def test_a_connection_that_stopped_reading_goes_on_when_both_are_over() -> None:
    peer = Peer()
    peer.connection._resting = True  # a turn is over
    peer.send(b"".join(framed(b"x") for _ in range(BACKLOG_FRAMES + 1)))
    assert not peer.transport.reading
    peer.connection.mute(1000)
    peer.broker.clock.advance(1)
    assert peer.transport.reading
    assert len(peer.received()) == BACKLOG_FRAMES + 1


def test_an_answer_that_comes_meanwhile_goes_out() -> None:
    async def run() -> None:
        peer = Peer()
        peer.send(framed(b"wait 1"))
        peer.send(framed(b"behind"))
        peer.connection.mute(1000)
        peer.dispatch.promises[0].set_result(framed(b"late"))
        await turn()
        assert len(peer.received()) == 1
        assert peer.dispatch.served == [b"wait 1"]
        peer.broker.clock.advance(1)
        assert peer.received()[1:] == [b"behind"]

    asyncio.run(run())


def test_a_connection_may_end_while_it_is_muted() -> None:
    peer = Peer()
    peer.connection.mute(1000)
    peer.connection.close("enough")
    peer.connection.connection_lost(None)
    peer.connection.mute(1000)
    peer.broker.clock.advance(2)
    assert peer.transport.closed


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_when_each_request_is_answered_once_and_in_order(seed: int) -> None:
    """In any pieces, muted at random, also twice; the client waits for room as TCP makes it."""

    async def run() -> None:
        choose = random.Random(seed)
        peer = Peer()
        echo = peer.dispatch.serve

        def serve(frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
            for _ in range(choose.choice((0, 0, 0, 1, 2))):
                peer.connection.mute(choose.randint(1, 900))
            return echo(frame, session)

        peer.connection.serve = serve
        sizes = [choose.choice((4, 300, 3000)) for _ in range(60)]
        requests = [choose.choice((b"", b"wait")) + str(number).encode().ljust(size, b".") for number, size in enumerate(sizes)]
        waiting = b"".join(map(framed, requests))
        while waiting or len(peer.received()) < len(requests):
            size = choose.randint(1, 4000)
            while size and peer.transport.reading and waiting:
                piece = waiting[: min(size, len(peer.connection.get_buffer(-1)))]
                peer.send(piece)
                waiting, size = waiting[len(piece) :], size - len(piece)
            open_ones = [number for number, promise in enumerate(peer.dispatch.promises) if not promise.done()]
            for number in open_ones:
                asked = [request for request in peer.dispatch.served if request.startswith(b"wait")][number]
                peer.dispatch.promises[number].set_result(framed(asked))
            await turn()
            peer.broker.clock.advance(choose.random())
        assert [answer[-len(request) :] for answer, request in zip(peer.received(), requests, strict=True)] == requests

    asyncio.run(run())
