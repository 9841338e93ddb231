"""Tests that what clients make a broker hold is counted over all connections, and bounded, and nobody waits for it for ever."""

from __future__ import annotations

import asyncio
import errno
import logging

import pytest

from ottla.server.base.promise import Promise
from ottla.server.dispatch.route import Waiting
from ottla.server.network.client_memory import PATIENCE_S, TICK_S, ClientMemory
from ottla.server.network.connection import BACKLOG_FRAMES, HIGH_WATER, Connection
from ottla.server.network.receive_buffers import KEPT_BYTES, OwnBuffer, ReceiveBuffers
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.primitives import Buffer
from tests.fakes import FakeTransport
from tests.server.network.peer import NO_BROKER, ROUTE, Peer, framed, turn

FRAME = 100_000
PART = 20_000
BUFFER = 65_536
"""The memory of an unfinished frame when PART bytes of it have come: buffers grow to 4 kB, and then by four."""
LIMIT = 3 * BUFFER + 10_000

Client = tuple[Connection, FakeTransport]


def send(peer: Peer, client: Client, data: bytes) -> None:
    peer.connection, peer.transport = client
    peer.send(data)


def send_what_is_read(peer: Peer, client: Client, data: bytes) -> bytes:
    """Sends until the connection stops reading; returns the rest."""
    peer.connection, peer.transport = client
    while data and client[1].reading and not client[1].closed:
        room = len(client[0].get_buffer(-1))
        peer.send(data[:room])
        data = data[room:]
    return data


def clients(peer: Peer, count: int) -> list[Client]:
    return [peer.connect(f"10.0.1.{number}") for number in range(count)]


def test_without_a_limit_only_the_count_changes() -> None:
    peer = Peer()
    for client in clients(peer, 50):
        send(peer, client, framed(bytes(FRAME))[:PART])
        assert client[1].reading
    assert peer.memory.held == 50 * BUFFER
    assert peer.broker.clock.waiting == 0


def test_unfinished_frames_of_all_connections_together_are_bounded() -> None:
    peer = Peer(LIMIT)
    everybody = clients(peer, 50)
    for client in everybody:
        send_what_is_read(peer, client, framed(bytes(FRAME))[:PART])
    assert [transport.reading for _, transport in everybody[:4]] == [True, True, True, False]
    read_ahead = len(peer.buffers.view)
    assert peer.memory.held <= LIMIT + 50 * read_ahead
    assert peer.memory.held == sum(connection.held_bytes for connection, _ in everybody)
    assert peer.memory.waits == 47
    for connection, _ in everybody:
        connection.connection_lost(None)
    assert peer.memory.held == 0


def test_small_frames_that_are_cut_off_count_as_well() -> None:
    peer = Peer(1000)
    everybody = clients(peer, 20)
    for client in everybody:
        send_what_is_read(peer, client, framed(bytes(200))[:100])
    assert peer.memory.held == 20 * 100, "each was read once, because nobody knows how much comes"
    assert [transport.reading for _, transport in everybody] == [True] * 10 + [False] * 10


def test_honest_clients_take_turns_and_all_are_served() -> None:
    """Frames that fill the memory together before any is whole: each would wait for the others' for ever."""
    peer = Peer(LIMIT, reserve=FRAME)
    everybody = clients(peer, 12)
    left = {client[0]: framed(bytes([number]) * FRAME) for number, client in enumerate(everybody)}
    most = 0
    for _ in range(200):
        for client in everybody:
            if client[1].reading:
                piece, left[client[0]] = left[client[0]][:5000], left[client[0]][5000:]
                left[client[0]] = send_what_is_read(peer, client, piece) + left[client[0]]
            most = max(most, peer.memory.held)
        peer.broker.clock.advance(TICK_S)
        if not any(left.values()):
            break
    assert sorted(peer.dispatch.served) == [bytes([number]) * FRAME for number in range(12)]
    assert most <= LIMIT + FRAME + 12 * 1000
    assert (peer.memory.held, peer.memory.evictions) == (0, 0)
    assert all(transport.reading for _, transport in everybody)
    peer.broker.clock.advance(TICK_S)
    assert peer.broker.clock.waiting == 0
    assert len(peer.buffers.view) == 1000


def test_a_frame_larger_than_the_limit_is_served_if_the_broker_takes_it() -> None:
    peer = Peer(10_000, reserve=FRAME)
    (client,) = clients(peer, 1)
    rest = framed(b"x" * FRAME)
    for _ in range(10):
        rest = send_what_is_read(peer, client, rest)
        peer.broker.clock.advance(TICK_S)
    assert peer.dispatch.served == [b"x" * FRAME]


def test_who_begins_frames_and_falls_silent_is_closed_when_another_needs_the_room(caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer(LIMIT)
    silent = clients(peer, 3)
    for client in silent:
        send(peer, client, framed(bytes(FRAME))[:PART])
    peer.broker.clock.advance(60)
    assert not any(transport.closed for _, transport in silent), "nobody needs it"
    honest = peer.connect("10.0.2.1")
    rest = send_what_is_read(peer, honest, framed(b"y" * FRAME))
    assert rest
    with caplog.at_level(logging.WARNING):
        peer.broker.clock.advance(PATIENCE_S + TICK_S)
    assert sum(transport.aborted for _, transport in silent) == 1
    assert "holds 65536 bytes" in caplog.text
    assert "ottla.client.memory.bytes" in caplog.text
    for _ in range(round(3 * PATIENCE_S / TICK_S)):
        rest = send_what_is_read(peer, honest, rest)
        peer.broker.clock.advance(TICK_S)
    assert peer.dispatch.served == [b"y" * FRAME]
    assert not honest[1].closed


def test_large_frames_leave_room_for_usual_batches() -> None:
    peer = Peer(4 * BUFFER, max_request_bytes=100_000_000)
    for client in clients(peer, 10):
        send_what_is_read(peer, client, framed(bytes(KEPT_BYTES + 1))[:PART])
    assert peer.memory.held > 3 * BUFFER
    usual = peer.connect("10.0.2.1")
    assert send_what_is_read(peer, usual, framed(b"z" * 30_000)) == b""
    assert peer.dispatch.served == [b"z" * 30_000]


def test_beyond_the_limit_and_one_request_they_are_closed_at_once() -> None:
    peer = Peer(1000, reserve=500)
    everybody = clients(peer, 20)
    for client in everybody:
        send(peer, client, framed(bytes(200))[:100])
    assert peer.memory.held > 1500
    peer.broker.clock.advance(0)
    assert peer.memory.held <= 1500
    assert peer.memory.evictions == sum(transport.aborted for _, transport in everybody) == 5


class Fetches:
    """Requests that wait, each of which keeps so many bytes; those that are to be answered early."""

    def __init__(self, peer: Peer, kept: int, *, at_once: bool = False) -> None:
        self._peer = peer
        self._kept = kept
        self._at_once = at_once
        self.early: list[Promise[bytes]] = []

    def wait(self, number: int) -> tuple[Client, Promise[bytes]]:
        client, promise = self._peer.connect(f"10.0.3.{number}"), Promise[bytes]()

        def expire_early() -> None:
            self.early.append(promise)
            if self._at_once:
                promise.set_result(framed(b"early"))

        def serve(frame: Buffer, session: Session) -> Waiting:
            session.hold(self._kept, expire_early)
            return Waiting(promise, ROUTE, Request(NO_BROKER, session, 1, 12, 0, None))

        client[0].serve = serve
        send(self._peer, client, framed(b"fetch"))
        return client, promise


@pytest.mark.parametrize("at_once", [False, True])
def test_the_oldest_fetches_that_wait_are_answered_early_if_there_is_no_room(at_once: bool) -> None:
    peer = Peer(1000, reserve=1000)
    fetches = Fetches(peer, 200, at_once=at_once)
    waiting = [fetches.wait(number) for number in range(5)]
    peer.broker.clock.advance(10 * TICK_S)
    assert fetches.early == [], "there is room for them"
    waiting[1][1].set_result(framed(b"in time"))
    waiting += [fetches.wait(number) for number in range(5, 8)]
    for _ in range(200):
        peer.broker.clock.advance(TICK_S)
    assert fetches.early == [waiting[0][1], waiting[2][1]], "and no more of them while these have not left"
    if not at_once:
        for promise in fetches.early:
            promise.set_result(framed(b"early"))
    assert (peer.memory.held, peer.memory.evictions) == (1000, 0)
    for (connection, _), _ in waiting:
        connection.connection_lost(None)
    assert (peer.memory.held, peer.memory._leaving_bytes, peer.memory._delayed) == (0, 0, {})


@pytest.mark.parametrize("at_once", [False, True])
def test_a_frame_that_needs_the_room_has_fetches_answered_early(at_once: bool) -> None:
    peer = Peer(LIMIT, reserve=FRAME)
    fetches = Fetches(peer, LIMIT // 4, at_once=at_once)
    for number in range(4):
        fetches.wait(number)
    honest = peer.connect("10.0.2.1")
    rest = framed(b"y" * FRAME)
    for _ in range(5):
        rest = send_what_is_read(peer, honest, rest)
        peer.broker.clock.advance(TICK_S)
    assert 1 <= len(fetches.early) <= 3
    for promise in fetches.early[: 0 if at_once else 3]:
        promise.set_result(framed(b"early"))
    for _ in range(5):
        peer.broker.clock.advance(TICK_S)
        rest = send_what_is_read(peer, honest, rest)
    assert peer.dispatch.served == [b"y" * FRAME]
    assert len(fetches.early) <= 3
    assert peer.memory.evictions == 0


def test_a_client_that_goes_or_is_closed_while_it_is_to_be_answered_early_is_forgotten() -> None:
    peer = Peer(500, reserve=100)
    fetches = Fetches(peer, 300)
    (gone, _), (late, _) = fetches.wait(0)[0], fetches.wait(1)[0]
    peer.broker.clock.advance(TICK_S)
    assert len(fetches.early) == 1
    gone.connection_lost(None)
    assert (peer.memory._leaving_bytes, peer.memory.held) == (0, 300)
    fetches.wait(2)
    fetches.wait(3)
    peer.broker.clock.advance(0)
    assert peer.memory.evictions > 0, "beyond the limit and the reserve nobody waits for an answer"
    assert peer.memory.held <= 600
    late.connection_lost(None)
    assert peer.memory._leaving_bytes <= peer.memory.held


def test_frames_behind_a_waiting_one_count_and_stop_the_reading() -> None:
    async def run() -> None:
        peer = Peer(500)
        send(peer, (peer.connection, peer.transport), framed(b"wait") + framed(bytes(200)) + framed(bytes(200)))
        assert peer.memory.held == 400
        assert peer.transport.reading
        send(peer, (peer.connection, peer.transport), framed(bytes(200)))
        assert not peer.transport.reading
        assert BACKLOG_FRAMES > 3
        peer.dispatch.promises[0].set_result(b"now")
        await turn()
        assert peer.memory.held == 0
        assert peer.transport.reading

    asyncio.run(run())


def test_who_holds_a_backlog_for_too_long_is_closed_like_anybody_else() -> None:
    """A request that waits for minutes, and as much behind it as there is room for."""

    async def run() -> None:
        peer = Peer(LIMIT)
        hoarder = peer.connect("10.0.0.9")
        send(peer, hoarder, framed(b"wait") + framed(bytes(LIMIT)))
        assert peer.memory.held == LIMIT
        honest = peer.connect("10.0.2.1")
        rest = send_what_is_read(peer, honest, framed(b"y" * FRAME))
        for _ in range(round(3 * PATIENCE_S / TICK_S)):
            peer.broker.clock.advance(TICK_S)
            rest = send_what_is_read(peer, honest, rest)
        assert hoarder[1].aborted
        assert peer.dispatch.served[-1] == b"y" * FRAME
        hoarder[0].connection_lost(None)
        assert peer.memory.held == 0

    asyncio.run(run())


def test_answers_that_a_client_does_not_read_count_until_it_does() -> None:
    peer = Peer()
    answer = b"a" * (2 * HIGH_WATER)
    peer.dispatch.long[b"long"] = answer
    peer.transport.full = True
    send(peer, (peer.connection, peer.transport), framed(b"long"))
    assert peer.memory.held == len(framed(answer))
    peer.transport.full = False
    peer.transport.drain()
    assert peer.memory.held == 0


def test_who_does_not_read_answers_beyond_the_limit_is_closed() -> None:
    peer = Peer(HIGH_WATER)
    peer.dispatch.long[b"long"] = b"a" * (2 * HIGH_WATER)
    peer.transport.full = True
    send(peer, (peer.connection, peer.transport), framed(b"long"))
    peer.broker.clock.advance(TICK_S)
    assert peer.transport.aborted
    assert peer.memory.held == 0


def test_what_an_evicted_connection_held_is_not_taken_off_twice() -> None:
    peer = Peer(1000)
    client = peer.connect("10.0.0.2")
    send_what_is_read(peer, client, framed(bytes(FRAME))[:PART])
    client[0].evict("for a test")
    client[0].connection_lost(None)
    assert peer.memory.held == 0
    peer.broker.clock.advance(PATIENCE_S * 2)
    assert peer.broker.clock.waiting == 0


def test_a_muted_connection_does_not_read_because_there_is_room() -> None:
    peer = Peer(LIMIT)
    holders = clients(peer, 4)
    for client in holders:
        send_what_is_read(peer, client, framed(bytes(FRAME))[:PART])
    waiting, transport = holders[3]
    waiting.mute(1000)
    holders[0][0].connection_lost(None)
    peer.broker.clock.advance(TICK_S)
    assert not transport.reading
    peer.broker.clock.advance(1)
    assert transport.reading


def test_who_could_go_on_but_gets_no_memory_is_closed_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(LIMIT)
    everybody = clients(peer, 6)
    for client in everybody:
        send_what_is_read(peer, client, framed(bytes(FRAME))[:PART])
    assert [transport.reading for _, transport in everybody] == [True] * 3 + [False] * 3

    grow, refused = ReceiveBuffers.grow, list[int]()

    def refuse_once(buffers: ReceiveBuffers, buffer: OwnBuffer, size: int, received: int) -> OwnBuffer:
        if not refused:
            refused.append(size)
            raise MemoryError
        return grow(buffers, buffer, size, received)

    monkeypatch.setattr(ReceiveBuffers, "grow", refuse_once)
    everybody[0][0].connection_lost(None)
    peer.broker.clock.advance(TICK_S)
    assert refused
    waited = [(transport.closed, transport.reading) for _, transport in everybody[3:]]
    assert waited == [(True, False), (False, True), (False, True)], "one more, with the room of the one that was closed"
    assert peer.memory.evictions == 1
    assert peer.memory.held == sum(connection.held_bytes for connection, _ in everybody[1:])


def test_those_that_wait_are_looked_at_again_whatever_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(LIMIT)
    everybody = clients(peer, 4)
    for client in everybody:
        send_what_is_read(peer, client, framed(bytes(FRAME))[:PART])
    waiting = everybody[3][1]
    assert not waiting.reading

    def fail(*_: object) -> bool:
        raise OSError(errno.EMFILE, "for a test")

    everybody[0][0].connection_lost(None)
    with monkeypatch.context() as broken:
        broken.setattr(ClientMemory, "admits", fail)
        with pytest.raises(OSError, match="for a test"):
            peer.broker.clock.advance(TICK_S)
    assert not waiting.reading
    peer.broker.clock.advance(TICK_S)
    assert waiting.reading
