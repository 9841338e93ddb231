"""security/sasl_client.py, message by message; commands/clients/login.py and the server's half are tested with it, too."""

from __future__ import annotations

import pytest

from ottla.security.sasl_client import MECHANISMS, NotTrusted, log_in

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
FINAL = f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()


def test_plain_is_one_message() -> None:
    messages = log_in("PLAIN", "alice", "s3cret", NONCE)
    assert next(messages) == b"\0alice\0s3cret"
    with pytest.raises(StopIteration):
        messages.send(b"")


def test_the_example_of_rfc_7677() -> None:
    messages = log_in("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(messages) == f"n,,n=user,r={NONCE}".encode()
    assert messages.send(CHALLENGE) == FINAL
    with pytest.raises(StopIteration):
        messages.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("answer", [b"", b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"v=!", b"e=other-error"])
def test_a_broker_that_does_not_know_the_password(answer: bytes) -> None:
    messages = log_in("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(messages)
    messages.send(CHALLENGE)
    with pytest.raises(NotTrusted, match="did not prove"):
        messages.send(answer)


@pytest.mark.parametrize("challenge", [b"", CHALLENGE.replace(b"i=4096", b"i=4095"), CHALLENGE.replace(b"r=r", b"r=s")])
def test_a_challenge_that_is_none(challenge: bytes) -> None:
    messages = log_in("SCRAM-SHA-512", "user", "pencil", NONCE)
    next(messages)
    with pytest.raises(NotTrusted, match=r"^the broker's answer to the login"):
        messages.send(challenge)


@pytest.mark.parametrize(("asked", "trusted"), [(5000, True), (5001, False)])
def test_a_broker_may_not_have_a_client_compute_more_than_it_wants(asked: int, trusted: bool) -> None:
    messages = log_in("SCRAM-SHA-256", "user", "pencil", NONCE, 5000)
    next(messages)
    challenge = CHALLENGE.replace(b"i=4096", b"i=%d" % asked)
    if trusted:
        assert messages.send(challenge).startswith(b"c=biws,")
        return
    with pytest.raises(NotTrusted, match=r"is not to be trusted$"):
        messages.send(challenge)


def test_the_mechanisms() -> None:
    assert MECHANISMS == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
