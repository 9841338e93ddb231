"""Questions that a console may ask of a broker under test beside what it asks of any: the calls of the kit, the same that HTTP
makes.

A call that changes something is kept until the next one, with what it answered, so that a page can show what was done. One that
takes a while is begun by the question, and goes on if nobody reads its outcome; that it is over is news.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from ottla.server.inspect.subject import BadQuestion, NoSuch
from ottla.server.testkit.calls.control import find_call
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.given import Given

if TYPE_CHECKING:
    from ottla.server.broker.broker import Broker
    from ottla.server.inspect.subject import Subject
    from ottla.server.requests.request import Request
    from ottla.server.testkit.kit import Kit

NOT_FOR_PAGES: Final = frozenset({"archive"})
"""Calls whose answer is no JSON."""
OVER: Final = "kit_over"
"""The news that a call is over."""


class ConsoleQuestions:
    """Answers the questions `kit` and `kit_done` (see questions.py in server/inspect)."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._number = 0
        self._done: dict[str, Any] | None = None
        self._going_on: set[asyncio.Task[None]] = set()

    @property
    def questions(self) -> Mapping[str, Callable[..., Any]]:
        return {"kit": self.call, "kit_done": self.done}

    def mark_faults_for(self, subject: Subject) -> None:
        """Has the watch of requests that runs at the time note the faults that act."""

        def note(request: Request, fault: str | None) -> None:
            if subject.watching is not None:
                subject.watching.watch.note_fault(request, fault)

        self._kit.on_fault = note

    def living(self) -> Broker:
        """Returns the broker that lives. Raises BadQuestion if none does."""
        try:
            return self._kit.lives.broker
        except Refused as refused:
            raise BadQuestion(_sentence(refused)) from None

    def call(self, subject: Subject, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """Makes a call by its method and path in HTTP. Returns the answer to a GET, and for other calls what `done` returns.
        Raises NoSuch and BadQuestion."""
        try:
            call, variables = find_call(method, path)
            if call.is_wait or call.name in NOT_FOR_PAGES:
                raise BadQuestion(f"The console does not call {path}.")
            given = Given({name: unquote(text) for name, text in variables.items()}, body, query)
            answer = call.run(self._kit, given)
        except Refused as refused:
            kind = NoSuch if refused.status == HTTPStatus.NOT_FOUND else BadQuestion
            raise kind(_sentence(refused)) from None
        if method == "GET":
            return answer
        self._number += 1
        done = self._done = {"number": self._number, "method": method, "path": path, "body": body, "is_over": False}
        if inspect.isawaitable(answer):
            task = asyncio.ensure_future(_note(subject, done, answer))
            self._going_on.add(task)
            task.add_done_callback(self._going_on.discard)
        else:
            done |= {"is_over": True, "answer": answer}
        return done

    def done(self, _: Subject) -> dict[str, Any] | None:
        """Returns the last call of a console but for GET: `is_over`, and then `answer` or `refused`. None if there was none."""
        return self._done


async def _note(subject: Subject, done: dict[str, Any], answer: Awaitable[Any]) -> None:
    try:
        done["answer"] = await answer
    except Refused as refused:
        done["refused"] = _sentence(refused)
    finally:
        done["is_over"] = True
        subject.tell(OVER, done["number"])


def _sentence(refused: Refused) -> str:
    text = str(refused)
    return f"{text[:1].upper()}{text[1:]}."
