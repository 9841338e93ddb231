"""These tests cover share sessions: epochs, partitions that are added and forgotten, what an answer contains, and how many
sessions there may be.
"""

from __future__ import annotations

import pytest

from ottla.server.partitions.fetch_sessions import UNKNOWN_KEPT
from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import PARTITION_BYTES, SessionKey, ShareSession, ShareSessions
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


# How much they hold


def many(count: int) -> dict[tuple[bytes, int], str | None]:
    return names(*((b"t" * 16, index) for index in range(count)))


def member(name: object) -> SessionKey:
    return SessionKey("g", str(name))


def test_what_they_hold_is_said_whenever_it_changes() -> None:
    said: list[int] = []
    sessions = ShareSessions(10 * PARTITION_BYTES, said.append)
    first = sessions.open(M, many(3), object(), limit=9)
    sessions.reserve(first, 2, ())
    first.update(names(T0, (b"u" * 16, 0)), [T1])
    sessions.recount(first)
    sessions.recount(first)
    assert first.counted == sessions.partition_count == len(first.partitions) == 3
    sessions.open(M, many(1), object(), limit=9)
    sessions.recount(first)
    sessions.close(M)
    assert [held // PARTITION_BYTES for held in said] == [3, 5, 3, 0, 1, 0]
    assert sessions.held_bytes == 0


def test_there_is_room_for_so_many_partitions() -> None:
    sessions = ShareSessions(10 * PARTITION_BYTES)
    sessions.open(member("a"), many(5), object(), limit=9)
    b = sessions.open(member("b"), many(5), object(), limit=9)
    assert refusal(sessions.open, member("c"), many(5), object(), 9) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert refusal(sessions.reserve, b, 1, ()) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.reserve(b, 0, ())
    assert (len(sessions), sessions.partition_count, sessions.evictions) == (2, 10, 0)
    assert refusal(sessions.open, member("d"), many(11), object(), 9) is ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_connection_with_many_sessions_gives_way_to_others() -> None:
    sessions = ShareSessions()
    released: list[ShareSession] = []
    sessions.released = released.append
    greedy = object()
    for number in range(4):
        sessions.open(member(number), names(T0), greedy, limit=4)
    sessions.open(member("a"), names(T0), object(), limit=4)
    assert [session.key for session in released] == [member(0)], "the oldest"
    assert refusal(sessions.open, member(9), names(T0), greedy, 4) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.open(member("b"), names(T0), object(), limit=4)
    assert refusal(sessions.open, member("c"), names(T0), greedy, 4) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.of_connection(greedy) == [sessions.find(member(2)), sessions.find(member(3))]
    assert (len(sessions), sessions.evictions) == (4, 2)


def test_a_connection_with_many_partitions_gives_way_to_others() -> None:
    sessions, greedy = ShareSessions(10 * PARTITION_BYTES), object()
    for number in range(5):
        sessions.open(member(number), many(2), greedy, limit=9)
    other = sessions.open(member("a"), many(3), object(), limit=9)
    assert [session.key for session in sessions.of_connection(greedy)] == [member(2), member(3), member(4)]
    sessions.reserve(other, 2, ())
    assert (len(sessions.of_connection(greedy)), sessions.partition_count) == (2, 9)
    assert refusal(sessions.reserve, other, 2, ()) is ErrorCode.SHARE_SESSION_LIMIT_REACHED, "it would hold more"
    assert sessions.evictions == 3


def test_few_partitions_of_a_session_may_be_unknown() -> None:
    sessions = ShareSessions()
    unknown = list(many(UNKNOWN_KEPT + 1))
    assert refusal(sessions.open, M, names(*unknown), object(), 9, unknown) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(sessions) == 0
    session = sessions.open(M, names(*unknown[1:]), object(), 9, unknown[1:])
    assert refusal(sessions.reserve, session, 1, unknown[:1]) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    session.update({}, unknown[1:2])
    sessions.reserve(session, 1, unknown[:1])
    assert len(session.unknown) == UNKNOWN_KEPT


def test_a_group_has_members_as_long_as_they_have_sessions() -> None:
    sessions = ShareSessions()
    sessions.open(M, {}, object(), limit=9)
    assert (sessions.has_group("g"), sessions.has_group("h"), sessions.has_member(M)) == (True, False, True)
    sessions.close(M)
    assert (sessions.has_group("g"), sessions.has_member(M)) == (False, False)
