"""Large requests of many connections that come in one round of the loop: they share its time, and small ones do not wait."""

from __future__ import annotations

import asyncio

from ottla.server.base.clock import TURN_NS
from ottla.server.network.connection import LARGE_FRAME, LARGE_PRODUCE
from ottla.server.network.holding import PRODUCE
from tests.server.network.peer import Peer, framed, turn

LARGE = b"l" * (LARGE_FRAME + 1)


def test_large_requests_of_many_that_come_in_one_round_share_its_time() -> None:
    """Otherwise three hundred fetches of a thousand partitions, each a millisecond or two, keep everybody else waiting for half
    a second. What is small goes straight through."""

    async def run() -> None:
        peer = Peer()
        clock, served = peer.broker.clock, peer.dispatch.served
        clock.advance(1)
        peer.dispatch.work = lambda request: clock.spend(TURN_NS / 4 / 1e9 if len(request) > LARGE_FRAME else 0)
        clients = [peer.connect(f"10.0.1.{number}") for number in range(20)]
        for peer.connection, peer.transport in clients:
            peer.send(framed(LARGE))
        assert len(served) == 4
        assert peer.memory.held == 16 * len(LARGE)
        peer.connection, peer.transport = clients[-1]
        peer.send(framed(b"behind"))
        peer.connection, peer.transport = peer.connect("10.0.2.1")
        peer.send(framed(b"small"))
        assert served[4:] == [b"small"]
        assert peer.received() == [b"small"]
        while len(served) < 22:
            before = len(served)
            await peer.round()
            assert 1 <= len(served) - before <= 4 + 1
        assert served[-1] == b"behind"
        assert [transport.sent for _, transport in clients] == [framed(LARGE)] * 19 + [framed(LARGE) + framed(b"behind")]
        assert peer.memory.held == 0

    asyncio.run(run())


def test_large_requests_behind_others_that_are_answered_in_one_round_share_its_time() -> None:
    async def run() -> None:
        peer = Peer()
        clock, served = peer.broker.clock, peer.dispatch.served
        peer.dispatch.work = lambda request: clock.spend(TURN_NS / 4 / 1e9 if len(request) > LARGE_FRAME else 0)
        for number in range(20):
            peer.connection, peer.transport = peer.connect(f"10.0.1.{number}")
            peer.send(framed(b"wait") + framed(LARGE))
        clock.advance(1)
        for promise in peer.dispatch.promises:
            promise.set_result(b"now")
        await turn()
        assert served[20:] == [LARGE] * 4
        while len(served) < 40:
            await peer.round()
        assert peer.transport.sent.endswith(framed(LARGE))

    asyncio.run(run())


def test_a_produce_of_a_usual_batch_waits_for_no_turn() -> None:
    """It takes no milliseconds; it would be copied, and not be written together with its neighbours."""

    async def run() -> None:
        peer = Peer()
        clock, served = peer.broker.clock, peer.dispatch.served
        peer.dispatch.work = lambda request: clock.spend(2 * TURN_NS / 1e9 if request == LARGE else 0)
        usual, larger = PRODUCE + b"p" * (LARGE_PRODUCE - 2), PRODUCE + b"p" * LARGE_PRODUCE
        clock.advance(1)
        for frames in ([b"wait", usual], [b"wait", larger], [LARGE], [usual], [larger], [LARGE]):
            peer.connection, peer.transport = peer.connect("10.0.1.1")
            peer.send(b"".join(map(framed, frames)))
        assert served == [b"wait", b"wait", LARGE, usual]
        for promise in peer.dispatch.promises:
            promise.set_result(b"now")
        await turn()
        assert served[4:] == [usual]

    asyncio.run(run())


def test_a_round_that_is_over_leaves_the_next_its_time() -> None:
    async def run() -> None:
        peer = Peer()
        peer.dispatch.work = lambda request: peer.broker.clock.spend(TURN_NS / 1e9)
        for number in range(1, 10):
            await peer.round()
            peer.send(framed(LARGE))
            assert len(peer.dispatch.served) == number

    asyncio.run(run())


def test_a_small_request_looks_at_no_clock() -> None:
    peer = Peer()
    peer.connection._ticks = lambda: 1 // 0
    peer.send(framed(b"s" * LARGE_FRAME))
    assert peer.received() == [b"s" * LARGE_FRAME]
