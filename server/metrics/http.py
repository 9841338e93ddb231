"""A responder for HTTP/1.x on the broker's event loop, as small as three pages need: GET and HEAD, one request a connection.

It never disturbs the broker: a request's head has a bound, so have the number of connections and the time that each may take;
after its answer a connection is closed, so nothing is pipelined. A page is made of pieces, between which the loop serves others.
What is wrong is answered where HTTP has a word for it: 400 not HTTP, 404 no such page, 405 another method, 408 too slow, 431 too
long, 505 another version.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock

logger = logging.getLogger("ottla.server.metrics")

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 32
REQUEST_SECONDS: Final = 10
"""For a whole request to come."""
ANSWER_SECONDS: Final = 60
"""For the answer to be made and taken."""
PLAIN: Final = "text/plain; charset=utf-8"
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_END: Final = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/(\d)\.(\d)")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t -~\x80-\xff]*")
_ORIGIN: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class Page(NamedTuple):
    """An answer. Its pieces are made one by one while the loop runs on; of long pages one at a time, or as many pieces as there
    are clients would be made in every turn of the loop."""

    pieces: Iterable[bytes]
    status: int = 200
    content_type: str = PLAIN
    is_long: bool = False


class Refused(Exception):
    """A request that no page is for; the text goes to the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Request(NamedTuple):
    """What counts of a request."""

    head_only: bool
    path: str


def parse(head: bytes) -> Request:
    """A request's head without the blank line at its end. Refused."""
    line, *fields = re.split(rb"\r?\n", head)
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise Refused(400, "this is no HTTP request")
    method, target, major, minor = found.groups()
    if major != b"1":
        raise Refused(505, "HTTP/1.1 is spoken here")
    names = [field[1].lower() for field in map(_FIELD.fullmatch, fields) if field is not None]
    if len(names) < len(fields):
        raise Refused(400, "a header field is malformed")
    if minor != b"0" and names.count(b"host") != 1:
        raise Refused(400, "one Host field is needed")
    if method not in (b"GET", b"HEAD"):
        raise Refused(405, "only GET and HEAD")
    path = _ORIGIN.sub("", target.decode("ascii"), count=1).partition("?")[0]
    return Request(method == b"HEAD", path or "/")


class HttpServer:
    """Serves `pages` by path, each made anew for every request."""

    def __init__(self, pages: Mapping[str, Callable[[], Page]], clock: Clock) -> None:
        self.pages = pages
        self.clock = clock
        self.connections: set[HttpConnection] = set()
        self.long_page = asyncio.Lock()

    def page(self, path: str) -> Page:
        """Refused where there is none."""
        page = self.pages.get(path)
        if page is None:
            raise Refused(404, f"there are {', '.join(self.pages)}")
        return page()

    def abort(self) -> None:
        """Ends all connections at once."""
        for connection in list(self.connections):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    """One client and its one request."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._head = bytearray()
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
            return  # one request a connection: what follows it is nobody's
        self._head += data
        end = _END.search(self._head)
        if (end.start() if end is not None else len(self._head)) > MAX_HEAD_BYTES:
            self._refuse(Refused(431, f"a request's head has at most {MAX_HEAD_BYTES} bytes"))
        elif end is not None:
            self._ask(bytes(self._head[: end.start()]))

    def eof_received(self) -> bool:
        """A client may be done with its side and still read; one that goes before its request is whole is gone."""
        return self._task is not None

    def connection_lost(self, error: Exception | None) -> None:
        self._answered = True
        self._cancel_timer()
        if self._task is not None:
            self._task.cancel()
        self._server.connections.discard(self)

    # Answering

    def _ask(self, head: bytes) -> None:
        try:
            request = parse(head)
            page = self._server.page(request.path)
        except Refused as refused:
            self._refuse(refused)
            return
        except Exception:
            logger.exception("a page failed")
            self._refuse(Refused(500, "this failed here; the broker's log says why"))
            return
        self._set_timer(ANSWER_SECONDS, self.abort)
        self._task = asyncio.ensure_future(self._send(page, head_only=request.head_only))

    async def _send(self, page: Page, *, head_only: bool) -> None:
        try:
            if page.is_long:
                async with self._server.long_page:
                    body = await _made(page)
            else:
                body = await _made(page)
        except Exception:
            logger.exception("a page failed")
            self._refuse(Refused(500, "this failed here; the broker's log says why"))
            return
        self._answer(page.status, page.content_type, body, head_only=head_only)

    def _refuse(self, refused: Refused) -> None:
        self._set_timer(ANSWER_SECONDS, self.abort)
        self._answer(refused.status, PLAIN, f"{refused}\n".encode())

    def _too_slow(self) -> None:
        self._refuse(Refused(408, f"no whole request in {REQUEST_SECONDS} s"))

    def _answer(self, status: int, content_type: str, body: bytes, *, head_only: bool = False) -> None:
        if self._answered:
            return
        self._answered = True
        fields = [f"HTTP/1.1 {status} {REASONS[status]}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
        fields += ["Allow: GET, HEAD"] if status == 405 else []
        fields += ["Cache-Control: no-store", "X-Content-Type-Options: nosniff", "Connection: close", "", ""]
        self._transport.write("\r\n".join(fields).encode() + (b"" if head_only else body))
        self._transport.close()  # once it is sent

    def abort(self) -> None:
        """Closes at once."""
        self._transport.abort()

    def _set_timer(self, seconds: float, action: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._server.clock.call_later(seconds, action)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _made(page: Page) -> bytes:
    parts: list[bytes] = []
    for piece in page.pieces:
        parts.append(piece)
        await asyncio.sleep(0)  # the broker's turn
    return b"".join(parts)
