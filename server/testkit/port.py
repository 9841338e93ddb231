"""The test port: the calls of the kit over HTTP, for tests in any language.

It is for programs on this machine, not for web pages that somebody has open there: a request with an Origin is refused (403), and
so is one whose Host is neither loopback nor the host that was configured (421), since a page may have its own name resolve to
loopback. At any other address it needs a token. What is sent is JSON, and so is every answer but an archive; a refusal is
`{"error": "what is wrong, and what would be right"}`.
"""

from __future__ import annotations

import asyncio
import hmac
import inspect
import json
from collections.abc import Awaitable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote

from ottla.log.config_def import ConfigError
from ottla.security.addresses import is_loopback
from ottla.server.http.port import HttpPort
from ottla.server.http.responder import HttpServer, LongPoll, Page, Request
from ottla.server.http.responder import Refused as HttpRefused
from ottla.server.testkit.calls.control import Call, find_call
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.given import Given
from ottla.server.testkit.lives.archives import TAR, Archive

if TYPE_CHECKING:
    from ottla.server.base.network import Network
    from ottla.server.testkit.kit import Kit

PORT: Final = "ottla.test.port"
HOST: Final = "ottla.test.host"
TOKEN: Final = "ottla.test.token"
JSON: Final = "application/json"
MAX_CONNECTIONS: Final = 256
_EVERYWHERE: Final = ("", "0.0.0.0", "::")


def check_host(host: str, token: str | None) -> None:
    """Raises ConfigError if others could reach the port and need no token."""
    if not token and not is_loopback(host):
        raise ConfigError(
            f"{HOST}: others reach the test port at {host or 'every interface'}; set {TOKEN}, or leave it at 127.0.0.1"
        )


class TestServer(HttpServer):
    """Answers the calls of one kit."""

    __test__ = False  # it is no test, whatever pytest thinks of its name
    methods = ("GET", "HEAD", "POST", "PUT", "DELETE")
    max_connections = MAX_CONNECTIONS

    def __init__(self, kit: Kit, host: str, token: str | None) -> None:
        super().__init__({}, kit.clock)
        self._kit = kit
        self._host = host
        self._token = token
        self._going_on: set[asyncio.Future[Any]] = set()

    def make_page(self, request: Request) -> Page | Awaitable[Page]:
        """See HttpServer."""
        try:
            method = "GET" if request.method == "HEAD" else request.method
            call, variables = find_call(method, request.path)
            given = Given(
                {name: unquote(text) for name, text in variables.items()}, _body_of(request), dict(parse_qsl(request.query))
            )
            answer = call.run(self._kit, given)
        except Refused as refused:
            raise HttpRefused(refused.status, str(refused)) from None
        if not inspect.isawaitable(answer):
            return _page(answer, call.status)
        page = self._promise(call, answer)
        return LongPoll(page) if call.is_wait else page

    async def _promise(self, call: Call, answer: Awaitable[Any]) -> Page:
        """Returns the page of a call that takes a while. If its client goes, what waits ends; what changes something goes on."""
        if not call.is_wait:
            task = asyncio.ensure_future(answer)
            self._going_on.add(task)
            task.add_done_callback(self._done)
            answer = asyncio.shield(task)
        try:
            return _page(await answer, call.status)
        except Refused as refused:
            raise HttpRefused(refused.status, str(refused)) from None

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._going_on.discard(task)
        if not task.cancelled():
            task.exception()  # which its client was told, if it is still there

    def make_refusal(self, refused: HttpRefused) -> Page:
        """See HttpServer."""
        return _page({"error": str(refused)}, refused.status)

    def admit(self, request: Request) -> None:
        """Raises Refused if this may be a web page, or does not know the token; its body is not read then."""
        headers = request.headers
        if "origin" in headers:
            raise HttpRefused(HTTPStatus.FORBIDDEN, "web pages may not use the test port, and this request has an Origin")
        host = headers.get("host", "")
        name, _, port = host.rpartition(":")
        if not port.isdecimal():
            name = host
        name = name.strip("[]").lower()
        if self._host not in _EVERYWHERE and not is_loopback(name) and name != self._host.lower():
            raise HttpRefused(
                HTTPStatus.MISDIRECTED_REQUEST, f"the test port is not {name:.100}; use 127.0.0.1, or set {HOST} to that name"
            )
        if self._token:
            sent = headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(sent.encode(), self._token.encode()):
                raise HttpRefused(HTTPStatus.UNAUTHORIZED, f"send the value of {TOKEN}, as Authorization: Bearer TOKEN")


def _page(answer: Any, status: int) -> Page:
    if isinstance(answer, Archive):
        return Page(answer.pieces(), status, TAR, size=answer.size())
    return Page((json.dumps(answer).encode() + b"\n",), status, JSON)


def _body_of(request: Request) -> Any:
    """Returns what the body of a request stands for, None without one. Raises Refused."""
    if not request.body:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refused(f"the body must be {JSON}, not {kind or 'of no type'}", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is not JSON: {error}") from None


class TestPort:
    """Serves a kit at an address. `url` is known once it is open."""

    __test__ = False

    def __init__(self, kit: Kit, network: Network, host: str, token: str | None) -> None:
        """Raises ConfigError if others could reach the address and need no token."""
        check_host(host, token)
        self._port = HttpPort(TestServer(kit, host, token), network, "test")
        self._host = host

    @property
    def url(self) -> str:
        """Returns the URL of the address, without a path."""
        return self._port.url

    async def open(self, port: int) -> None:
        """Binds the address and serves; port 0 means a free port. Raises ConfigError if the address cannot be bound."""
        await self._port.open(self._host, port)

    def close(self) -> None:
        """Gives up the address and closes all connections at once."""
        self._port.close()
