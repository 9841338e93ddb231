"""Answers HTTP/1.x on the broker's event loop, as simply as three pages allow: GET and HEAD, one request for each connection.

h11 implements the protocol: it parses the head of a request and writes that of an answer. Our part is the bounds, so that no
client disturbs the broker: on the size of a request's head, on the number of connections, and on the time that each may take. A
connection is closed after its answer, so nothing is pipelined. A page is made in pieces, between which the loop serves others.

Errors have the codes that HTTP has for them: 400 for what is not HTTP, 404 for an unknown page, 405 for another method, 408 for a
client that is too slow, 431 for a head that is too long, 505 for another version.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import h11

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock

logger = logging.getLogger("ottla.server.metrics")

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 32
REQUEST_SECONDS: Final = 10
"""How long a client may take to send a whole request."""
ANSWER_SECONDS: Final = 60
"""How long the answer may take to be made and to be read by the client."""
PLAIN: Final = "text/plain; charset=utf-8"
_FOLDED: Final = re.compile(rb"\n[ \t]")
_ORIGIN: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_FAILED: Final = "the broker failed to make this page; its log says why"


class Page(NamedTuple):
    """Holds an answer, whose pieces are made one by one while the loop runs on.

    Only one long page is made at a time; otherwise every turn of the loop would make as many pieces as there are clients.
    """

    pieces: Iterable[bytes]
    status: int = 200
    content_type: str = PLAIN
    is_long: bool = False


class Refused(Exception):
    """Refuses a request that no page answers; its text goes to the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Request(NamedTuple):
    """Holds the parts of a request that matter here."""

    head_only: bool
    path: str


class RequestReader:
    """Finds the one request of a connection in what its client sends, however that is cut into pieces."""

    def __init__(self, http: h11.Connection) -> None:
        self._http = http
        self._received = bytearray()

    def feed(self, data: bytes) -> Request | None:
        """Returns the request once its head is complete, and None before. After it has raised Refused nothing more may be fed."""
        self._received += data
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                raise _too_long() from None
            raise Refused(HTTPStatus.BAD_REQUEST, "this is not an HTTP request that can be answered here") from None
        if not isinstance(event, h11.Request):
            return None
        body, _ = self._http.trailing_data
        head = bytes(self._received[: len(self._received) - len(body)]).rstrip(b"\r\n")
        if len(head) > MAX_HEAD_BYTES:  # h11 limits only a head that is not complete yet
            raise _too_long()
        if _FOLDED.search(head):  # h11 still unfolds folded fields, but RFC 9112 lets a server refuse them
            raise Refused(HTTPStatus.BAD_REQUEST, "a header field is malformed")
        return _parse(event)


def _too_long() -> Refused:
    return Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head of a request may have at most {MAX_HEAD_BYTES} bytes")


def _parse(event: h11.Request) -> Request:
    """Checks a request and returns the parts of it that matter here. Raises Refused if no page can answer it."""
    if not event.http_version.startswith(b"1."):
        raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "this server speaks HTTP/1.1")
    if event.http_version != b"1.0" and not any(name == b"host" for name, _ in event.headers):
        raise Refused(HTTPStatus.BAD_REQUEST, "a request needs a Host field")
    if event.method not in (b"GET", b"HEAD"):
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are allowed")
    path = _ORIGIN.sub("", event.target.decode("ascii"), count=1).partition("?")[0]
    return Request(event.method == b"HEAD", path or "/")


class HttpServer:
    """Holds the pages by path, each made anew for every request, and the connections of their readers."""

    def __init__(self, pages: Mapping[str, Callable[[], Page]], clock: Clock) -> None:
        self.pages = pages
        self.clock = clock
        self.connections: set[HttpConnection] = set()
        self.long_page = asyncio.Lock()

    def make_page(self, path: str) -> Page:
        """Makes the page of a path. Raises Refused if there is none."""
        page = self.pages.get(path)
        if page is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"the pages are {', '.join(self.pages)}")
        return page()

    def abort(self) -> None:
        """Ends all connections at once."""
        for connection in list(self.connections):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    """Serves one client and its only request."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._reader = RequestReader(self._http)
        self._timer: Cancellable | None = None
        self._task: asyncio.Task[None] | None = None
        self._answered = False

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._server.connections) >= MAX_CONNECTIONS:
            self._answered = True
            self._transport.abort()
            return
        self._server.connections.add(self)
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

    def eof_received(self) -> bool:
        """Keeps the connection if the client has sent its whole request and may still read; drops it otherwise."""
        return self._task is not None

    def connection_lost(self, error: Exception | None) -> None:
        self._answered = True
        self._cancel_timer()
        if self._task is not None:
            self._task.cancel()
        self._server.connections.discard(self)

    # Answering

    def _ask(self, request: Request) -> None:
        try:
            page = self._server.make_page(request.path)
        except Refused as refused:
            self._refuse(refused)
            return
        except Exception:
            logger.exception("could not make the page %s", request.path)
            self._refuse(Refused(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED))
            return
        self._set_timer(ANSWER_SECONDS, self.abort)
        self._task = asyncio.ensure_future(self._send(page, head_only=request.head_only))

    async def _send(self, page: Page, *, head_only: bool) -> None:
        try:
            if page.is_long:
                async with self._server.long_page:
                    body = await _body_of(page)
            else:
                body = await _body_of(page)
        except Exception:
            logger.exception("could not make a page")
            self._refuse(Refused(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED))
            return
        self._answer(page.status, page.content_type, body, head_only=head_only)

    def _refuse(self, refused: Refused) -> None:
        self._set_timer(ANSWER_SECONDS, self.abort)
        self._answer(refused.status, PLAIN, f"{refused}\n".encode())

    def _too_slow(self) -> None:
        self._refuse(Refused(HTTPStatus.REQUEST_TIMEOUT, f"no complete request came within {REQUEST_SECONDS} s"))

    def _answer(self, status: int, content_type: str, body: bytes, *, head_only: bool = False) -> None:
        if self._answered:
            return
        self._answered = True
        fields = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        fields += [("Allow", "GET, HEAD")] if status == HTTPStatus.METHOD_NOT_ALLOWED else []
        fields += [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Connection", "close")]
        answer = h11.Response(status_code=status, headers=fields, reason=HTTPStatus(status).phrase)
        head = self._http.send(answer) or b""
        self._transport.write(head + (b"" if head_only else body))
        self._transport.close()  # once it is sent

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
