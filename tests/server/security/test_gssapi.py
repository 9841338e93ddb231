"""GSSAPI: the tokens up to the security layer, and each wrong one; with a library that does what the test says."""

from __future__ import annotations

import pytest

from ottla.server.security.gssapi import LONGEST_TOKEN, Gssapi, GssapiExchange, NotAccepted
from ottla.server.security.kerberos_names import LocalNames
from ottla.server.security.mechanism import Challenge, Done, Failed


class Library:
    """A context that takes `rounds` tokens, answers each but `last` one with another, and wraps by brackets."""

    def __init__(self, rounds: int = 1, last: bytes = b"", principal: str = "alice@HOME") -> None:
        self.rounds = rounds
        self.last = last
        self.principal = principal

    @property
    def established(self) -> bool:
        return self.rounds == 0

    def accept(self, token: bytes) -> bytes:
        if token == b"bad":
            raise NotAccepted("it is bad")
        self.rounds -= 1
        return self.last if self.established else b"more"

    def client(self) -> str:
        return self.principal

    def wrap(self, message: bytes) -> bytes:
        return b"<" + message + b">"

    def unwrap(self, token: bytes) -> bytes:
        if token[:1] + token[-1:] != b"<>":
            raise NotAccepted("it is not wrapped")
        return token[1:-1]


OFFER = Challenge(b"<\x01\0\0\0>")


def begin(library: Library) -> GssapiExchange:
    return Gssapi(lambda: library, LocalNames(("DEFAULT",), "HOME")).begin()


def test_a_login() -> None:
    exchange = begin(Library(last=b"answer"))
    assert exchange.step(b"ticket") == Challenge(b"answer")
    assert exchange.step(b"") == OFFER
    assert exchange.step(b"<\x01\0\0\0>") == Done("User:alice")


def test_a_login_of_more_tokens_and_without_a_last_answer() -> None:
    exchange = begin(Library(rounds=3))
    assert exchange.step(b"one") == exchange.step(b"two") == Challenge(b"more")
    assert exchange.step(b"three") == OFFER
    assert exchange.step(b"<\x01\xff\xff\xffmallory>") == Done("User:alice")


def test_what_is_not_accepted() -> None:
    assert begin(Library()).step(b"bad") == Failed(None, "its ticket does not count: it is bad")
    exchange = begin(Library(last=b"answer"))
    exchange.step(b"ticket")
    assert exchange.step(b"x") == Failed(None, "it sent a token where none belongs")


@pytest.mark.parametrize("first", [b"", b"ticket"])
def test_a_token_that_is_too_long(first: bytes) -> None:
    exchange = begin(Library())
    if first:
        exchange.step(first)
    assert exchange.step(b"x" * (LONGEST_TOKEN + 1)) == Failed(None, "its token is longer than 65536 bytes")
    assert begin(Library()).step(b"x" * LONGEST_TOKEN) == OFFER


@pytest.mark.parametrize("chosen", [b"\x02\0\0\0", b"\x03\0\0\0", b"\0\0\0\0", b"\x01\0\0", b""])
def test_layers_that_there_are_not(chosen: bytes) -> None:
    exchange = begin(Library())
    assert exchange.step(b"ticket") == OFFER
    assert exchange.step(b"<" + chosen + b">") == Failed(None, "it wants a security layer, and there is none")


def test_a_choice_that_is_not_wrapped() -> None:
    exchange = begin(Library())
    exchange.step(b"ticket")
    assert exchange.step(b"\x01\0\0\0") == Failed(None, "its ticket does not count: it is not wrapped")


def test_a_principal_that_no_rule_knows() -> None:
    exchange = begin(Library(principal="alice@AWAY"))
    exchange.step(b"ticket")
    outcome = exchange.step(b"<\x01\0\0\0>")
    assert outcome == Failed(None, "no rule of sasl.kerberos.principal.to.local.rules makes a user of 'alice@AWAY'")
