"""Connections: frames out of any chunks, answers in order, bounded memory for those who send or read too much or too little.

The client is peer.py's. What needs a real socket (sendfile, a peer that does not read) is in test_listener.py.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random

import pytest

from ottla.log.disk.files import FileSlice
from ottla.server.base.clock import TURN_NS
from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.dispatch.route import Waiting
from ottla.server.network import connection as module
from ottla.server.network import receive_buffers
from ottla.server.network.connection import (
    BACKLOG_FRAMES,
    HIGH_WATER,
    REQUEST_COST,
    TURN_BYTES,
    Connection,
)
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.primitives import Buffer
from tests.server.network.peer import MAX_REQUEST, NO_BROKER, ROUTE, Peer, framed, turn

# In


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 100, 999, 1000, 10**9])
def test_frames_come_in_any_chunks(chunk: int) -> None:
    sizes = random.Random(chunk)
    requests = [sizes.randbytes(size) for size in (1, 2, 3, 50, 900, 992, 993, 996, 997, 1000, 1001, 5, 20_000, 4)]
    peer = Peer()
    peer.send(b"".join(map(framed, requests)), chunk)
    assert peer.received() == requests


def test_large_frames_are_filled_in_place() -> None:
    peer = Peer()
    requests = [random.Random(1).randbytes(100_000), b"between", random.Random(2).randbytes(60_001), b"after"]
    peer.send(b"".join(map(framed, requests)), 700)
    assert peer.received() == requests


def test_large_frames_share_the_buffers_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_buffers, "KEPT_BYTES", 50_000)
    peer = Peer()
    requests = [random.Random(size).randbytes(size) for size in (40_000, 49_999, 30_000, 26_000)]
    used = set()
    for wanted in requests:
        data = framed(wanted)
        peer.send(data[:20_000])
        assert peer.connection._frame is not None
        used.add(id(peer.connection._frame))
        peer.send(data[20_000:] + framed(b"behind"))
    assert peer.received() == [each for wanted in requests for each in (wanted, b"behind")]
    assert len(used) == 1
    assert [len(buffer) for buffer in peer.buffers._kept] == [50_000]


def test_few_buffers_are_kept_and_a_lost_connection_gives_its_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_buffers, "KEPT_BYTES", 50_000)
    peer = Peer()
    connections = [peer.connect()[0] for _ in range(receive_buffers.KEPT_BUFFERS + 2)]
    for connection in connections:
        peer.connection = connection
        peer.send(framed(bytes(40_000))[:20_000])
    assert peer.buffers._kept == []
    for connection in connections:
        connection.connection_lost(None)
    assert len(peer.buffers._kept) == receive_buffers.KEPT_BUFFERS


def test_a_declared_size_costs_nothing_until_bytes_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_buffers, "KEPT_BYTES", 50_000)
    peer = Peer()
    peer.send(MAX_REQUEST.to_bytes(4, "big") + b"xy")
    assert peer.connection._frame is not None
    assert len(peer.connection._frame) <= receive_buffers.FIRST_BUFFER
    body = random.Random(3).randbytes(MAX_REQUEST - 2)
    held = 2
    while held < len(body) // 2:
        peer.send(body[held - 2 : held + 498])
        held += 500
        assert len(peer.connection._frame) <= max(receive_buffers.FIRST_BUFFER, receive_buffers.GROWTH * held)
    peer.send(body[held - 2 :])
    assert peer.received() == [b"xy" + body]


@pytest.mark.parametrize("size", [0, -1, -(2**31), MAX_REQUEST + 1, 2**31 - 1])
def test_impossible_sizes_close_with_one_line(size: int, caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer()
    with caplog.at_level(logging.INFO):
        peer.send(framed(b"good") + size.to_bytes(4, "big", signed=True) + b"more")
    assert peer.received() == [b"good"]
    assert peer.transport.closed
    (record,) = caplog.records
    assert str(size) in record.message


@pytest.mark.parametrize(
    ("first", "said"),
    [(b"\x16\x03\x01\x02\x00\x01", "TLS"), (b"GET / HTTP/1.1\r\n", "HTTP"), (b"POST / HTTP/1.1\r\n", "HTTP")],
)
def test_another_protocol_is_named_in_the_log(first: bytes, said: str, caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer(max_request_bytes=100 << 20)
    with caplog.at_level(logging.INFO):
        peer.send(first)
    assert peer.transport.closed
    (record,) = caplog.records
    assert record.message.startswith("closed the connection of ")
    assert f": it speaks {said}" in record.message


def test_the_limit_counts_for_frames_that_came_whole() -> None:
    peer = Peer()
    peer.connection.max_request_bytes = 10
    peer.send(framed(b"x" * 11))
    assert peer.transport.closed
    assert peer.dispatch.served == []


def test_what_is_behind_a_bad_request_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer()
    with caplog.at_level(logging.INFO):
        peer.send(framed(b"good") + framed(b"bad") + framed(b"good again"))
    assert peer.received() == [b"good"]
    assert peer.dispatch.served == [b"good", b"bad"]
    assert [record.getMessage() for record in caplog.records] == ["closed the connection of 10.0.0.1:4321 (None): it is bad"]


# Order


def test_all_answers_to_one_read_are_one_write() -> None:
    peer = Peer()
    peer.send(framed(b"a") + framed(b"none") + framed(b"b"))
    assert peer.received() == [b"a", b"b"]
    assert peer.transport.writes == 1


def test_a_waiting_request_holds_back_those_behind_it() -> None:
    async def run() -> None:
        peer = Peer()
        peer.send(framed(b"a") + framed(b"wait 1") + framed(b"b"))
        peer.send(framed(b"wait 2") + framed(b"c" * 2000) + framed(b"d"), 100)
        assert peer.received() == [b"a"]
        assert peer.connection.waiting
        peer.dispatch.promises[0].set_result(b"first")
        await turn()
        assert peer.received() == [b"a", b"\0\0\0\0first", b"b"]
        assert peer.dispatch.served[-1] == b"wait 2"
        peer.dispatch.promises[1].set_result(b"second")
        await turn()
        assert peer.received()[3:] == [b"\0\0\0\0second", b"c" * 2000, b"d"]
        assert not peer.connection.waiting

    asyncio.run(run())


def test_too_many_behind_a_waiting_request_stop_the_reading() -> None:
    async def run() -> None:
        peer = Peer()
        peer.send(framed(b"wait"))
        for _ in range(BACKLOG_FRAMES + 1):
            assert peer.transport.reading
            peer.send(framed(b"x"))
        assert not peer.transport.reading
        peer.dispatch.promises[0].set_result(b"")
        await turn()
        assert peer.transport.reading
        assert peer.dispatch.served.count(b"x") == BACKLOG_FRAMES + 1

    asyncio.run(run())


def test_too_many_bytes_behind_a_waiting_request_stop_the_reading() -> None:
    async def run() -> None:
        peer = Peer()
        peer.send(framed(b"wait") + framed(b"y" * module.BACKLOG_BYTES)[: MAX_REQUEST + 4])
        assert peer.transport.reading
        peer.send(framed(b"z"))
        assert not peer.transport.reading

    asyncio.run(run())


@pytest.mark.parametrize("limits", [{"max_queued_requests": 3}, {"max_queued_bytes": 3 * 100}])
def test_requests_that_wait_are_bounded_over_all_connections(limits: dict[str, int]) -> None:
    async def run() -> None:
        peer = Peer(**limits)
        first, second = peer.connect(), peer.connect()
        for peer.connection, peer.transport in (first, second):
            peer.send(framed(b"wait") + framed(bytes(100)))
        assert [transport.reading for _, transport in (first, second)] == [True, True]
        assert (peer.counts.queued_requests, peer.counts.queued_bytes) == (2, 200)
        peer.send(framed(bytes(100)))
        assert [transport.reading for _, transport in (first, second)] == [True, False]
        peer.dispatch.promises[1].set_result(b"now")
        await turn()
        assert second[1].reading
        assert (peer.counts.queued_requests, peer.counts.queued_bytes) == (1, 100)
        first[0].connection_lost(None)
        assert (peer.counts.queued_requests, peer.counts.queued_bytes) == (0, 0)

    asyncio.run(run())


def test_one_that_is_refused_counts_nowhere_when_it_goes() -> None:
    peer = Peer(max_connections=2)
    there, _ = peer.connect("10.0.0.2")
    refused, transport = peer.connect("10.0.0.2")
    assert transport.aborted
    refused.connection_lost(None)
    assert (peer.counts.connections, peer.counts.from_host) == (2, {"10.0.0.1": 1, "10.0.0.2": 1})
    there.connection_lost(None)
    assert (peer.counts.connections, peer.counts.from_host) == (1, {"10.0.0.1": 1})


def test_who_is_woken_by_a_read_is_looked_at_when_all_of_it_is_served_and_not_yet_answered() -> None:
    peer = Peer()
    seen: list[tuple[int, int]] = []
    peer.broker.context.purgatory.schedule(lambda: seen.append((len(peer.dispatch.served), peer.transport.writes)))
    peer.send(framed(b"one") + framed(b"two"))
    assert seen == [(2, 0)]
    assert peer.transport.writes == 1


def test_a_lost_connection_cancels_what_waits_but_no_task() -> None:
    async def run() -> None:
        peer = Peer()
        peer.send(framed(b"wait"))
        peer.connection.connection_lost(None)
        assert peer.dispatch.promises[0].cancelled()
        connection, transport = peer.connect()
        peer.connection, peer.transport = connection, transport
        peer.send(framed(b"task"))
        await turn()
        connection.connection_lost(ConnectionResetError())
        await turn()
        assert not peer.dispatch.promises[1].cancelled()
        peer.dispatch.promises[1].set_result(b"late")
        await turn()
        assert transport.sent == b""
        assert not peer.listener.connections

    asyncio.run(run())


def test_only_an_unusual_end_of_a_connection_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Clients that go away without a word, as those that were killed do, are no news."""
    with caplog.at_level(logging.INFO):
        for end in (None, ConnectionResetError("reset"), BrokenPipeError("pipe"), TimeoutError("no route")):
            Peer().connection.connection_lost(end)
    assert [record.message for record in caplog.records] == ["lost the connection of 10.0.0.1:4321: no route"]


def test_a_lost_connection_is_freed_without_the_cycle_collector() -> None:
    """It seldom runs here, and 5 kB for every connection that ever was would be there until then."""
    peer = Peer()
    connection, transport = peer.connect("10.0.0.77")
    gc.disable()
    try:
        connection.connection_lost(None)
        transport.protocol = None  # as transports do then
        del connection
        assert not [held for held in gc.get_objects() if type(held) is Connection and held.host == "10.0.0.77"]
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [CloseConnection("on purpose"), ZeroDivisionError("a bug")])
def test_a_request_that_fails_later_closes(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        peer = Peer()
        peer.send(framed(b"wait") + framed(b"behind"))
        with caplog.at_level(logging.INFO):
            peer.dispatch.promises[0].set_exception(error)
            await turn()
        assert peer.transport.closed
        assert peer.dispatch.served == [b"wait"]
        assert sum(record.exc_info is not None for record in caplog.records) == isinstance(error, ZeroDivisionError)

    asyncio.run(run())


# Out


def test_a_peer_that_does_not_read_is_not_worked_for() -> None:
    peer = Peer()
    peer.transport.full = True
    answer = b"r" * 900
    while not peer.connection._paused:
        peer.send(framed(answer))
    served = len(peer.dispatch.served)
    assert len(peer.transport.held) <= HIGH_WATER + 2000
    peer.send(framed(answer) * 10)
    assert len(peer.dispatch.served) == served
    peer.transport.full = False
    peer.transport.drain()
    assert peer.received() == [answer] * (served + 10)


def test_one_read_of_many_requests_is_not_served_to_a_peer_that_does_not_read() -> None:
    """A request of a few bytes can have a long answer, and one read holds thousands of them."""

    async def run() -> None:
        peer = Peer()
        peer.transport.full = True
        peer.dispatch.long[b"all"] = answer = b"r" * TURN_BYTES
        peer.send(framed(b"all") * 50)
        for _ in range(50):
            await peer.round()
            assert len(peer.transport.held) <= len(answer) + 4
            peer.transport.drain()
        assert peer.received() == [answer] * 50

    asyncio.run(run())


def test_one_read_of_many_requests_is_served_in_turns_with_others() -> None:
    async def run() -> None:
        peer = Peer()
        other, transport = peer.connect()
        peer.dispatch.long[b"all"] = answer = b"r" * TURN_BYTES
        peer.send(framed(b"all") * 50)
        peer.send(framed(b"and this"))
        assert len(peer.received()) == 1
        asyncio.get_running_loop().call_soon(other.buffer_updated, peer.shared_holds(framed(b"me too")))
        await peer.round()
        assert transport.sent == framed(b"me too")
        assert len(peer.received()) <= 4
        while len(peer.received()) < 51:
            await peer.round()
        assert peer.received() == [answer] * 50 + [b"and this"]

    asyncio.run(run())


def test_answers_with_small_regions_count_with_what_a_request_costs() -> None:
    async def run() -> None:
        peer = Peer()
        region = 4 + REQUEST_COST
        peer.dispatch.long[b"most"] = b"r" * (TURN_BYTES - region - 3 * region + 1)
        peer.dispatch.slices[b"some"] = FileSlice(peer.broker.disk.open("/data/s", create=True), 0, 0)
        peer.send(framed(b"most") + framed(b"some") * 3 + framed(b"more"))
        assert peer.dispatch.served == [b"most"] + [b"some"] * 3
        await peer.round()
        assert peer.dispatch.served[-1] == b"more"

    asyncio.run(run())


def test_requests_that_take_long_are_served_in_turns_with_others() -> None:
    """Their answers are small or none at all; what counts is the time."""

    async def run() -> None:
        peer = Peer()
        other, transport = peer.connect()
        peer.dispatch.work = lambda request: peer.broker.clock.spend(0.002)
        peer.send(framed(b"none") * 4 + framed(b"slow") * 4)
        assert len(peer.dispatch.served) == 3
        asyncio.get_running_loop().call_soon(other.buffer_updated, peer.shared_holds(framed(b"me too")))
        await peer.round()
        assert transport.sent == framed(b"me too")
        assert peer.dispatch.served.index(b"me too") in (3, 6)
        await peer.round()
        assert peer.received() == [b"slow"] * 4

    asyncio.run(run())


def test_connections_that_wait_for_their_turn_share_one() -> None:
    """Otherwise forty that send requests faster than they are served would keep everybody else waiting for forty turns."""

    async def run() -> None:
        peer = Peer()
        peer.dispatch.work = lambda request: peer.broker.clock.spend(TURN_NS / 4 / 1e9)
        for number in range(10):
            peer.connection, peer.transport = peer.connect(f"10.0.1.{number}")
            peer.send(framed(b"slow") * 12)
        served = [len(peer.dispatch.served)]
        assert served == [5 + 9], "the first has a whole turn, and one request more"
        while served[-1] < 10 * 12:
            await peer.round()
            served.append(len(peer.dispatch.served))
            assert 1 <= served[-1] - served[-2] <= 5
        await peer.round()

    asyncio.run(run())


def test_a_connection_waits_for_one_turn_at_a_time() -> None:
    async def run() -> None:
        peer = Peer()
        peer.dispatch.work = lambda request: peer.broker.clock.spend(TURN_NS / 1e9)
        peer.send(framed(b"slow") * 9)
        assert len(peer.dispatch.served) == 2
        for _ in range(3):
            peer.connection.mute(1)
            peer.broker.clock.spend(0.001)
            peer.connection._unmute()
        assert len(peer.dispatch.served) == 2
        assert len(peer.broker.clock.turns._waiting) == 1

    asyncio.run(run())


def test_what_a_waiting_request_keeps_counts_until_it_is_answered() -> None:
    peer = Peer()
    small, kept = peer.buffers.small_frame, 3 * peer.buffers.small_frame
    promises: list[Promise[bytes]] = []

    def serve(frame: Buffer, session: Session) -> Waiting:
        session.hold(kept, print)
        promises.append(Promise())
        return Waiting(promises[-1], ROUTE, Request(NO_BROKER, session, 3, 0, 0, None))

    peer.connection.serve = serve
    for size, counted in ((4, kept), (small + 1, kept), (2 * kept, 2 * kept)):
        peer.send(framed(bytes(size)))
        assert (peer.memory.held, peer.connection.held_bytes) == (counted, counted)
        promises[-1].set_result(framed(b"done"))
        assert peer.memory.held == 0
    peer.send(framed(b"wait"))
    peer.connection.connection_lost(None)
    peer.connection.session.hold(kept, print)
    assert peer.memory.held == 0


def test_one_request_needs_no_clock() -> None:
    peer = Peer()
    peer.connection._ticks = lambda: 1 // 0
    peer.send(framed(b"one"))
    assert peer.received() == [b"one"]


def test_produce_requests_that_were_read_are_served_after_their_client_has_closed() -> None:
    """A producer that wants no acknowledgements closes right behind its last request."""

    async def run() -> None:
        peer = Peer()
        peer.dispatch.work = lambda request: peer.broker.clock.spend(0.002)
        peer.send(framed(b"none") + framed(b"\0\0none") * 7)
        assert len(peer.dispatch.served) == 3
        assert peer.connection.eof_received()
        assert not peer.transport.closed
        while not peer.transport.closed:
            await peer.round()
        assert len(peer.dispatch.served) == 8

    asyncio.run(run())


def test_a_large_request_that_a_task_carries_out_counts_until_it_is_done_even_if_its_client_has_gone() -> None:
    async def run() -> None:
        peer = Peer()
        large = b"task" + bytes(peer.buffers.small_frame)
        peer.send(framed(large))
        peer.connection.connection_lost(None)
        await turn()
        assert peer.memory.held == len(large)
        peer.dispatch.promises[0].set_result(b"done")
        await turn()
        await turn()
        assert peer.memory.held == 0

    asyncio.run(run())


def test_other_requests_are_not_served_after_their_client_has_closed() -> None:
    async def run() -> None:
        peer = Peer()
        assert not peer.connection.eof_received()
        peer.dispatch.work = lambda request: peer.broker.clock.spend(0.002)
        peer.send(framed(b"slow") * 8)
        assert not peer.connection.eof_received()

    asyncio.run(run())


def test_who_is_gone_before_its_next_turn_is_served_no_more() -> None:
    async def run() -> None:
        peer = Peer()
        peer.dispatch.long[b"all"] = b"r" * TURN_BYTES
        peer.send(framed(b"all") * 3)
        peer.connection.abort()
        peer.connection.connection_lost(None)
        await peer.round()
        assert len(peer.dispatch.served) == 1

    asyncio.run(run())


def test_its_session_knows_who_the_client_is_and_ends_with_it() -> None:
    peer = Peer()
    connection, transport = peer.connect("::ffff:192.168.1.5")
    session: Session = transport.protocol.session
    assert (session.client_host, session.client_port, session.listener) == ("192.168.1.5", 4321, "PLAINTEXT")
    ended: list[Session] = []
    session.on_close(ended.append)
    connection.connection_lost(None)
    assert ended == [session]
