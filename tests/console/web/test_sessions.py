"""Tests that whoever knows the token gets a session, which ends."""

from __future__ import annotations

from typing import Any

from ottla.console.web.sessions import EVERYBODY, IDLE_S, MAX_SESSIONS, ONCE_S, Ended, Sessions, mark_of, name_of


class Now:
    s = 0.0

    def __call__(self) -> float:
        return self.s


def made() -> tuple[Sessions, Now]:
    now, numbers = Now(), iter(range(1000))
    return Sessions("sesame", lambda count: next(numbers).to_bytes(count, "big"), now), now


def test_only_the_token_opens() -> None:
    sessions, _ = made()
    assert [sessions.open(wrong) for wrong in ("", "sesam", "sesame ", "SESAME", "\ud800", "ü")] == [None] * 6
    session = sessions.open("sesame")
    assert session is not None
    assert sessions.is_open(session)
    assert not sessions.is_open("")
    assert not sessions.is_open(session[:-1])


def test_a_session_ends_when_nobody_uses_it() -> None:
    sessions, now = made()
    session = sessions.open("sesame") or ""
    now.s = IDLE_S
    assert sessions.is_open(session)
    now.s += IDLE_S + 1
    assert not sessions.is_open(session)
    now.s = 0
    assert not sessions.is_open(session)


def test_the_oldest_of_too_many_ends() -> None:
    sessions, now = made()
    found = []
    for number in range(MAX_SESSIONS + 1):
        now.s = number
        found.append(sessions.open("sesame") or "")
    assert [sessions.is_open(session) for session in found].count(False) == 1
    assert not sessions.is_open(found[0])


def test_a_form_token_is_of_one_session_and_one_process() -> None:
    (sessions, _), (others, _) = made(), made()
    one, two = sessions.open("sesame") or "", sessions.open("sesame") or ""
    assert sessions.fits(one, sessions.form_token(one))
    assert not sessions.fits(one, sessions.form_token(two))
    assert not sessions.fits(one, "")
    assert not sessions.fits(one, "ü")
    others.open("sesame")
    assert one != two
    assert name_of(one) != name_of(two)
    assert name_of(one) not in one


def of_a_broker(now: Now, key: bytes = b"k", ended: Ended = Ended()) -> Sessions:  # noqa: B008 - a tuple
    return Sessions("sesame", lambda count: b"r" * count, now, key, ended=ended)


def test_a_session_goes_on_in_the_next_console_of_its_broker() -> None:
    now = Now()
    now.s = 10
    first = of_a_broker(now)
    session = first.open("sesame") or ""
    now.s = 20
    second = of_a_broker(now)
    assert second.is_open(session)
    assert second.fits(session, first.form_token(session))
    assert not of_a_broker(now, b"another").is_open(session)
    assert not Sessions("sesame", lambda count: b"r" * count, now).is_open(session)
    for wrong in (session[:-1], session.replace("-10.000", "-19.000"), "--", "-", "ü-1-2", "\ud800"):
        assert not second.is_open(wrong)
    now.s = 10 + IDLE_S + 1
    assert not of_a_broker(now).is_open(session)


def test_who_has_logged_out_stays_so_in_this_console_and_in_the_next() -> None:
    now = Now()
    now.s = 10
    session = of_a_broker(now).open("sesame") or ""
    now.s = 20
    told: list[tuple[str, float]] = []
    second = of_a_broker(now, ended=Ended(tell=lambda mark, opened: told.append((mark, opened))))
    assert second.is_open(session)
    second.end(session)
    assert not second.is_open(session)
    second.tell_end(session)
    assert told == [(mark_of(session), 10.0)]
    assert mark_of(session) not in session
    now.s = 30
    assert of_a_broker(now).is_open(session)  # of what it is not told it does not know
    assert not of_a_broker(now, ended=Ended(frozenset({mark_of(session)}))).is_open(session)
    assert not of_a_broker(now, ended=Ended(none_before=10.0)).is_open(session)
    assert of_a_broker(now, ended=Ended(none_before=9.9)).is_open(session)


def test_whether_a_session_is_still_open_does_not_keep_it_so() -> None:
    sessions, now = made()
    session = sessions.open("sesame") or ""
    now.s = IDLE_S
    assert sessions.is_still_open(session)
    now.s += 1
    assert not sessions.is_still_open(session)
    now.s = 0
    sessions.end(session)
    assert not sessions.is_still_open(session)
    users = Marks(alice="1")
    of_users = with_users(Now(), users)
    alice = of_users.open_for("alice", "1")
    users.marks.clear()
    assert not of_users.is_still_open(alice)
    assert Sessions(None, lambda count: b"r" * count, Now()).is_still_open(EVERYBODY)


def test_a_console_does_not_take_back_a_session_that_it_has_ended_itself() -> None:
    now = Now()
    sessions = of_a_broker(now)
    now.s = 1
    session = sessions.open("sesame") or ""
    assert sessions.is_open(session)
    sessions._last_seen.clear()
    assert not sessions.is_open(session)


def test_without_a_token_nobody_opens_a_session_and_all_have_the_same_form_token() -> None:
    one, other = (Sessions(None, lambda count: b"r" * count, Now(), key) for key in (b"k", b"another"))
    assert one.is_for_all
    assert [one.open(token) for token in ("", "None", "sesame")] == [None] * 3
    assert one.fits(EVERYBODY, one.form_token(EVERYBODY))
    assert not other.fits(EVERYBODY, one.form_token(EVERYBODY))
    assert name_of(EVERYBODY) == "-"


class Marks:
    """Users whose passwords have these marks."""

    def __init__(self, **marks: str) -> None:
        self.marks = marks

    def mark(self, name: str) -> str | None:
        return self.marks.get(name)


def with_users(now: Now, users: Any, key: bytes | None = None) -> Sessions:
    numbers = iter(range(1000))
    return Sessions(None, lambda count: next(numbers).to_bytes(count, "big"), now, key, users)


def test_a_user_s_session_ends_with_the_user_and_with_the_password() -> None:
    users = Marks(alice="1", bob="2")
    sessions = with_users(Now(), users)
    alice, bob = sessions.open_for("alice", "1"), sessions.open_for("bob", "2")
    assert not sessions.is_for_all
    assert [sessions.user_of(one) for one in (alice, bob, "none")] == ["alice", "bob", ""]
    users.marks["alice"] = "3"
    assert not sessions.is_open(alice)
    users.marks["alice"] = "1"
    assert not sessions.is_open(alice)  # it has ended
    assert sessions.is_open(bob)
    sessions.close(bob)
    assert not sessions.is_open(bob)
    assert (sessions._last_seen, sessions._holders) == ({}, {})


def test_a_user_s_session_goes_on_in_the_next_console_of_its_broker_as_that_user_s() -> None:
    now, users = Now(), Marks(**{"Ali-ce Ü": "1"})
    now.s = 10
    session = with_users(now, users, b"k").open_for("Ali-ce Ü", "1")
    now.s = 20
    second = with_users(now, users, b"k")
    assert not second.is_open(session.replace("-1-", "-2-"))
    assert second.is_open(session)
    assert second.user_of(session) == "Ali-ce Ü"
    users.marks.clear()
    assert not second.is_open(session)
    assert not with_users(now, users, b"k").is_open(session)
    assert not with_users(now, None, b"k").is_open(session)


def test_a_token_that_opens_once_does_so_soon_or_not_at_all() -> None:
    sessions, now = made()
    once = sessions.open_once()
    assert sessions.open(once[:-1]) is None
    session = sessions.open(once)
    assert session is not None
    assert sessions.is_open(session)
    assert sessions.open(once) is None
    once = sessions.open_once()
    now.s = ONCE_S + 1
    assert sessions.open(once) is None
    assert sessions.open("sesame") is not None
