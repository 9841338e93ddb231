"""`ottla user`: mechanisms, and what is sent in place of the password. compat_tests/test_commands_acl.py has the cluster."""

from __future__ import annotations

import io

import pytest
import typer

from ottla.commands import user
from ottla.commands.output import Failure
from ottla.wire.scram import make_keys


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_mechanisms() -> None:
    assert user.mechanisms(None) == [1, 2]
    assert user.mechanisms(["scram-sha-512", "scram-sha-512"]) == [2]
    with pytest.raises(typer.BadParameter, match="'PLAIN' is not one of SCRAM-SHA-256, SCRAM-SHA-512"):
        user.mechanisms(["PLAIN"])


def test_a_password_is_salted_as_in_rfc_7677() -> None:
    salt = bytes.fromhex("5b6d99689d1235 8eec a04b14123681fa81".replace(" ", ""))
    wish = user.credential("user", 1, 4096, "pencil", salt)
    assert (wish.name, wish.mechanism, wish.iterations, wish.salt) == ("user", 1, 4096, salt)
    stored_key, server_key = make_keys("sha256", wish.salted_password)
    assert len(stored_key) == len(server_key) == 32
    assert b"pencil" not in wish.salted_password
    assert user.credential("user", 2, 4096, "pencil", salt).salted_password != wish.salted_password


def test_where_a_password_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("se cret\r\nmore\n"))
    assert user.read_password("u") == "se cret"
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    with pytest.raises(typer.BadParameter, match="a password is needed"):
        user.read_password("u")
    monkeypatch.setattr("sys.stdin", Terminal())
    typed = iter(["one", "two", "three", "three"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    with pytest.raises(Failure, match="not the same"):
        user.read_password("u")
    assert user.read_password("u") == "three"
