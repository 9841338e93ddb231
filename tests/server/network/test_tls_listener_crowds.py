"""Many clients at a listener for TLS, on real sockets: nobody's handshake is kept off by the crowd."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.network import tls_listener
from ottla.server.network.handshake_turns import OF_ONE_SOURCE, PATIENCE_S, HandshakeTurns
from tests.server.network.test_listener import LOOPS, ask, hang_up
from tests.server.network.test_tls_listener import Rig, ends, hello, lines, run


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_handshakes_are_limited_and_the_stuck_ones_give_way(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        stuck = [await rig.dial(hello()) for _ in range(OF_ONE_SOURCE)]
        await rig.listener.until(lambda: rig.listener.turns.under_way == OF_ONE_SOURCE)
        welcome = asyncio.ensure_future(rig.connect())
        await rig.listener.until(lambda: rig.listener.turns.waiting == 1 and rig.listener.looks_again)
        assert rig.listener.handshakes == 0
        rig.clock.advance(PATIENCE_S)
        streams = await welcome
        assert await ask(streams, b"hello") == b"hello"
        await rig.listener.until(lambda: rig.listener.turns.under_way == OF_ONE_SOURCE - 1)
        assert rig.listener.failed_handshakes == 1
        await hang_up(streams)
        for each in stuck:
            each.close()
        await rig.listener.until(lambda: rig.counted() == 0)

    run(loop, scenario)
    assert [line for line in lines(caplog) if line.endswith("took longer than 1 s while others waited")]


def test_one_handshake_begins_in_a_turn(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: Rig) -> None:
        turn, begun, begin = 0, list[int](), HandshakeTurns.begin

        async def count() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        def noted(turns: HandshakeTurns[Any], now_s: float) -> Any:
            client = begin(turns, now_s)
            if client is not None:
                begun.append(turn)
            return client

        crowd = [await rig.dial(hello()) for _ in range(OF_ONE_SOURCE + 20)]
        await rig.listener.until(lambda: rig.listener.turns.waiting == 20)
        counting = asyncio.ensure_future(count())
        monkeypatch.setattr(HandshakeTurns, "begin", noted)
        for each in crowd[:OF_ONE_SOURCE]:  # which frees all places at once
            each.close()
        await rig.listener.until(lambda: len(begun) == 20)
        assert len(set(begun)) == 20
        counting.cancel()
        for each in crowd[OF_ONE_SOURCE:]:
            each.close()
        await rig.listener.until(lambda: rig.counted() == 0)

    run(loop, scenario)


def test_one_address_cannot_keep_another_out(loop: str) -> None:
    async def scenario(rig: Rig) -> None:
        crowd = [await rig.dial(hello(), "127.0.0.2") for _ in range(3 * OF_ONE_SOURCE)]
        await rig.listener.until(lambda: rig.listener.turns.waiting == 2 * OF_ONE_SOURCE)
        streams = await rig.connect()  # and the clock stands still
        assert await ask(streams, b"hello") == b"hello"
        assert (rig.listener.turns.under_way, rig.listener.failed_handshakes) == (OF_ONE_SOURCE, 0)
        await hang_up(streams)
        for each in crowd:
            each.close()
        await rig.listener.until(lambda: rig.counted() == 0)
        assert not rig.listener._of_source

    run(loop, scenario)


def test_so_many_wait_for_their_handshakes(loop: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: Rig) -> None:
        crowd = [await rig.dial(host="127.0.0.2") for _ in range(3)]
        await rig.listener.until(lambda: rig.counted() == 3)
        await ends(await rig.dial(host="127.0.0.2"))
        assert (rig.counted(), rig.listener.refused) == (3, 1)
        streams = await rig.connect()
        await hang_up(streams)
        for each in crowd:
            each.close()

    monkeypatch.setattr(tls_listener, "MOST_ARRIVALS", 3)
    run(loop, scenario)
    assert [line for line in lines(caplog) if line.endswith("3 others have not finished their handshakes")]
