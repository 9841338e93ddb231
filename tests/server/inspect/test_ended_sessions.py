"""Sessions of a console that were logged out: the next process is told of each, or of none that is as old."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.inspect import ended_sessions
from ottla.server.inspect.answers import LONGEST_SESSION
from ottla.server.inspect.ended_sessions import EndedSessions
from ottla.server.inspect.subject import Subject
from tests.server.inspect.test_questions import ask

NOTHING: Any = None


def test_each_is_told_and_of_too_many_those_that_were_opened_first_are_covered_by_their_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ended_sessions, "MOST_KEPT", 2)
    ended = EndedSessions()
    assert ended.orders() == {"ended": [], "none_before": 0.0}
    ended.note("b", 2.0)
    ended.note("a", 1.0)
    ended.note("b", 2.0)
    assert ended.orders() == {"ended": ["b", "a"], "none_before": 0.0}
    ended.note("c", 3.0)
    assert ended.orders() == {"ended": ["b", "c"], "none_before": 1.0}
    ended.note("z", 0.5)
    assert ended.orders() == {"ended": ["b", "c"], "none_before": 1.0}


def test_a_console_may_say_so_whatever_it_may_show() -> None:
    ended = EndedSessions()
    subject = Subject(lambda: NOTHING, NOTHING, shows_inside=False, ended_sessions=ended)
    assert ask(subject, "end_session", session="s", opened=4.5) is None
    for session, opened in (("x" * (LONGEST_SESSION + 1), 1.0), (1, 1.0), ("s", "1"), ("s", None)):
        assert ask(subject, "end_session", session=session, opened=opened)[0] == "refused"
    assert ended.orders() == {"ended": ["s"], "none_before": 0.0}
