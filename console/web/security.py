"""The checks that stand before every page, and the headers that every answer carries.

A request is refused, in this order:

| | |
|---|---|
| 421 | `Host` is not this console: a foreign name that somebody let point here (DNS rebinding) |
| 405 | a method other than GET, HEAD and POST |
| 403 | a page of another site asks, other than by a link that the user followed |
| 401 | no session, where a login is needed: the page that asks for it |
| 429 | too many wrong passwords (attempts.py) |
| 403 | POST while the console is read-only, from another origin, or without the session's form token |
| 408, 413, 415 | a form that is too slow or too large, or something that is no form |

Style sheet and script are served without a session; they hold no data. GET changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.commands.output import Failure
from ottla.console.web.login import Login, NotLetIn
from ottla.console.web.sessions import EVERYBODY, Sessions, name_of

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
MAX_LOGIN_BYTES: Final = 4096
"""Whoever sends a name and a password is not known yet."""
FORM_S: Final = 10.0
MAX_FIELDS: Final = 64
FORM: Final = "application/x-www-form-urlencoded"
STATIC: Final = "/static/"
LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
READ_ONLY: Final = "This console was started with --read-only and changes nothing."

Refuse = Callable[[int, str, str], Response]
"""Makes the page of a refusal: its status, its title, and a sentence that says what to do."""
Audit = Callable[[str, str, str], None]
"""Writes a line of what was done: by which session, from which address, and what."""


class Place(NamedTuple):
    """The address at which a console listens: the values of `Host` that it answers to, of which one that begins with `*.` stands
    for each name of one more word, and the name of its cookie; and whether it speaks TLS."""

    hosts: frozenset[str]
    cookie: str
    is_encrypted: bool = False

    @property
    def scheme(self) -> str:
        return "https" if self.is_encrypted else "http"

    def answers_to(self, host: str) -> bool:
        """Returns whether this value of `Host` is the console's."""
        word, dot, rest = host.partition(".")
        return "*" not in host and (host in self.hosts or bool(word and dot and f"*.{rest}" in self.hosts))


class Refused(Exception):
    """Raised for a request that is not answered."""

    def __init__(self, status: int, title: str, advice: str) -> None:
        super().__init__(advice)
        self.status, self.title, self.advice = status, title, advice


class Guard:
    """The ASGI application around the pages. Those find in `scope["state"]` the `query`, the `session`, its `user` (empty for who
    came by the token), its `form_token`, whether it `is_open` yet, and of a POST the `form`."""

    def __init__(
        self,
        pages: ASGIApp,
        sessions: Sessions,
        login: Login,
        place: Place,
        refuse: Refuse,
        audit: Audit,
        *,
        read_only: bool,
    ) -> None:
        self._pages = pages
        self._sessions = sessions
        self._login = login
        self._place = place
        self._refuse = refuse
        self._audit = audit
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
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._place.answers_to(hosts[0]):
            known = ", ".join(sorted(self._place.hosts))
            raise Refused(421, "Not this console", f"This console answers to {known} only; open it by one of these.")
        if method not in {"GET", "HEAD", "POST"}:
            raise Refused(405, "Not possible", "The console knows GET, HEAD and POST.")
        _check_site(method, headers, self._place.scheme)
        state: dict[str, Any] = scope.setdefault("state", {})
        if path.startswith(STATIC):
            return self._pages
        query = state["query"] = _fields(scope["query_string"])
        session = EVERYBODY
        if not self._sessions.is_for_all:
            if path == LOGIN and method == "POST":
                return await self._log_in(await _form(headers, receive, MAX_LOGIN_BYTES, "A login has at most 4 KiB."), scope)
            if method == "GET" and path == "/" and "token" in query:
                return await self._log_in({"token": query["token"]}, scope)
            session = _cookies(headers).get(self._place.cookie, "")
            if not self._sessions.is_open(session):
                raise Refused(401, "Who are you?", "")
        user = state["user"] = self._sessions.user_of(session)
        state["session"] = _who(session, user)
        state["is_open"] = partial(self._sessions.is_still_open, session)
        state["form_token"] = self._sessions.form_token(session)
        if method == "POST":
            if self._read_only and path != LOGOUT:
                raise Refused(403, "Read-only", READ_ONLY)
            form = await _form(headers, receive)
            if not self._sessions.fits(session, form.pop("form_token", "")):
                raise Refused(403, "Not sent", "The form is not of this session; go back, load the page again and repeat it.")
            if path == LOGOUT:
                return await self._log_out(session, user, scope)
            state["form"] = form
        return self._pages

    async def _log_in(self, fields: Mapping[str, str], scope: Scope) -> Response:
        address = _address_of(scope)
        try:
            session, user = await self._login.let_in(fields, address)
        except NotLetIn as why:
            if why.log:
                self._audit(name_of(""), address, why.log)
            title = "Who are you?" if why.status == 401 else "Not now"
            raise Refused(why.status, title, why.advice) from None
        self._audit(_who(session, user), address, "session opened")
        answer = RedirectResponse("/", status_code=303)
        self._set_cookie(answer, session)
        return answer

    async def _log_out(self, session: str, user: str, scope: Scope) -> Response:
        self._sessions.end(session)
        try:
            await asyncio.to_thread(self._sessions.tell_end, session)
        except Failure as why:
            done = f"session ended, but may go on in the broker's next console: {why}"
        else:
            done = "session ended"
        self._audit(_who(session, user), _address_of(scope), done)
        answer = RedirectResponse("/", status_code=303)
        self._set_cookie(answer, "", max_age=0)
        return answer

    def _set_cookie(self, answer: Response, session: str, max_age: int | None = None) -> None:
        is_encrypted = self._place.is_encrypted
        name = self._place.cookie
        answer.set_cookie(name, session, max_age, path="/", httponly=True, samesite="strict", secure=is_encrypted)


def hosts_of(host: str, port: int, names: Iterable[str] = (), default_port: int = 80) -> frozenset[str]:
    """Returns the values of `Host` under which a console at this address is asked for; `names` are those of its certificate. A
    browser leaves the default port out."""
    known = {"127.0.0.1", "localhost", "[::1]", *(f"[{name}]" if ":" in name else name.lower() for name in (host, *names))}
    known -= {"0.0.0.0", "[::]"}
    return frozenset({f"{name}:{port}" for name in known} | (known if port == default_port else set()))


def _who(session: str, user: str) -> str:
    return f"{name_of(session)} of {user}" if user else name_of(session)


def _address_of(scope: Scope) -> str:
    return str((scope.get("client") or "?")[0])


def _check_site(method: str, headers: Headers, scheme: str) -> None:
    """Raises Refused for what a page of another site asks for. Browsers say whose page it was."""
    site = headers.get("sec-fetch-site")
    if method == "POST":
        origin, expected = headers.get("origin"), f"{scheme}://{headers['host']}"
        own = site == "same-origin" if site is not None else origin == expected
        if not own or (origin is not None and origin != expected):
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


async def _form(
    headers: Headers, receive: Receive, most: int = MAX_FORM_BYTES, advice: str = "A form may hold a value of 1 MiB."
) -> dict[str, str]:
    """Returns the fields of a form. Raises Refused, with this advice, if it has more than `most` bytes, or if it is no form."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Refused(415, "Not a form", f"The console takes {FORM}.")
    try:
        async with asyncio.timeout(FORM_S):
            return _fields(await _body(receive, most, advice))
    except TimeoutError:
        raise Refused(408, "Too slow", f"A form has to arrive within {FORM_S:g} seconds.") from None


async def _body(receive: Receive, most: int, advice: str) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "Cut off", "The form did not arrive.")
        body += message.get("body", b"")
        if len(body) > most:
            raise Refused(413, "Too large", advice)
        if not message.get("more_body", False):
            return bytes(body)


def _fields(text: bytes) -> dict[str, str]:
    """Returns the fields of a query or a form; of one that is there twice, the last. Raises Refused."""
    try:
        return dict(parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace"))
    except ValueError:
        raise Refused(400, "Not understood", f"An address or a form has at most {MAX_FIELDS} fields, in ASCII.") from None
