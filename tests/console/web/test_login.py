"""Tests of how somebody gets a session, and who gets none."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from compat_tests.password_files import PASSWORD, line, write
from ottla.console.web.attempts import FROM_SOURCE, WITHIN_S, Attempts
from ottla.console.web.login import WAITING, LetIn, Login, NotLetIn, is_here
from ottla.console.web.sessions import Sessions
from ottla.console.web.users import Users
from ottla.security.addresses import source_of

TOKEN = "the token of the tests"


class Now:
    s = 0.0

    def __call__(self) -> float:
        return self.s


class House:
    def __init__(self, directory: Path, *, remote: bool = True) -> None:
        self.file = directory / "users"
        write(self.file, line("alice") + line("bob"))
        self.now, self.users = Now(), Users(self.file)
        numbers = iter(range(1, 1000))
        self.sessions = Sessions(TOKEN, lambda count: next(numbers).to_bytes(count, "big"), self.now, users=self.users)
        self.login = Login(self.sessions, self.users, Attempts(self.now), from_here_only=remote)

    def enter(self, address: str = "192.0.2.1", **fields: str) -> LetIn:
        return asyncio.run(self.login.let_in(fields, address))

    def why_not(self, address: str = "192.0.2.1", **fields: str) -> NotLetIn:
        with pytest.raises(NotLetIn) as raised:
            self.enter(address, **fields)
        return raised.value


def test_a_user_has_a_session_as_long_as_the_password_is_that_one(tmp_path: Path) -> None:
    house = House(tmp_path)
    session, user = house.enter(name="alice", password=PASSWORD)
    assert user == house.sessions.user_of(session) == "alice"
    assert house.sessions.is_open(session)
    other, _ = house.enter(name="bob", password=PASSWORD)
    write(house.file, line("alice", "another password") + line("bob"))
    assert not house.sessions.is_open(session)
    assert house.sessions.is_open(other)
    write(house.file, line("alice", "another password"))
    assert not house.sessions.is_open(other)


@pytest.mark.parametrize(
    ("fields", "log"),
    [
        ({"name": "alice", "password": "wrong"}, "wrong password of 'alice'"),
        ({"name": "alice"}, "wrong password of 'alice'"),
        ({"name": PASSWORD, "password": ""}, "no such user"),  # typed into the wrong field, it is in no log
        ({"name": "", "password": PASSWORD}, "no such user"),
        ({"token": "wrong"}, "wrong token"),
        ({}, "wrong token"),
    ],
)
def test_who_is_wrong_learns_no_more_than_that(tmp_path: Path, fields: dict[str, str], log: str) -> None:
    why = House(tmp_path).why_not(**fields)
    assert (why.status, why.log) == (401, log)
    assert why.advice == ("Name or password is wrong." if "name" in fields else "That is not the token.")


def test_the_token_counts_on_this_machine_only_where_others_ask(tmp_path: Path) -> None:
    house = House(tmp_path)
    assert house.why_not("192.0.2.1", token=TOKEN).status == 401
    for here in ("127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"):
        assert house.enter(here, token=TOKEN).user == ""
    assert House(tmp_path, remote=False).enter("192.0.2.1", token=TOKEN).user == ""


def test_too_many_wrong_passwords_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path)
    session, _ = house.enter(name="alice", password=PASSWORD)
    assert [house.why_not(name="alice", password="x").status for _ in range(FROM_SOURCE)] == [401] * FROM_SOURCE
    checked: list[str] = []
    monkeypatch.setattr(house.users, "fits", lambda name, _: not checked.append(name))  # type: ignore[func-returns-value]  # None is no answer
    why = house.why_not(name="alice", password=PASSWORD)
    assert (why.status, why.advice) == (429, "There were too many wrong passwords. Try again in 15 min.")
    assert (checked, why.log) == ([], "")  # nor does the log grow
    assert house.sessions.is_open(session)
    assert house.enter("192.0.2.2", name="alice", password=PASSWORD).user == "alice"
    house.now.s = WITHIN_S
    assert house.enter(name="alice", password=PASSWORD).user == "alice"


def test_attempts_at_the_same_time_are_bounded_and_checked_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path)
    two = threading.Barrier(2)
    met: list[int] = []

    def slow(*_: object) -> bool:
        with suppress(threading.BrokenBarrierError):
            two.wait(0.2)  # for another one at the same time; once it has not come, nobody waits any more
            met.append(1)
        return False

    monkeypatch.setattr(house.users, "fits", slow)

    async def all_at_once() -> list[Any]:
        tries = [house.login.let_in({"name": "alice", "password": "x"}, f"192.0.2.{number}") for number in range(WAITING + 3)]
        return await asyncio.gather(*tries, return_exceptions=True)

    statuses = [why.status for why in asyncio.run(all_at_once())]
    assert statuses == [401] * WAITING + [503] * 3
    assert met == []


def test_sources() -> None:
    assert source_of("192.0.2.1") == source_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert source_of("2001:db8::1") == source_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert source_of("fe80::1%eth0") == "fe80::/64"
    assert source_of("?") == "?"
    assert [is_here(each) for each in ("?", "192.0.2.1", "::ffff:192.0.2.1", "::2")] == [False] * 4
