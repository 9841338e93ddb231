"""The questions that a broker's console may ask, as one table of functions: their name, and what answers them.

A function is given the Subject and the arguments by their names, and returns what JSON can hold. It runs on the broker's loop, so
it takes no longer than a turn: what may be long is bounded by a `limit`. It raises NoSuch or BadQuestion. What takes time is
begun by one question and read by another.

A question is a line of JSON, `{"id": 7, "question": "group", "arguments": {"name": "billing"}}`, and so is its answer:
`{"id": 7, "answer": ...}`, or in place of `answer` one of `missing` and `refused`, with a sentence.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.server.inspect.answers import end_session, group, groups, identify, transactions
from ottla.server.inspect.denials import decision, denials
from ottla.server.inspect.state import connected, followers, health, open_transactions, requests, traffic
from ottla.server.inspect.subject import BadQuestion, NoSuch, Subject
from ottla.server.inspect.watched_groups import unwatch_group, watch_group, watched_group
from ottla.server.inspect.watched_requests import unwatch_requests, watch_requests, watched_requests

MAX_ANSWER_BYTES: Final = 4 << 20

QUESTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "who": identify,
    "groups": groups,
    "group": group,
    "transactions": transactions,
    "health": health,
    "traffic": traffic,
    "connections": connected,
    "requests": requests,
    "open_transactions": open_transactions,
    "followers": followers,
    "watch_requests": watch_requests,
    "watched_requests": watched_requests,
    "unwatch_requests": unwatch_requests,
    "watch_group": watch_group,
    "watched_group": watched_group,
    "unwatch_group": unwatch_group,
    "denials": denials,
    "decision": decision,
    "end_session": end_session,
}
SHOWS_NOTHING: Final = frozenset({"end_session"})
"""The questions that are answered also where the inside is not shown."""

_log: Final = logging.getLogger("ottla.server.inspect")


def answer_line(subject: Subject, line: bytes) -> bytes:
    """Returns the line that answers a line. Raises ValueError if that is no question at all."""
    asked = json.loads(line)
    if not isinstance(asked, dict) or not isinstance(asked.get("arguments"), dict):
        raise ValueError("a question is an object with arguments")  # noqa: TRY004 - like the other malformed lines
    number = asked.get("id")
    said = _answer(subject, number, asked.get("question"), asked["arguments"])
    if len(said) > MAX_ANSWER_BYTES:
        said = _line(number, "refused", "That is too much to be shown at once.")
    return said


def _answer(subject: Subject, number: object, question: object, arguments: dict[str, Any]) -> bytes:
    function = (QUESTIONS.get(question) or subject.more.get(question)) if isinstance(question, str) else None
    if function is None:
        return _line(number, "refused", f"The broker knows no question {question!r:.60}.")
    if not subject.shows_inside and question not in SHOWS_NOTHING:
        return _line(number, "refused", "This broker checks access rules, and shows its inside only to whoever has the token.")
    try:
        return _line(number, "answer", function(subject, **arguments))
    except NoSuch as missing:
        return _line(number, "missing", str(missing))
    except BadQuestion as refused:
        return _line(number, "refused", str(refused))
    except Exception:  # noqa: BLE001 - a bug in one answer is no end of the broker, nor of its console
        _log.exception("the question %a failed", question)
        return _line(number, "refused", "The broker failed to answer; its log says why.")


def _line(number: object, kind: str, said: Any) -> bytes:
    return json.dumps({"id": number, kind: said}).encode() + b"\n"
