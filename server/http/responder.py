"""Answers HTTP/1.x on the broker's event loop, one request for each connection.

h11 implements the protocol: it parses requests and writes the heads of answers. Our part is the bounds, so that no client
disturbs the broker: on the size of a request's head and body, on the number of connections, on the time that each may take, and
on what is held of answers that nobody takes. So that no idle connections keep a probe away, the oldest one whose request is not
complete gives way to a new one. A connection is closed after its answer, so nothing is pipelined. A page is made in pieces,
between which the loop serves others; one that waits for something is promised.

Errors have the codes that HTTP has for them: 400 for what is not HTTP, 404 for an unknown page, 405 for another method, 408 for a
client that is too slow, 413 for a body that is too long, 431 for a head that is too long, 503 for a connection too many, 505 for
another version.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import h11

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock

logger = logging.getLogger("ottla.server.http")

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_BODY_BYTES: Final = 1024 * 1024
MAX_CONNECTIONS: Final = 32
MAX_UNTAKEN_BYTES: Final = 32 * 1024 * 1024
"""So many bytes of answers wait for their clients, of all connections together."""
REQUEST_SECONDS: Final = 10
"""The time that a client may take to send a whole request."""
ANSWER_SECONDS: Final = 60
"""The time within which the answer must be made and read by the client."""
PLAIN: Final = "text/plain; charset=utf-8"
_FOLDED: Final = re.compile(rb"\n[ \t]")
_ORIGIN: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_FAILED: Final = "the broker failed to make this page; its log says why"
READING: Final = ("GET", "HEAD")
"""The methods of pages that are only read. A body that comes with them is ignored."""


class Page(NamedTuple):
    """Holds an answer, whose pieces are made one by one while the loop runs on.

    Only one long page is made at a time; otherwise every turn of the loop would make as many pieces as there are clients.
    """

    pieces: Iterable[bytes]
    status: int = 200
    content_type: str = PLAIN
    is_long: bool = False
    size: int | None = None
    """The number of bytes that the pieces have together, if they are not to be collected but sent as they are made, no faster
    than the client reads them. If making one fails, the connection ends in the middle."""


class LongPoll:
    """Promises a page to a client that only waits for something. Unlike other promises it is given up when the client sends its
    end: who has gone looks the same as who still reads, and would hold a connection until what is waited for comes."""

    def __init__(self, promise: Awaitable[Page]) -> None:
        self._promise = promise

    def __await__(self) -> Generator[Any, None, Page]:
        return self._promise.__await__()


class Refused(Exception):
    """Refuses a request that no page answers; its text goes to the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Request(NamedTuple):
    """Holds the parts of a request that matter here."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    """The header fields by their names in lower case; of several with the same name, the last."""
    body: bytes = b""


class RequestReader:
    """Finds the one request of a connection in what its client sends, however that is cut into pieces. `methods` are allowed, and
    `admit` raises Refused for a head whose body is not to be read."""

    def __init__(
        self,
        http: h11.Connection,
        methods: Collection[str] = READING,
        admit: Callable[[Request], None] = lambda request: None,
    ) -> None:
        self._http = http
        self._methods = methods
        self._admit = admit
        self._received = bytearray()
        self._request: Request | None = None
        self._body = bytearray()

    def feed(self, data: bytes) -> Request | None:
        """Returns the request once it is complete, and None before. After it has raised Refused nothing more may be fed."""
        try:
            self._http.receive_data(data)
            if self._request is None:
                self._received += data
                self._request = self._take_head()
            return None if self._request is None else self._take_body(self._request)
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                raise _too_long() from None
            raise Refused(HTTPStatus.BAD_REQUEST, "this is not an HTTP request that can be answered here") from None

    def _take_head(self) -> Request | None:
        event = self._http.next_event()
        if not isinstance(event, h11.Request):
            return None
        body, _ = self._http.trailing_data
        head = bytes(self._received[: len(self._received) - len(body)]).rstrip(b"\r\n")
        self._received.clear()
        if len(head) > MAX_HEAD_BYTES:  # h11 limits only a head that is not complete yet
            raise _too_long()
        if _FOLDED.search(head):  # h11 still unfolds folded fields, but RFC 9112 lets a server refuse them
            raise Refused(HTTPStatus.BAD_REQUEST, "a header field is malformed")
        request = _parse(event, self._methods)
        self._admit(request)
        return request

    def _take_body(self, request: Request) -> Request | None:
        """Returns the request once its body is complete. That of a page that is only read is left alone."""
        if request.method in READING:
            return request
        while isinstance(event := self._http.next_event(), h11.Data):
            self._body += event.data
            if len(self._body) > MAX_BODY_BYTES:
                raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have at most {MAX_BODY_BYTES} bytes")
        return request._replace(body=bytes(self._body)) if isinstance(event, h11.EndOfMessage) else None

    @property
    def is_asked_to_continue(self) -> bool:
        """Returns whether the client sends its body only when it is told that it may."""
        return self._request is not None and self._http.they_are_waiting_for_100_continue


def _too_long() -> Refused:
    return Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head of a request may have at most {MAX_HEAD_BYTES} bytes")


def _parse(event: h11.Request, methods: Collection[str]) -> Request:
    """Checks the head of a request and returns what matters of it here. Raises Refused if nothing can answer it."""
    if not event.http_version.startswith(b"1."):
        raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "this server speaks HTTP/1.1")
    if event.http_version != b"1.0" and not any(name == b"host" for name, _ in event.headers):
        raise Refused(HTTPStatus.BAD_REQUEST, "a request needs a Host field")
    method = event.method.decode("ascii")
    if method not in methods:
        *most, last = methods
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"only {', '.join(most)} and {last} are allowed")
    path, _, query = _ORIGIN.sub("", event.target.decode("ascii"), count=1).partition("?")
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}
    return Request(method, path or "/", query, headers)


class HttpServer:
    """Holds the pages by path, each made anew for every request, and the connections of their readers.

    A subclass may answer requests otherwise: `methods` are those that it takes, and `max_connections` are open at once.
    """

    methods: Collection[str] = READING
    max_connections = MAX_CONNECTIONS

    def __init__(self, pages: Mapping[str, Callable[[], Page]], clock: Clock) -> None:
        self.pages = pages
        self.clock = clock
        self.connections: dict[HttpConnection, int] = {}
        """The open connections, the oldest first, with how many bytes of its answer each has not taken."""
        self.long_page = asyncio.Lock()

    def make_room(self) -> bool:
        """Returns whether one more connection may be open, after the oldest that is idle has given way if need be."""
        if len(self.connections) < self.max_connections:
            return True
        idle = next((each for each in self.connections if each.is_idle), None)
        if idle is not None:
            del self.connections[idle]
            idle.give_way()
        return idle is not None

    def hold(self, connection: HttpConnection, size: int) -> None:
        """Notes that `size` bytes wait for a client, and cuts off those who do not take their answers if that is too much, the
        oldest first."""
        if connection in self.connections:
            self.connections[connection] = size
        held = sum(self.connections.values())
        for each, waiting in list(self.connections.items()):
            if held <= MAX_UNTAKEN_BYTES:
                break
            if waiting and each is not connection:
                held -= waiting
                del self.connections[each]
                each.abort()

    def admit(self, request: Request) -> None:
        """Raises Refused for a request whose body is not to be read."""

    def make_page(self, request: Request) -> Page | Awaitable[Page]:
        """Makes the page that answers a request, or promises it. Raises Refused if there is none."""
        page = self.pages.get(request.path)
        if page is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"the pages are {', '.join(self.pages)}")
        return page()

    def make_refusal(self, refused: Refused) -> Page:
        """Makes the page that says why a request is refused."""
        return Page((f"{refused}\n".encode(),), refused.status)

    def abort(self) -> None:
        """Ends all connections at once."""
        for connection in list(self.connections):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    """Serves one client and its only request."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._reader = RequestReader(self._http, server.methods, server.admit)
        self._timer: Cancellable | None = None
        self._task: asyncio.Task[None] | None = None
        self._answered = False
        self._is_polling = False
        self._room = asyncio.Event()
        """Set while the transport takes more bytes."""
        self._room.set()

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.make_room():
            text = f"{self._server.max_connections} connections are open, and no more are taken; close some, then ask again"
            self._refuse(Refused(HTTPStatus.SERVICE_UNAVAILABLE, text))
            return
        self._server.connections[self] = 0
        self._timer = self._server.clock.call_later(REQUEST_SECONDS, self._too_slow)

    def data_received(self, data: bytes) -> None:
        if self._answered or self._task is not None:
            return  # only one request for each connection is served, and what follows it is ignored
        try:
            request = self._reader.feed(data)
        except Refused as refused:
            self._refuse(refused)
        else:
            if request is not None:
                self._ask(request)
            elif self._reader.is_asked_to_continue:
                head = self._http.send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
                self._transport.write(head or b"")

    def eof_received(self) -> bool:
        """Keeps the connection if the client has sent its whole request and may still read its answer; drops it otherwise, and
        also while a LongPoll is not answered."""
        return self._task is not None and (self._answered or not self._is_polling)

    def connection_lost(self, error: Exception | None) -> None:
        self._answered = True
        self._cancel_timer()
        if self._task is not None:
            self._task.cancel()
        self._server.connections.pop(self, None)

    @property
    def is_idle(self) -> bool:
        """Returns whether the client has not sent its whole request."""
        return self._task is None and not self._answered

    def give_way(self) -> None:
        """Ends a connection whose request is not complete, since another client needs it."""
        self._refuse(Refused(HTTPStatus.REQUEST_TIMEOUT, "another client came, and no complete request had come from this one"))

    # Answering

    def _ask(self, request: Request) -> None:
        try:
            page = self._server.make_page(request)
        except Refused as refused:
            self._refuse(refused)
            return
        except Exception:
            logger.exception("could not make the page %s", request.path)
            self._refuse(Refused(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED))
            return
        if isinstance(page, Page):
            self._set_timer(ANSWER_SECONDS, self.abort)
        else:
            self._cancel_timer()  # what is promised comes when it comes
            self._is_polling = isinstance(page, LongPoll)
        self._task = asyncio.ensure_future(self._send(page, head_only=request.method == "HEAD"))

    async def _send(self, promised: Page | Awaitable[Page], *, head_only: bool) -> None:
        try:
            page = promised if isinstance(promised, Page) else await promised
            if page.size is not None:
                await self._stream(page, page.size, head_only=head_only)
                return
            if page.is_long:
                async with self._server.long_page:
                    body = await _body_of(page)
            else:
                body = await _body_of(page)
        except Refused as refused:
            self._refuse(refused)
            return
        except Exception:
            logger.exception("could not make a page")
            self._refuse(Refused(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED))
            return
        if self._timer is None and not self._answered:
            self._set_timer(ANSWER_SECONDS, self.abort)
        self._answer(page.status, page.content_type, body, head_only=head_only)

    async def _stream(self, page: Page, size: int, *, head_only: bool) -> None:
        """Sends a page as it is made. The client has ANSWER_SECONDS for each piece."""
        if self._answered:
            return
        self._transport.write(self._take_head(page.status, page.content_type, size))
        try:
            for piece in () if head_only else page.pieces:
                self._set_timer(ANSWER_SECONDS, self.abort)
                self._transport.write(piece)
                await self._room.wait()
                await asyncio.sleep(0)
        except Exception:
            logger.exception("could not send the whole of a page")
            self.abort()
        else:
            self._transport.close()
        finally:
            if isinstance(page.pieces, Generator):  # a client that has gone reads no more, and the collector would take its time
                page.pieces.close()

    def pause_writing(self) -> None:
        """Is called when the client does not read as fast as it is sent to."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Is called when the client has read."""
        self._room.set()

    def _refuse(self, refused: Refused) -> None:
        self._set_timer(ANSWER_SECONDS, self.abort)
        page = self._server.make_refusal(refused)
        self._answer(page.status, page.content_type, b"".join(page.pieces))

    def _too_slow(self) -> None:
        self._refuse(Refused(HTTPStatus.REQUEST_TIMEOUT, f"no complete request came within {REQUEST_SECONDS} s"))

    def _answer(self, status: int, content_type: str, body: bytes, *, head_only: bool = False) -> None:
        if self._answered:
            return
        head = self._take_head(status, content_type, len(body))
        self._transport.write(head + (b"" if head_only else body))
        if waiting := self._transport.get_write_buffer_size():
            self._server.hold(self, waiting)
        self._transport.close()  # once it is sent

    def _take_head(self, status: int, content_type: str, size: int) -> bytes:
        """Returns the head of the answer, of which there is only one."""
        self._answered = True
        fields = [("Content-Type", content_type), ("Content-Length", str(size))]
        fields += [("Allow", ", ".join(self._server.methods))] if status == HTTPStatus.METHOD_NOT_ALLOWED else []
        fields += [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Connection", "close")]
        answer = h11.Response(status_code=status, headers=fields, reason=HTTPStatus(status).phrase)
        return self._http.send(answer) or b""

    def abort(self) -> None:
        """Closes the connection at once."""
        self._transport.abort()

    def _set_timer(self, seconds: float, action: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._server.clock.call_later(seconds, action)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _body_of(page: Page) -> bytes:
    """Makes the body of a page piece by piece, and lets the broker run after each piece."""
    parts: list[bytes] = []
    for piece in page.pieces:
        parts.append(piece)
        await asyncio.sleep(0)
    return b"".join(parts)
