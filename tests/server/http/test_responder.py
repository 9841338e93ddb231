"""The responder: what it takes, what it refuses, and that nobody holds it up."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Iterator
from typing import cast

import h11
import pytest

from ottla.server.http.responder import (
    ANSWER_SECONDS,
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    MAX_UNTAKEN_BYTES,
    REQUEST_SECONDS,
    HttpConnection,
    HttpServer,
    LongPoll,
    Page,
    Refused,
    Request,
    RequestReader,
)
from tests.fakes import FakeTransport, ManualClock


def failing() -> Iterator[bytes]:
    yield b"so far"
    raise ZeroDivisionError("oh")


def broken() -> Page:
    raise ZeroDivisionError("oh")


def server() -> HttpServer:
    pages = {
        "/p": lambda: Page((b"one ", b"two")),
        "/bad": lambda: Page((b"no\n",), 503),
        "/broken": broken,
        "/failing": lambda: Page(failing()),
    }
    return HttpServer(pages, ManualClock())


def connect(http: HttpServer) -> tuple[HttpConnection, FakeTransport]:
    connection, transport = HttpConnection(http), FakeTransport()
    transport.protocol = connection
    connection.connection_made(transport)
    return connection, transport


def ask(request: bytes, http: HttpServer | None = None, *, step: int = 1 << 20) -> bytes:
    """Asks, and returns what the client gets, which is closed then."""

    async def scenario() -> bytes:
        connection, transport = connect(http or server())
        for at in range(0, len(request), step):
            connection.data_received(request[at : at + step])
        for _ in range(10):
            await asyncio.sleep(0)
        assert transport.closed
        connection.connection_lost(None)
        return transport.sent

    return asyncio.run(scenario())


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


GET = b"GET /p HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_page(step: int) -> None:
    answer = ask(GET, step=step)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
    assert b"Content-Length: 7\r\n" in head
    assert b"Connection: close" in head
    assert body == b"one two"


def test_head_is_the_same_without_the_body() -> None:
    assert ask(GET.replace(b"GET", b"HEAD")) == ask(GET).removesuffix(b"one two")


def test_a_page_with_a_status_of_its_own() -> None:
    answer = ask(GET.replace(b"/p", b"/bad"))
    assert (status(answer), answer.endswith(b"\r\n\r\nno\n")) == (503, True)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /p?name[]=x HTTP/1.1\r\nhOsT:x\r\n\r\n",
        b"GET /p HTTP/1.0\r\n\r\n",
        b"GET /p HTTP/1.1\nHost: x\n\n",
        b"GET http://h:1/p HTTP/1.1\r\nHost: h\r\nAccept: text/plain;q=0.5\r\nX-Name: \xff\r\n\r\n",
        GET + b"GET /nothing HTTP/1.1\r\n\r\n",
        b"GET /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
def test_what_is_taken(request_: bytes) -> None:
    answer = ask(request_)
    assert status(answer) == 200
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /p\r\n\r\n", 400),
        (b"GET  /p HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /p HTTP/1.1\r\n\r\n", 400),
        (b"GET /p HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET /p HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
        (b"GET /p HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"GET /p HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\n\n", 400),  # TLS
        (b"\x00\x00\x00\x10\x00\x12\x00\x00\n\n", 400),  # Kafka
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /p/ HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /../p HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405),
        (b"get /p HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"GET /p HTTP/1.1\r\nHost: x\r\nA: " + b"a" * MAX_HEAD_BYTES, 431),
        (b"GET /p HTTP/1.1\r\nHost: x\r\nA: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
        (b"GET /p HTTP/1.2\r\n\r\n", 400),
        (b"G" * (MAX_HEAD_BYTES + 1), 431),
    ],
)
def test_what_is_refused(request_: bytes, code: int) -> None:
    answer = ask(request_)
    assert status(answer) == code
    assert (b"Allow: GET, HEAD\r\n" in answer) == (code == 405)


def test_a_head_of_just_the_bound_is_taken() -> None:
    begin = b"GET /p HTTP/1.1\r\nHost: x\r\nA: "
    assert status(ask(begin + b"a" * (MAX_HEAD_BYTES - len(begin)) + b"\r\n\r\n")) == 200


@pytest.mark.parametrize("path", [b"/broken", b"/failing"])
def test_a_page_that_fails_is_logged_and_a_500(path: bytes, caplog: pytest.LogCaptureFixture) -> None:
    answer = ask(GET.replace(b"/p", path))
    assert status(answer) == 500
    assert b"oh" not in answer
    (record,) = caplog.records
    assert record.exc_info is not None


def test_a_slow_request_is_answered_408_and_closed() -> None:
    http = server()
    clock = http.clock
    assert isinstance(clock, ManualClock)
    connection, transport = connect(http)
    connection.data_received(GET[:-1])
    clock.advance(REQUEST_SECONDS - 0.001)
    assert not transport.closed
    clock.advance(0.001)
    assert transport.closed
    assert status(transport.sent) == 408
    connection.data_received(GET[-1:])  # too late
    assert transport.sent.count(b"HTTP") == 1
    connection.connection_lost(None)
    assert clock.waiting == 0


def test_who_does_not_take_the_answer_is_cut_off() -> None:
    async def scenario() -> None:
        http = server()
        clock = http.clock
        assert isinstance(clock, ManualClock)
        connection, transport = connect(http)
        connection.data_received(GET)
        for _ in range(5):
            await asyncio.sleep(0)
        assert transport.closed
        assert not transport.aborted
        clock.advance(ANSWER_SECONDS)
        assert transport.aborted
        connection.connection_lost(None)
        assert clock.waiting == 0

    asyncio.run(scenario())


def test_the_broker_has_its_turn_between_two_pieces() -> None:
    seen = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"a", b"b", b"c"):
            seen.append(piece)
            asyncio.get_running_loop().call_soon(seen.append, b"broker")
            yield piece

    ask(GET, HttpServer({"/p": lambda: Page(pieces())}, ManualClock()))
    assert seen == [b"a", b"broker", b"b", b"broker", b"c", b"broker"]


def test_of_long_pages_one_is_made_at_a_time() -> None:
    made: list[str] = []

    def pieces(name: str) -> Iterator[bytes]:
        for part in "12":
            made.append(f"{name}{part}")
            yield part.encode()

    async def scenario() -> None:
        names = iter("abcd")
        pages = {
            "/long": lambda: Page(pieces(next(names)), is_long=True),
            "/short": lambda: Page(pieces("short")),
        }
        http = HttpServer(pages, ManualClock())
        asked = [connect(http) for _ in range(4)]
        for connection, _ in asked[:3]:
            connection.data_received(GET.replace(b"/p", b"/long"))
        asked[3][0].data_received(GET.replace(b"/p", b"/short"))
        await asyncio.sleep(0)
        asked[1][0].connection_lost(None)  # it goes while it waits
        for _ in range(10):
            await asyncio.sleep(0)
        assert [name for name in made if not name.startswith("short")] == ["a1", "a2", "c1", "c2"]
        assert made.index("short1") < made.index("c1")
        assert all(transport.sent.endswith(b"12") for _, transport in (asked[0], asked[2], asked[3]))

    asyncio.run(scenario())


def test_a_page_that_is_sent_as_it_is_made_waits_for_its_reader() -> None:
    made = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"a", b"b", b"c", b"d"):
            made.append(piece)
            yield piece

    async def scenario() -> None:
        http = HttpServer({"/p": lambda: Page(pieces(), size=4)}, ManualClock())
        connection, transport = connect(http)
        transport.full = True
        connection.data_received(GET)
        for _ in range(20):
            await asyncio.sleep(0)
        assert made == [b"a"]  # the first did not fit
        assert transport.held.endswith(b"\r\n\r\na")
        assert b"Content-Length: 4\r\n" in transport.held
        transport.drain()
        for _ in range(20):
            await asyncio.sleep(0)
        assert made == [b"a", b"b"]
        transport.full = False
        transport.drain()
        for _ in range(20):
            await asyncio.sleep(0)
        assert transport.sent.endswith(b"\r\n\r\nabcd")
        assert transport.closed

    asyncio.run(scenario())


def test_who_goes_in_the_middle_of_a_page_leaves_nothing_of_it_to_the_collector() -> None:
    ended = []

    def pieces() -> Iterator[bytes]:
        try:
            yield b"a"
            yield b"b"
        finally:
            ended.append(True)

    async def scenario() -> None:
        connection, transport = connect(HttpServer({"/p": lambda: Page(pieces(), size=2)}, ManualClock()))
        transport.full = True
        connection.data_received(GET)
        for _ in range(5):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        for _ in range(5):
            await asyncio.sleep(0)
        assert ended == [True]

    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


def test_a_page_that_fails_while_it_is_sent_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"a"
        raise OSError("a file is shorter than it was")

    async def scenario() -> None:
        connection, transport = connect(HttpServer({"/p": lambda: Page(pieces(), size=4)}, ManualClock()))
        connection.data_received(GET)
        for _ in range(10):
            await asyncio.sleep(0)
        assert transport.aborted

    asyncio.run(scenario())
    assert "could not send the whole of a page" in caplog.text


def test_head_of_a_page_that_is_sent_as_it_is_made_makes_nothing() -> None:
    http = HttpServer({"/p": lambda: Page(failing(), size=4)}, ManualClock())
    answer = ask(GET.replace(b"GET", b"HEAD"), http)
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 4\r\n" in answer


def test_who_goes_while_a_page_is_made_ends_the_making() -> None:
    made = []

    def endless() -> Iterator[bytes]:
        while True:
            made.append(1)
            yield b"more"

    async def scenario() -> None:
        http = HttpServer({"/p": lambda: Page(endless())}, ManualClock())
        connection, transport = connect(http)
        connection.data_received(GET)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert connection.eof_received()  # it may still read
        connection.connection_lost(None)
        await asyncio.sleep(0)
        so_far = len(made)
        await asyncio.sleep(0)
        assert 0 < len(made) == so_far
        assert not transport.sent
        assert not http.connections

    asyncio.run(scenario())


def test_who_goes_while_a_long_poll_waits_gives_it_up() -> None:
    class Polled(HttpServer):
        def make_page(self, request: Request) -> Page | Awaitable[Page]:
            return LongPoll(self.promise()) if request.path == "/poll" else self.promise()

        async def promise(self) -> Page:
            await go_on.wait()
            return Page((b"found",))

    async def scenario() -> None:
        http = Polled({}, ManualClock())
        gone, _ = connect(http)
        gone.data_received(GET.replace(b"/p", b"/poll"))
        staying, transport = connect(http)
        staying.data_received(GET.replace(b"/p", b"/poll"))
        half_closed, _ = connect(http)
        half_closed.data_received(GET)
        await asyncio.sleep(0)
        assert not gone.eof_received()  # the transport drops it
        gone.connection_lost(None)
        assert half_closed.eof_received()  # no long poll
        assert set(http.connections) == {staying, half_closed}
        go_on.set()
        for _ in range(10):
            await asyncio.sleep(0)
        assert transport.sent.endswith(b"\r\n\r\nfound")
        assert staying.eof_received()  # it may still read

    go_on = asyncio.Event()
    asyncio.run(scenario())


def test_who_goes_before_the_request_is_whole_is_gone() -> None:
    connection, _ = connect(server())
    connection.data_received(GET[:-2])
    assert not connection.eof_received()


def test_an_idle_connection_gives_way_the_oldest_first() -> None:
    async def scenario() -> None:
        http = server()
        there = [connect(http) for _ in range(MAX_CONNECTIONS)]
        there[0][0].data_received(GET)  # it is answered when the loop comes to it
        there[1][0].data_received(GET[:-1])
        probe, transport = connect(http)
        assert status(there[1][1].sent) == 408
        assert [each.closed for _, each in there] == [False, True, *[False] * (MAX_CONNECTIONS - 2)]
        assert len(http.connections) == MAX_CONNECTIONS
        probe.data_received(GET)
        there[1][0].connection_lost(None)
        for _ in range(10):
            await asyncio.sleep(0)
        assert [status(each.sent) for each in (transport, there[0][1])] == [200, 200]
        http.abort()

    asyncio.run(scenario())


def test_there_is_a_bound_on_connections() -> None:
    async def scenario() -> None:
        http = HttpServer({"/p": lambda: cast(Page, asyncio.get_running_loop().create_future())}, ManualClock())
        there = [connect(http) for _ in range(MAX_CONNECTIONS)]
        for connection, _ in there:
            connection.data_received(GET)
        late, transport = connect(http)
        assert transport.closed
        assert status(transport.sent) == 503
        assert transport.sent.endswith(b"\r\n\r\n32 connections are open, and no more are taken; close some, then ask again\n")
        late.data_received(GET)
        late.connection_lost(None)
        assert transport.sent.count(b"HTTP") == 1
        assert len(http.connections) == MAX_CONNECTIONS
        there[0][0].connection_lost(None)
        assert not connect(http)[1].closed
        http.abort()
        assert all(transport.aborted for _, transport in there[1:])

    asyncio.run(scenario())


def test_answers_that_nobody_takes_are_held_up_to_a_bound() -> None:
    async def scenario() -> None:
        http = HttpServer({"/p": lambda: Page((bytes(MAX_UNTAKEN_BYTES // 3),))}, ManualClock())
        there = []
        for _ in range(4):
            connection, transport = connect(http)
            there.append((connection, transport))
            transport.full = True
            connection.data_received(GET)
            for _ in range(5):
                await asyncio.sleep(0)
        assert [transport.aborted for _, transport in there] == [True, True, False, False]
        assert sum(http.connections.values()) <= MAX_UNTAKEN_BYTES
        there[3][0].connection_lost(None)
        assert len(http.connections) == 1
        http.abort()

    asyncio.run(scenario())


def test_the_body_of_who_is_not_admitted_is_not_read() -> None:
    class Closed(HttpServer):
        methods = ("GET", "POST")

        def admit(self, request: Request) -> None:
            raise Refused(401, "who are you")

    http = Closed({}, ManualClock())
    connection, transport = connect(http)
    connection.data_received(b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
    assert (status(transport.sent), transport.closed) == (401, True)


def test_no_bytes_make_the_reader_fail() -> None:
    whole = b"GET http://h/p?q HTTP/1.1\r\nHost: x\r\nA: b"
    for at in range(len(whole)):
        for byte in (0, 10, 13, 32, 47, 58, 127, 255):
            with contextlib.suppress(Refused):
                RequestReader(h11.Connection(h11.SERVER)).feed(whole[:at] + bytes([byte]) + whole[at + 1 :] + b"\r\n\r\n")
