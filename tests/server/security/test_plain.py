"""PLAIN: who gets in, and what the others learn."""

from __future__ import annotations

import pytest

from ottla.log.config_def import Secret
from ottla.security.jaas import parse_modules
from ottla.server.security.mechanism import Done, Failed, Outcome
from ottla.server.security.plain import Plain, users_of

USERS = {"alice": Secret("hunter2"), "bob": Secret("sécret"), "": Secret("x"), "empty": Secret("")}


def answer(token: str | bytes) -> Outcome:
    return Plain(USERS).begin().step(token if isinstance(token, bytes) else token.encode())


def test_the_right_password() -> None:
    assert answer("\0alice\0hunter2") == Done("User:alice")
    assert answer("alice\0alice\0hunter2") == Done("User:alice")
    assert answer("\0bob\0sécret") == Done("User:bob")


def test_a_wrong_password_and_a_wrong_name_look_the_same() -> None:
    texts = {
        outcome.text
        for outcome in map(answer, ["\0alice\0hunter", "\0alice\0hunter22", "\0bob\0hunter2", "\0carol\0hunter2", "\0carol\0x"])
        if isinstance(outcome, Failed)
    }
    assert texts == {"The user name or the password is wrong."}
    assert answer("carol\0alice\0wrong") == answer("\0alice\0wrong")


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("", "PLAIN wants three parts in its token, which has 1."),
        ("alice\0hunter2", "PLAIN wants three parts in its token, which has 2."),
        ("\0alice\0hunter2\0", "PLAIN wants three parts in its token, which has 4."),
        ("\0\0x", "The user name is missing."),
        ("\0empty\0", "The password is missing."),
        ("bob\0alice\0hunter2", "A user cannot log in as another one."),
        (b"\0alice\0\xff", None),
    ],
)
def test_what_is_refused(token: str | bytes, text: str | None) -> None:
    outcome = answer(token)
    assert isinstance(outcome, Failed)
    assert outcome.text == text
    assert "hunter2" not in repr(outcome)


def test_names_in_the_log_are_escaped() -> None:
    outcome = answer("\0a\nb\0x")
    assert isinstance(outcome, Failed)
    assert outcome.reason == r"unknown user 'a\nb', or wrong password"


def test_users_are_options_of_the_module() -> None:
    (module,) = parse_modules(Secret('a.B required username="me" user_me="1" user_="2" user_user_x="3";'))
    assert {name: password.reveal() for name, password in users_of(module).items()} == {"me": "1", "": "2", "user_x": "3"}
