"""The console's application: from a request to a page, and from what went wrong to a page that says so.

A page runs in a thread (calls.py). What can go wrong in it: the cluster does not answer or refuses (502), nothing in time (504),
too many pages at once (503), a field with no valid value (400), something that is not there (404). Whatever else is a bug: its
traceback is in the log, and the page says only that.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from ottla.commands.clients.client import explain
from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Download, Page, Redirect, Stream
from ottla.console.broker.inside import NO_BROKER, Inside
from ottla.console.cluster.source import Source
from ottla.console.disk.directory import Directory
from ottla.console.errors import BadInput, Missing
from ottla.console.pages import ACTIONS, FORMS, PAGES, TEST_ACTIONS, TEST_PAGES, WITHOUT_CLUSTER
from ottla.console.rendering.templates import Templates
from ottla.console.rendering.text import visible
from ottla.console.running.calls import Busy, Calls, Ending, TooSlow
from ottla.console.running.streams import StreamResponse
from ottla.console.web.login import Login
from ottla.console.web.security import READ_ONLY, STATIC, Guard, Place
from ottla.console.web.sessions import Sessions

FOLDER: Final = Path(__file__).parents[1] / "static"
FILES: Final = {"console.css": "text/css", "console.js": "text/javascript"}
MAX_AUDIT: Final = 2000
"""The most characters about what was done in a line of the audit: a form may hold megabytes."""
_log: Final = logging.getLogger("ottla.console")
_audit: Final = logging.getLogger("ottla.console.audit")

Work = Callable[[Ask], Answer]


class Beside(NamedTuple):
    """Everything that a console looks at beside the cluster, or instead of it: data directories, and the inside of the broker
    that runs it, or why there is none (`Ask`), and whether that has a test kit."""

    directories: tuple[Directory, ...] = ()
    has_cluster: bool = True
    inside: Inside | None = None
    without_inside: str = NO_BROKER
    is_under_test: bool = False

    @property
    def without(self) -> Beside:
        """Returns the part that is left for users who may see nothing but the cluster."""
        return Beside(has_cluster=self.has_cluster, without_inside=NOT_YOURS)


NOT_YOURS: Final = (
    "This broker checks access rules. What is inside it, which no rule covers, is only shown to its super users, and to "
    "whoever has the console's token."
)
CLUSTER_ONLY: Final = Beside()


class Who(NamedTuple):
    """The rules about who is let in: by which sessions, how somebody gets one, and which users see what lies beside the cluster;
    all, if that is None."""

    sessions: Sessions
    login: Login
    seen_by: frozenset[str] | None = None

    @property
    def login_fields(self) -> dict[str, bool]:
        """The fields that the page asks for that lets in."""
        return {
            "has_token": self.sessions.has_token,
            "has_users": self.sessions.has_users,
            "from_here_only": self.login.from_here_only,
        }


class Console:
    """Turns requests into asks, and answers into responses."""

    def __init__(self, source: Source, calls: Calls, beside: Beside, who: Who, *, read_only: bool) -> None:
        self._source = source
        self._calls = calls
        self._beside = beside
        self._seen_by = who.seen_by
        self._read_only = read_only
        at = source.bootstrap if beside.has_cluster else ", ".join(str(one.path) for one in beside.directories)
        known = {"cluster_at": at, "read_only": read_only, "has_cluster": beside.has_cluster}
        self._templates = Templates({**known, **who.login_fields})

    def routes(self) -> list[BaseRoute]:
        """Returns the routes of the pages, and of the style sheet and the script, which are read now."""
        found: list[BaseRoute] = [Route(f"{STATIC}{name}", _file(name, kind), methods=["GET"]) for name, kind in FILES.items()]
        pages, actions = dict(PAGES), dict(ACTIONS)
        if self._beside.is_under_test:
            pages |= TEST_PAGES
            actions |= TEST_ACTIONS
        for path, work in pages.items():
            shown = _no_form if self._read_only and path in FORMS else work
            if not self._beside.has_cluster and path not in WITHOUT_CLUSTER:
                shown = _to_files if path == "/" else _no_cluster
            found.append(Route(path, partial(self._answer, shown), methods=["GET"]))
        if self._beside.has_cluster:
            found += [Route(path, partial(self._answer, work), methods=["POST"]) for path, work in actions.items()]
        return found

    async def _answer(self, work: Work, request: Request) -> ASGIApp:
        given = request.scope["state"]
        ask = Ask(
            self._source,
            request.url.path,
            request.path_params,
            given["query"],
            given.get("form", {}),
            partial(_write_audit, given["session"], request.client.host if request.client else "?"),
            resume=request.headers.get("last-event-id", ""),
            **self._seen(given["user"])._asdict(),
        )
        known = _known(ask, given)
        try:
            return await self._calls.run(partial(self._response_of, work, ask, known))
        except Busy:
            status, title, why = 503, "Busy", "Too many pages wait for the cluster already; try again in a moment."
        except TooSlow:
            status, title, why = 504, "No answer in time", "The cluster did not answer in time."
        except Ending:
            status, title, why = 504, "The console ends", "It was stopped before the cluster had answered."
        except Missing as missing:
            status, title, why = 404, "Not found", str(missing)
        except (BadInput, typer.BadParameter) as error:
            status, title, why = 400, "Not a valid value", error.args[0] if error.args else str(error)
        except Failure as failure:
            status, title, why = 502, "The cluster refused or did not answer", str(failure)
        except Exception:  # noqa: BLE001 - a bug in one page is one page that says so, and a traceback in the log
            _log.exception("a page failed")
            status, title, why = 500, "That is a bug", "The page failed; the console's log says where."
        if request.method == "POST":
            ask.audit(f"{'refused' if status in {400, 404, 503} else 'not known'}: {request.url.path!a}: {why}")
        return self._refusal(status, title, why, known)

    def _seen(self, user: str) -> Beside:
        """Returns what this user may see beside the cluster; `user` is empty for who came by the token."""
        may_see = not user or self._seen_by is None or user in self._seen_by
        return self._beside if may_see else self._beside.without

    def _response_of(self, work: Work, ask: Ask, known: Mapping[str, Any]) -> ASGIApp:
        """Runs in a thread. Raises Failure for what the cluster refuses, and whatever a page raises."""
        from confluent_kafka import KafkaException

        try:
            answer = work(ask)
        except (Failure, KafkaException) as error:
            self._source.lost()
            if isinstance(error, KafkaException):
                raise Failure(explain(error.args[0])) from error
            raise
        if isinstance(answer, Redirect):
            return RedirectResponse(answer.path, status_code=303)
        if isinstance(answer, Download):
            headers = {"Content-Disposition": f'attachment; filename="{answer.name}"'}
            return Response(answer.data, media_type="application/octet-stream", headers=headers)
        if isinstance(answer, Stream):
            return StreamResponse(self._calls.streams, answer.follow)
        assert isinstance(answer, Page)
        return HTMLResponse(self._templates.render(answer.template, {**known, **answer.values}), answer.status)

    def refuse(self, status: int, title: str, advice: str) -> Response:
        """Returns the page of a request that the guard refused."""
        template = "login.html" if status == 401 else "refused.html"
        return HTMLResponse(self._templates.render(template, {"title": title, "why": advice, "path": ""}), status)

    def _refusal(self, status: int, title: str, why: str, known: Mapping[str, Any]) -> Response:
        return HTMLResponse(self._templates.render("error.html", {**known, "title": title, "why": why}), status)

    async def not_found(self, request: Request, error: Exception) -> Response:
        """Answers what no route takes: 404, or 405 for a method that the page does not have."""
        given = request.scope["state"]
        status = error.status_code if isinstance(error, HTTPException) else 404
        why = "The console has no such page." if status == 404 else f"This page does not accept {request.method}."
        title = "Not found" if status == 404 else "Not possible"
        if "form_token" not in given:
            return self.refuse(status, title, why)
        ask = Ask(self._source, request.url.path, **self._seen(given["user"])._asdict())
        return self._refusal(status, title, why, _known(ask, given))


def _known(ask: Ask, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what every page inside shows; `given` is of the guard (security.py)."""
    return {"form_token": given["form_token"], "path": ask.path, "ask": ask, "user": given["user"]}


def _to_files(_: Ask) -> Answer:
    return Redirect("/files")


def _no_cluster(_: Ask) -> Answer:
    why = "This console looks at a directory only; start it with --bootstrap HOST:PORT, too, to see the cluster."
    return Page("error.html", {"title": "No cluster", "why": why}, 404)


def _no_form(_: Ask) -> Answer:
    return Page("error.html", {"title": "Read-only", "why": READ_ONLY}, 403)


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    data = (FOLDER / name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(data, media_type=kind)

    return answer


def _write_audit(session: str, address: str, done: str) -> None:
    """Writes a line. Of what is too long it leaves out the middle, since the outcome is at the end."""
    if len(done) > MAX_AUDIT:
        done = f"{done[: MAX_AUDIT // 2]} … {done[-MAX_AUDIT // 2 :]}"
    _audit.info("%s (session %s, from %s)", visible(done).replace("\n", "␊").replace("\t", "␉"), session, address)


def application(
    source: Source, calls: Calls, who: Who, place: Place, *, read_only: bool, beside: Beside = CLUSTER_ONLY
) -> ASGIApp:
    """Returns the whole application, guarded."""
    console = Console(source, calls, beside, who, read_only=read_only)
    pages = Starlette(routes=console.routes(), exception_handlers={404: console.not_found, 405: console.not_found})
    return Guard(pages, who.sessions, who.login, place, console.refuse, _write_audit, read_only=read_only)
