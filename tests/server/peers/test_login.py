"""Logging in to another node: what is asked and what its answers mean, in both kinds of connections."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.config_def import Secret
from ottla.server.peers.login import RENEWED_AT, login_calls
from ottla.server.peers.outcomes import Disconnected
from ottla.server.security.client import SaslLogin
from ottla.server.security.mechanism import Challenge, Done
from ottla.server.security.scram import Credential, Scram
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.scram import make_keys, salt_password

NAME = "other:9092"


HOSTILE = "a\nb" * 1000


def login(mechanism: str, password: str = "s3cret") -> SaslLogin:
    return SaslLogin(mechanism, "broker", Secret(password), lambda: "nonce")


def test_plain() -> None:
    calls = login_calls(login("PLAIN"), NAME)
    handshake = next(calls)
    assert isinstance(handshake.request, SaslHandshakeRequest)
    assert (handshake.request.mechanism, handshake.min_version) == ("PLAIN", 1)
    sent = calls.send(SaslHandshakeResponse(0, ["PLAIN"]))
    assert isinstance(sent.request, SaslAuthenticateRequest)
    assert sent.request.auth_bytes == b"\0broker\0s3cret"
    with pytest.raises(StopIteration) as end:
        calls.send(SaslAuthenticateResponse(session_lifetime_ms=4_000))
    assert end.value.value == RENEWED_AT * 4


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
@pytest.mark.parametrize("password", ["s3cret", "another"])
def test_scram_against_our_own_half(digest: str, password: str) -> None:
    salted = salt_password(digest, "s3cret", b"salt", 4096)
    mechanism = f"SCRAM-SHA-{digest[3:]}"
    known = Credential(b"salt", 4096, make_keys(digest, salted))
    server = Scram(mechanism, digest, lambda name: known, lambda _: None, lambda: "more").begin()
    calls = login_calls(login(mechanism, password), NAME)
    next(calls)
    call = calls.send(SaslHandshakeResponse(0, [mechanism]))
    challenge = server.step(call.request.auth_bytes)  # type: ignore[attr-defined]  # it is a SaslAuthenticateRequest
    assert isinstance(challenge, Challenge)
    call = calls.send(SaslAuthenticateResponse(auth_bytes=challenge.token))
    outcome = server.step(call.request.auth_bytes)  # type: ignore[attr-defined]  # it is a SaslAuthenticateRequest
    assert isinstance(outcome, Done) == (password == "s3cret")
    if isinstance(outcome, Done):
        assert outcome.principal == "User:broker"
        with pytest.raises(StopIteration) as end:
            calls.send(SaslAuthenticateResponse(auth_bytes=outcome.token))
        assert end.value.value == 0, "it lasts"
    with pytest.raises((Disconnected, StopIteration)):
        calls.send(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "no"))


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (
            [SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["GSSAPI", "X"])],
            "other:9092 does not take logins by SCRAM-SHA-256, but by 'GSSAPI, X'",
        ),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "who?")],
            "other:9092 refuses the login of broker by SCRAM-SHA-256: 'who?'",
        ),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"nonsense")],
            "logging in to other:9092 as broker by SCRAM-SHA-256: the broker's answer to the login cannot be read",
        ),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"r=nonce,s=c2FsdA==,i=16385")],
            "logging in to other:9092 as broker by SCRAM-SHA-256: the broker's answer to the login is not to be trusted",
        ),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"r=nonce,s=c2FsdA==,i=" + HOSTILE.encode())],
            "logging in to other:9092 as broker by SCRAM-SHA-256: the broker's answer to the login cannot be read",
        ),
        (
            [SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, [HOSTILE, HOSTILE])],
            "other:9092 does not take logins by SCRAM-SHA-256, but by 'a\\nb",
        ),
        (
            [SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, [])],
            "other:9092 does not take logins by SCRAM-SHA-256, but by nothing else, either",
        ),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, HOSTILE)],
            "other:9092 refuses the login of broker by SCRAM-SHA-256: 'a\\nb",
        ),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, None)],
            "other:9092 refuses the login of broker by SCRAM-SHA-256: ''",
        ),
    ],
)
def test_what_ends_a_login(answers: list[Any], text: str) -> None:
    calls = login_calls(login("SCRAM-SHA-256"), NAME)
    next(calls)
    for answer in answers[:-1]:
        calls.send(answer)
    with pytest.raises(Disconnected) as caught:
        calls.send(answers[-1])
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert "s3cret" not in str(caught.value)
