"""commands/clients/login.py: SCRAM by the examples in its RFCs, and brokers that cheat."""

from __future__ import annotations

import base64
import json

import pytest

from ottla.commands.clients.login import log_in, send_token
from ottla.commands.output import Failure

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"n,,n=user,r={NONCE}"
CHALLENGE = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERIFIER = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(*answers: str, name: str = "user") -> list[str]:
    """Returns what is sent to a broker that gives these answers."""
    sent: list[str] = []
    coming = iter(answers)

    def exchange(message: bytes) -> bytes:
        sent.append(message.decode())
        return next(coming).encode()

    log_in("SCRAM-SHA-256", name, "pencil", exchange, NONCE)
    return sent


def test_the_example_of_rfc_7677() -> None:
    assert scram(CHALLENGE, VERIFIER) == [FIRST, FINAL]


def test_a_name_with_commas() -> None:
    with pytest.raises(Failure):
        scram("", name="a=b,c")
    sent: list[bytes] = []

    def refuse(message: bytes) -> bytes:
        sent.append(message)
        raise Failure("no")

    with pytest.raises(Failure):
        log_in("SCRAM-SHA-512", "a=b,c", "p", refuse, "N")
    assert sent == [b"n,,n=a=3Db=2Cc,r=N"]


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        ("", "cannot be read"),
        ("r=x", "cannot be read"),
        (CHALLENGE.replace("i=4096", "i=many"), "cannot be read"),
        (CHALLENGE.replace("s=W22", "s=!"), "cannot be read"),
        (CHALLENGE.replace(NONCE, "another"), "not to be trusted"),
        (CHALLENGE.replace("i=4096", "i=1"), "not to be trusted"),
        (CHALLENGE.replace("i=4096", "i=99999999999"), "not to be trusted"),
    ],
)
def test_challenges_that_are_none(challenge: str, why: str) -> None:
    with pytest.raises(Failure, match=why):
        scram(challenge, VERIFIER)


@pytest.mark.parametrize("answer", ["", "e=invalid-proof", "v=!", f"v={base64.b64encode(bytes(32)).decode()}"])
def test_a_broker_that_does_not_know_the_password(answer: str) -> None:
    with pytest.raises(Failure, match="did not prove that it knows the password"):
        scram(CHALLENGE, answer)


def test_plain() -> None:
    sent: list[bytes] = []

    def send(message: bytes) -> bytes:
        sent.append(message)
        return b""

    log_in("PLAIN", "me", "sécret", send, "")
    assert sent == ["\0me\0sécret".encode()]


UNSECURED = {"enable.sasl.oauthbearer.unsecure.jwt": "true"}


def test_a_token_that_nobody_signs() -> None:
    sent: list[bytes] = []

    def accept(message: bytes) -> bytes:
        sent.append(message)
        return b""

    config = "principal=al=ice scope=a,b lifeSeconds=60 scopeClaimName=may principalClaimName=who extension_tenant=7"
    send_token({**UNSECURED, "sasl.oauthbearer.config": config}, accept, 1000.5)
    send_token({**UNSECURED, "sasl.oauthbearer.config": "principal=bob"}, accept, 1000)
    claims = []
    for message in sent:
        head, auth, *extensions, last, end = message.split(b"\1")
        assert (head, last, end) == (b"n,,", b"", b"")
        header, body, signature = auth.removeprefix(b"auth=Bearer ").split(b".")
        assert json.loads(base64.urlsafe_b64decode(header + b"==")) == {"alg": "none"}
        assert signature == b""
        claims.append((json.loads(base64.urlsafe_b64decode(body + b"==")), extensions))
    assert claims == [
        ({"who": "al=ice", "iat": 1000, "exp": 1060.5, "may": ["a", "b"]}, [b"tenant=7"]),
        ({"sub": "bob", "iat": 1000, "exp": 4600}, []),
    ]


def test_a_token_that_is_refused() -> None:
    answers = iter([b'{"status":"invalid_token"}', b""])
    sent: list[bytes] = []

    def refuse(message: bytes) -> bytes:
        sent.append(message)
        return next(answers)

    with pytest.raises(Failure, match="the broker refused the token"):
        send_token({**UNSECURED, "sasl.oauthbearer.config": "principal=bob"}, refuse, 1000)
    assert sent[1:] == [b"\1"]
    with pytest.raises(Failure, match="gets no tokens of OAUTHBEARER from a server"):
        send_token({"sasl.oauthbearer.method": "oidc"}, refuse, 1000)
