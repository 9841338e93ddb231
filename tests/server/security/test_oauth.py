"""OAUTHBEARER: the two messages, and tokens that nobody signed."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ottla.log.config_def import ConfigError, Secret
from ottla.security.jaas import Module
from ottla.server.security.mechanism import Challenge, Done, Failed
from ottla.server.security.oauth import OAuthBearer, Unsecured
from tests.fakes import NOW_MS

NOW = NOW_MS // 1000


def part(value: object) -> str:
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode().rstrip("=")


def token(header: object = None, **claims: Any) -> str:
    found = {"sub": "alice", "exp": NOW + 60, "iat": NOW, **claims}
    return f"{part({'alg': 'none'} if header is None else header)}.{part({k: v for k, v in found.items() if v is not None})}."


def mechanism(**options: str) -> OAuthBearer:
    module = Module("x", {f"unsecuredValidator{name}": Secret(value) for name, value in options.items()})
    return OAuthBearer(Unsecured(module, lambda: NOW_MS))


def message(shown: str, header: str = "n,,", more: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {shown}\x01{more}\x01".encode()


def test_a_token_logs_in_until_it_ends() -> None:
    assert mechanism().begin().step(message(token())) == Done("User:alice", b"", NOW_MS + 60_000)
    assert mechanism().begin().step(message(token(), "n,a=alice,")) == Done("User:alice", b"", NOW_MS + 60_000)
    assert mechanism().begin().step(message(token(), more="trace=on\x01")) == Done("User:alice", b"", NOW_MS + 60_000)
    assert mechanism().begin().step(message(token(exp=NOW + 0.5))) == Done("User:alice", b"", NOW_MS + 500)
    shown = message(token()).replace(b"Bearer ", b"bEARER   ")
    assert isinstance(mechanism().begin().step(shown), Done)


def test_a_refused_token_is_acknowledged_before_the_failure() -> None:
    exchange = mechanism().begin()
    assert exchange.step(message(token(exp=NOW - 1, iat=None))) == Challenge(b'{"status":"invalid_token"}')
    assert exchange.refused
    outcome = exchange.step(b"\x01")
    assert isinstance(outcome, Failed)
    assert (outcome.text, outcome.reason) == ('{"status":"invalid_token"}', "its token does not count: it has expired")
    exchange = mechanism().begin()
    assert not exchange.refused
    exchange.step(message("x"))
    assert exchange.step(message(token())) == Failed(None, "it did not acknowledge that its token is refused")


@pytest.mark.parametrize("name", ["\ud800", "a" * 1001])
def test_names_that_nobody_can_write_down(name: str) -> None:
    exchange = mechanism().begin()
    assert exchange.step(message(token(sub=name))) == Challenge(b'{"status":"invalid_token"}')
    assert isinstance(mechanism().begin().step(message(token(sub="a" * 1000))), Done)


def test_nobody_logs_in_as_another() -> None:
    outcome = mechanism().begin().step(message(token(), "n,a=root,"))
    assert outcome == Failed("A token can log in only the user it was issued for.", "'alice' wants to be 'root'")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,auth=Bearer x\x01\x01",
        b"n,a=b=c,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x y\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_first_messages_that_are_none(first: bytes) -> None:
    outcome = mechanism().begin().step(first)
    assert isinstance(outcome, Failed)
    assert outcome.text is None


@pytest.mark.parametrize(
    "shown",
    [
        "x",
        "a.b.c.",
        "..",
        token() + "c2ln",
        token({"alg": "HS256"}),
        token({}),
        token([]),
        part({"alg": "none"}) + ".e30.",
        part({"alg": "none"}) + "." + part(b"{") + ".",
        part({"alg": "none"}) + "." + part(b"[1]") + ".",
        part({"alg": "none"}) + "." + part(b"[" * 100_000) + ".",
        part({"alg": "none"}) + ".A.",
        token(sub=None),
        token(sub=""),
        token(sub=1),
        token(exp=None),
        token(exp="x"),
        token(exp=True),
        token(exp=float("inf")),
        token(exp=NOW),
        token(exp=NOW - 1),
        token(iat=NOW + 60),
        token(iat=NOW + 1),
        token(iat="x"),
    ],
)
def test_tokens_that_do_not_count(shown: str) -> None:
    outcome = mechanism().begin().step(message(shown))
    assert outcome == Challenge(b'{"status":"invalid_token"}')


def test_options() -> None:
    assert mechanism(PrincipalClaimName="name").begin().step(message(token(name="bob"))) == Done("User:bob", b"", NOW_MS + 60_000)
    assert isinstance(mechanism(AllowableClockSkewMs="2000").begin().step(message(token(exp=NOW - 1, iat=NOW - 9))), Done)
    assert isinstance(mechanism(AllowableClockSkewMs="1000").begin().step(message(token(exp=NOW - 1, iat=NOW - 9))), Challenge)
    with pytest.raises(ConfigError, match="unsecuredValidatorAllowableClockSkewMs is not a number"):
        mechanism(AllowableClockSkewMs="-1")


@pytest.mark.parametrize(
    ("scope", "fits"),
    [("read write", True), (["write", "read", "x"], True), ("read", False), (None, False), (7, False), ([7], False)],
)
def test_scopes(scope: object, fits: bool) -> None:
    outcome = mechanism(RequiredScope="read write").begin().step(message(token(scope=scope)))
    if fits:
        assert isinstance(outcome, Done)
    else:
        assert outcome == Challenge(b'{"status":"insufficient_scope","scope":"read write"}')
    assert isinstance(mechanism(RequiredScope="a", ScopeClaimName="scp").begin().step(message(token(scp=["a"]))), Done)
