"""A browser without a screen: asks the console's application in this process, and holds each page against the templates.

`check_page` knows every tag and attribute that the templates have; what a stranger wrote may be nothing but text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlencode

from ottla.console.running.calls import Calls
from ottla.console.web.app import CLUSTER_ONLY, Beside, Who, application
from ottla.console.web.attempts import Attempts
from ottla.console.web.login import Login
from ottla.console.web.security import FORM, HEADERS, Place, hosts_of
from ottla.console.web.sessions import EVERYBODY, Sessions

TOKEN: Final = "the token of the tests"
HOST: Final = "127.0.0.1:8080"
COOKIE: Final = "ottla-console-8080"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TAGS: Final = words(
    "html head meta title link script body a header p nav ul li span main h1 h2 h3 section div table caption thead tbody tr "
    "th td dl dt dd form label input select option button textarea pre code details summary time strong noscript progress "
    "svg g defs pattern path rect circle polyline line text"
)
_VOID: Final = frozenset({"meta", "link", "input"})
_SHAPES: Final = frozenset({"rect"})
"""Tags of a picture, which close themselves."""
_ATTRIBUTES: Final = words(
    "lang charset name content rel href src defer class id tabindex role aria-label aria-labelledby aria-current aria-sort "
    "aria-describedby scope colspan action method type value placeholder size checked selected inputmode autocomplete required "
    "maxlength rows title download "
    "open aria-hidden width height patternunits x y x1 x2 y1 y2 cx cy r d fill stroke stroke-width fill-opacity points viewbox "
    "max data-goon data-copy data-live data-tail data-said aria-invalid"
)
"""HTMLParser gives attributes in lower case."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Browser:
    """Keeps its cookie. `ask` sends exactly what it is told; `get` and `post` are those of a person on one of the pages."""

    def __init__(
        self,
        source: Any,
        *,
        read_only: bool = False,
        within_s: float = 30,
        beside: Beside = CLUSTER_ONLY,
        needs_token: bool = True,
        users: Any = None,
        seen_by: frozenset[str] | None = None,
        place: Place | None = None,
    ) -> None:
        self.calls = Calls(within_s)
        numbers = iter(range(1, 10_000))
        token = TOKEN if needs_token else None
        self.sessions = Sessions(token, lambda count: next(numbers).to_bytes(count, "big"), lambda: 0.0, users=users)
        who = Who(self.sessions, Login(self.sessions, users, Attempts(lambda: 0.0), from_here_only=False), seen_by)
        place = place or Place(hosts_of("127.0.0.1", 8080), COOKIE)
        self.app = application(source, self.calls, who, place, read_only=read_only, beside=beside)
        self.session = self.sessions.open(TOKEN) or EVERYBODY

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        receive: Callable[[], Awaitable[Any]] | None = None,
    ) -> Answer:
        """`receive` says otherwise than `body` what arrives after the head."""
        where, _, query = path.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": unquote(where),
            "raw_path": where.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8080),
            "scheme": "http",
            "http_version": "1.1",
        }
        sent: list[Any] = []
        arriving = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def whole() -> Any:
            return next(arriving, None) or await asyncio.get_running_loop().create_future()  # nobody goes away

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive or whole, send))  # type: ignore[arg-type]  # its coroutine is an Awaitable there
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))

    def get(self, path: str) -> Answer:
        return _checked(self.ask("GET", path, {"Host": HOST, "Cookie": f"{COOKIE}={self.session}", "Sec-Fetch-Site": "none"}))

    def post(self, path: str, /, **form: str) -> Answer:
        fields = {"form_token": self.sessions.form_token(self.session), **form}
        headers = {
            "Host": HOST,
            "Cookie": f"{COOKIE}={self.session}",
            "Sec-Fetch-Site": "same-origin",
            "Origin": f"http://{HOST}",
            "Content-Type": FORM,
        }
        return _checked(self.ask("POST", path, headers, urlencode(fields).encode()))

    def close(self) -> None:
        self.calls.close()


@contextmanager
def browsing(source: Any, **given: Any) -> Iterator[Browser]:
    """Gives a Browser, made with what is given, whose calls are ended afterwards."""
    browser = Browser(source, **given)
    try:
        yield browser
    finally:
        browser.close()


def _checked(answer: Answer) -> Answer:
    check_headers(answer)
    if answer.headers.get("content-type", "").startswith("text/html"):
        check_page(answer.text)
    return answer


def check_headers(answer: Answer) -> None:
    missing = {name for name, value in HEADERS.items() if answer.headers.get(name.lower()) != value}
    assert not missing, missing


def check_seen(text: str) -> None:
    unseen = [one for one in text if one not in "\n\t" and not one.isprintable()]
    assert not unseen, f"characters that nobody sees: {unseen[:5]!r}"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, f"a tag that is none of the templates': <{tag}>"
        for name, value in attrs:
            assert name in _ATTRIBUTES, f"an attribute that is none of the templates': {name}={value!r}"
            if name != "value":
                check_seen(value or "")
            if name in {"href", "src", "action"}:
                own = (value or "").startswith(("/", "?", "#")) and not (value or "").startswith(("//", "/\\"))
                assert own or (tag, value) == ("link", "data:,"), f"it leads elsewhere: {value!r}"
        assert tag != "script" or dict(attrs) == {"src": "/static/console.js", "defer": None}
        if tag not in _VOID | _SHAPES:
            self.open.append(tag)
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SHAPES:
            return
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["textarea"]:  # where what a user typed is put back
            check_seen(data)
        self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data!r}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data!r}")


def check_page(html: str) -> _Page:
    """Returns the texts of a page, which has to be well-formed and of nothing but the templates' tags and attributes."""
    assert html.startswith("<!doctype html>\n")
    page = _Page()
    page.feed(html.removeprefix("<!doctype html>\n"))
    page.close()
    assert page.open == []
    return page


def cells(html: str) -> list[str]:
    """Returns the texts of the cells of a page's tables."""
    return [cell.strip() for cell in check_page(html).cells]
