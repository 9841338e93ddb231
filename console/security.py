"""What stands before every page, and what every answer carries.

A request is refused, in this order:

| | |
|---|---|
| 421 | `Host` is not this console: a foreign name that somebody let point here (DNS rebinding) |
| 405 | a method other than GET, HEAD and POST |
| 403 | a page of another site asks, other than by a link that the user followed |
| 401 | no session, where a token is needed: the page that asks for it |
| 403 | POST while the console is read-only, from another origin, or without the session's form token |
| 408, 413, 415 | a form that is too slow or too large, or something that is no form |

Style sheet and script are served without a session; they hold no data. GET changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.console.sessions import EVERYBODY, Sessions, name_of

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, a browser says "null" where a form of ours comes from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
MAX_FORM_BYTES: Final = 3 * 1_048_576 + 65_536
"""A value of 1 MiB, which a form may write in three characters a byte, and what else is in the form."""
FORM_S: Final = 10.0
MAX_FIELDS: Final = 64
FORM: Final = "application/x-www-form-urlencoded"
STATIC: Final = "/static/"
LOGIN: Final = "/login"
READ_ONLY: Final = "This console was started with --read-only and changes nothing."

Refuse = Callable[[int, str, str], Response]
"""Makes the page of a refusal: its status, its title, and a sentence that says what to do."""
Audit = Callable[[str, str, str], None]
"""Writes a line of what was done: by which session, from which address, and what."""


class Refused(Exception):
    """Raised for a request that is not answered."""

    def __init__(self, status: int, title: str, advice: str) -> None:
        super().__init__(advice)
        self.status, self.title, self.advice = status, title, advice


class Guard:
    """The ASGI application around the pages. Those find in `scope["state"]` the `query`, the `session`, its `form_token`, and of
    a POST the `form`."""

    def __init__(
        self,
        pages: ASGIApp,
        sessions: Sessions,
        hosts: frozenset[str],
        refuse: Refuse,
        audit: Audit,
        *,
        cookie: str,
        read_only: bool,
    ) -> None:
        self._pages = pages
        self._sessions = sessions
        self._hosts = hosts
        self._refuse = refuse
        self._audit = audit
        self._cookie = cookie
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            answer = await self._admit(scope, receive)
        except Refused as refused:
            answer = self._refuse(refused.status, refused.title, refused.advice)
        await answer(scope, receive, send_guarded)

    async def _admit(self, scope: Scope, receive: Receive) -> ASGIApp:
        """Returns what answers the request. Raises Refused."""
        headers = Headers(scope=scope)
        method, path = scope["method"], scope["path"]
        if headers.getlist("host") not in [[host] for host in self._hosts]:
            known = ", ".join(sorted(self._hosts))
            raise Refused(421, "Not this console", f"This console answers to {known} only; open it by one of these.")
        if method not in {"GET", "HEAD", "POST"}:
            raise Refused(405, "Not possible", "The console knows GET, HEAD and POST.")
        _check_site(method, headers)
        state: dict[str, Any] = scope.setdefault("state", {})
        if path.startswith(STATIC):
            return self._pages
        query = state["query"] = _fields(scope["query_string"])
        session = EVERYBODY
        if self._sessions.needs_token:
            if path == LOGIN and method == "POST":
                return self._log_in((await _form(headers, receive)).get("token", ""), scope)
            if method == "GET" and path == "/" and "token" in query:
                return self._log_in(query["token"], scope)
            session = _cookies(headers).get(self._cookie, "")
            if not self._sessions.is_open(session):
                raise Refused(401, "Who are you?", "")
        state["session"] = name_of(session)
        state["form_token"] = self._sessions.form_token(session)
        if method == "POST":
            if self._read_only:
                raise Refused(403, "Read-only", READ_ONLY)
            form = await _form(headers, receive)
            if not self._sessions.fits(session, form.pop("form_token", "")):
                raise Refused(403, "Not sent", "The form is not of this session; go back, load the page again and repeat it.")
            state["form"] = form
        return self._pages

    def _log_in(self, token: str, scope: Scope) -> Response:
        session, address = self._sessions.open(token), (scope.get("client") or "?")[0]
        self._audit(name_of(session or ""), address, "wrong token" if session is None else "session opened")
        if session is None:
            raise Refused(401, "Who are you?", "That is not the token.")
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self._cookie, session, path="/", httponly=True, samesite="strict")
        return answer


def hosts_of(host: str, port: int) -> frozenset[str]:
    """Returns the values of `Host` under which a console at this address is asked for."""
    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
    return frozenset({f"{name}:{port}" for name in names} | (names if port == 80 else set()))


def _check_site(method: str, headers: Headers) -> None:
    """Raises Refused for what a page of another site asks for. Browsers say whose page it was."""
    site = headers.get("sec-fetch-site")
    if method == "POST":
        origin = headers.get("origin")
        own = site == "same-origin" if site is not None else origin == f"http://{headers['host']}"
        if not own or (origin is not None and origin != f"http://{headers['host']}"):
            raise Refused(403, "Not sent", "The form was not on a page of this console.")
    elif site in {"cross-site", "same-site"}:
        follows_a_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if not follows_a_link:
            raise Refused(403, "Not shown", "A page of another site asked for this.")


def _cookies(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in headers.getlist("cookie"):
        for part in line.split(";"):
            name, _, value = part.strip().partition("=")
            found.setdefault(name, value)
    return found


async def _form(headers: Headers, receive: Receive) -> dict[str, str]:
    """Returns the fields of a form. Raises Refused if it is too large or no form."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Refused(415, "Not a form", f"The console takes {FORM}.")
    try:
        async with asyncio.timeout(FORM_S):
            return _fields(await _body(receive))
    except TimeoutError:
        raise Refused(408, "Too slow", f"A form has to arrive within {FORM_S:g} seconds.") from None


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "Cut off", "The form did not arrive.")
        body += message.get("body", b"")
        if len(body) > MAX_FORM_BYTES:
            raise Refused(413, "Too large", "A form may hold a value of 1 MiB.")
        if not message.get("more_body", False):
            return bytes(body)


def _fields(text: bytes) -> dict[str, str]:
    """Returns the fields of a query or a form; of one that is there twice, the last. Raises Refused."""
    try:
        return dict(parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace"))
    except ValueError:
        raise Refused(400, "Not understood", f"An address or a form has at most {MAX_FIELDS} fields, in ASCII.") from None
