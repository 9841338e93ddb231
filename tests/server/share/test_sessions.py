"""These tests cover share sessions: epochs, partitions that are added and forgotten, what an answer contains, and how many
sessions there may be.
"""

from __future__ import annotations

import pytest

from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import SessionKey, ShareSession, ShareSessions
from ottla.wire.errors import ErrorCode

M = SessionKey("g", "m")
T0, T1, T2 = ((b"t" * 16, index) for index in range(3))


def names(*partitions: tuple[bytes, int]) -> dict[tuple[bytes, int], str | None]:
    return dict.fromkeys(partitions, "t")


@pytest.fixture
def session() -> ShareSession:
    return ShareSession(M, names(T0, T1), object())


def refusal(action: object, *arguments: object) -> ErrorCode:
    assert callable(action)
    with pytest.raises(ShareError) as caught:
        action(*arguments)
    return caught.value.code


def test_epochs_follow_each_other(session: ShareSession) -> None:
    session.step(1)
    session.step(2)
    for wrong in (2, 4, 0, -1):
        assert refusal(session.step, wrong) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session.epoch = 0x7FFFFFFF
    session.step(0x7FFFFFFF)
    session.step(1)


def test_partitions_come_and_go(session: ShareSession) -> None:
    session.update(names(T1, T2), [T0])
    assert list(session.partitions) == [T1, T2]


def test_records_errors_and_news_are_answered(session: ShareSession) -> None:
    assert not session.report(T0, records=False, error=False)
    session.update(names(T2), [])
    assert session.report(T2, records=False, error=False)
    assert not session.report(T2, records=False, error=False)
    assert session.report(T0, records=True, error=False)
    assert session.report(T0, records=False, error=True)
    assert session.report(T0, records=False, error=False), "it is well again"
    assert not session.report(T0, records=False, error=False)


def test_who_gave_records_is_the_last_of_the_next(session: ShareSession) -> None:
    session.report(T0, records=True, error=False)
    assert list(session.partitions) == [T1, T0]


def test_what_was_forgotten_meanwhile_is_answered_and_stays_forgotten(session: ShareSession) -> None:
    session.update({}, [T0])
    assert session.report(T0, records=True, error=False)
    assert T0 not in session.partitions


def test_there_is_room_for_so_many_and_who_comes_again_takes_its_own_place() -> None:
    sessions = ShareSessions()
    for member in ("a", "b"):
        sessions.open(SessionKey("g", member), names(T0), object(), limit=2)
    assert refusal(sessions.open, SessionKey("g", "c"), {}, object(), 2) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    again = sessions.open(SessionKey("g", "a"), names(T1), object(), limit=2)
    assert sessions.find(SessionKey("g", "a")) is again
    sessions.close(SessionKey("g", "a"))
    assert refusal(sessions.find, SessionKey("g", "a")) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert len(sessions) == 1


def test_sessions_are_found_by_the_connection_that_opened_them() -> None:
    sessions, connection = ShareSessions(), object()
    mine = sessions.open(M, names(T0), connection, limit=9)
    sessions.open(SessionKey("g", "n"), names(T0), object(), limit=9)
    assert sessions.of_connection(connection) == [mine]


def test_a_group_is_empty_when_its_last_connection_is_gone() -> None:
    sessions = ShareSessions()
    a, b = object(), object()
    sessions.open(M, names(T0), a, limit=9)
    sessions.open(SessionKey("g", "n"), names(T0), b, limit=9)
    sessions.open(SessionKey("h", "n"), names(T0), b, limit=9)
    sessions.close(M)
    assert sessions.empty_groups(a) == set(), "another has a session"
    sessions.close(SessionKey("g", "n"))
    sessions.close(SessionKey("h", "n"))
    assert sessions.empty_groups(b) == {"g", "h"}
    assert sessions.empty_groups(b) == set()


def test_a_group_of_which_nothing_is_left_is_forgotten() -> None:
    sessions, connection = ShareSessions(), object()
    sessions.open(M, names(T0), connection, limit=9)
    sessions.close(M)
    sessions.forget_group(connection, "g")
    sessions.forget_group(object(), "g")
    assert sessions.empty_groups(connection) == set()
