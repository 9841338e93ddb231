"""The broker's side of SCRAM: against the example of RFC 7677, against the client of commands/clients/login.py, and against who
cheats."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from ottla.commands.clients.login import log_in
from ottla.commands.output import Failure
from ottla.server.security.mechanism import Challenge, Done, Failed
from ottla.server.security.scram import LONGEST_MESSAGE, LONGEST_NONCE, Credential, Scram, TokenCredential
from ottla.wire.scram import DIGESTS, client_proof, make_keys, salt_password

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE, MORE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"n,,n=user,r={NONCE}"
CHALLENGE = f"r={NONCE}{MORE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = f"c=biws,r={NONCE}{MORE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
PROOF = FINAL.partition(",p=")[2]


def credential(digest: str, password: str) -> Credential:
    return Credential(SALT, 4096, make_keys(digest, salt_password(digest, password, SALT, 4096)))


def mechanism(name: str = "SCRAM-SHA-256", more: str = MORE) -> Scram:
    digest = DIGESTS[name]
    users = {user: credential(digest, password) for user, password in (("user", "pencil"), ("a=b,c", "comma"), ("ünï", "ç"))}
    tokens = {"token-id": TokenCredential(credential(digest, "aG1hYw=="), "User:owner", 12345)}
    return Scram(name, digest, users.get, tokens.get, lambda: more)


def test_the_example_of_rfc_7677() -> None:
    exchange = mechanism().begin()
    assert exchange.step(FIRST.encode()) == Challenge(CHALLENGE.encode())
    assert exchange.step(FINAL.encode()) == Done("User:user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def play(scram: Scram, name: str, password: str, mend: Callable[[bytes], bytes] = lambda message: message) -> Done:
    """Logs in with commands/clients/login.py; returns how it ended. Raises Failure if it did not, or not for the client."""
    exchange, outcomes = scram.begin(), []

    def send(message: bytes) -> bytes:
        outcome = exchange.step(mend(message))
        outcomes.append(outcome)
        if isinstance(outcome, Failed):
            raise Failure(outcome.reason)
        return outcome.token

    log_in(scram.name, name, password, send, "client-nonce")
    assert isinstance(outcomes[-1], Done)
    return outcomes[-1]


@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.parametrize(("user", "password"), [("user", "pencil"), ("a=b,c", "comma"), ("ünï", "ç")])
def test_both_sides(name: str, user: str, password: str) -> None:
    assert play(mechanism(name), user, password).principal == f"User:{user}"


@pytest.mark.parametrize("name", DIGESTS)
def test_wrong_ones(name: str) -> None:
    with pytest.raises(Failure, match="wrong password of 'User:user'"):
        play(mechanism(name), "user", "pencil ")
    with pytest.raises(Failure, match=f"user 'nobody' has no credential of {name}"):
        play(mechanism(name), "nobody", "pencil")
    with pytest.raises(Failure, match="user 'token-id' has no credential"):
        play(mechanism(name), "token-id", "aG1hYw==")


@pytest.mark.parametrize("name", DIGESTS)
def test_a_delegation_token_stands_for_its_owner(name: str) -> None:
    # The client knows no extensions, and what is signed has them: so the broker is shown them and the client's proof is over
    # them.
    scram, first = mechanism(name), b"n,,n=token-id,r=client-nonce,tokenauth=true"
    exchange = scram.begin()
    challenge = exchange.step(first)
    assert isinstance(challenge, Challenge)
    digest = DIGESTS[name]
    unproved = b"c=biws,r=client-nonce" + MORE.encode()
    signed = first[3:] + b"," + challenge.token + b"," + unproved
    proof = base64.b64encode(client_proof(digest, salt_password(digest, "aG1hYw==", SALT, 4096), signed))
    done = exchange.step(unproved + b",p=" + proof)
    assert isinstance(done, Done)
    assert (done.principal, done.expires_ms, done.by_delegation_token) == ("User:owner", 12345, True)


def test_a_user_is_no_token() -> None:
    outcome = mechanism().begin().step(b"n,,n=user,r=x,tokenauth=true")
    assert isinstance(outcome, Failed)
    assert outcome.text is None
    assert isinstance(mechanism().begin().step(b"n,,n=user,r=x,tokenauth=false"), Challenge)
    assert isinstance(mechanism().begin().step(b"n,,n=token-id,r=x,tokenauth=TRUE"), Challenge)


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("", "not one of SCRAM"),
        ("n", "not one of SCRAM"),
        ("y,,n=user,r=x", "not one of SCRAM"),
        ("p=tls-unique,,n=user,r=x", "not one of SCRAM"),
        ("n,,n=user", "not one of SCRAM"),
        ("n,,n=user,r=", "not one of SCRAM"),
        ("n,,n=,r=x", "not one of SCRAM"),
        ("n,,r=x,n=user", "not one of SCRAM"),
        ("n,,m=x,n=user,r=x", "not one of SCRAM"),
        ("n,,n=user,r=a b", "not one of SCRAM"),
        ("n,,n=user,r=x,=1", "not one of SCRAM"),
        ("n,,n=user,r=x,", "not one of SCRAM"),
        ("n,,n=us\0er,r=x", "not one of SCRAM"),
        ("n,a=,n=user,r=x", "not one of SCRAM"),
        ("n,,n=a=b,r=x", "is not escaped"),
        ("n,a=other,,n=user,r=x", "not one of SCRAM"),
    ],
)
def test_first_messages_that_are_none(first: str, why: str) -> None:
    outcome = mechanism().begin().step(first.encode())
    assert isinstance(outcome, Failed)
    assert outcome.text is None
    assert why in outcome.reason


def test_what_is_kept_of_a_client_is_bounded() -> None:
    longest = f"n,,n=user,r={'x' * LONGEST_NONCE}"
    longest += ",trace=" + "x" * (LONGEST_MESSAGE - len(longest) - len(",trace="))
    assert isinstance(mechanism().begin().step(longest.encode()), Challenge)
    for message, why in ((longest + "x", "2049 bytes"), (f"n,,n=user,r={'x' * (LONGEST_NONCE + 1)}", "its nonce has 257")):
        outcome = mechanism().begin().step(message.encode())
        assert isinstance(outcome, Failed)
        assert outcome.text is None
        assert why in outcome.reason


def test_a_user_cannot_be_another() -> None:
    assert isinstance(mechanism().begin().step(b"n,a=user,n=user,r=x"), Challenge)
    outcome = mechanism().begin().step(b"n,a=root,n=user,r=x")
    assert outcome == Failed("A user cannot log in as another one.", "'user' wants to be 'root'")


def test_an_unknown_extension_is_none_of_our_business() -> None:
    assert isinstance(mechanism().begin().step(b"n,,n=user,r=x,trace=on"), Challenge)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (FINAL, "", "is not one of SCRAM"),
        (",p=", ",q=", "is not one of SCRAM"),
        (PROOF, "!", "is not one of SCRAM"),
        (PROOF, "abc", "invalid base64"),
        (PROOF, base64.b64encode(bytes(32)).decode(), "wrong password"),
        (PROOF, base64.b64encode(bytes(31)).decode(), "wrong password"),
        (PROOF, "", "is not one of SCRAM"),
        (f"r={NONCE}{MORE}", f"r={NONCE}", "another nonce"),
        (f"r={NONCE}{MORE}", f"r={MORE}", "another nonce"),
        (f"r={NONCE}{MORE}", f"r={NONCE}{MORE}x", "another nonce"),
        ("c=biws", "c=AAAA", "does not repeat the header"),
        ("c=biws", "c=eSws", "does not repeat the header"),
    ],
)
def test_last_messages_that_are_wrong(old: str, new: str, why: str) -> None:
    exchange = mechanism().begin()
    assert isinstance(exchange.step(FIRST.encode()), Challenge)
    outcome = exchange.step(FINAL.replace(old, new).encode())
    assert isinstance(outcome, Failed)
    assert outcome.text is None
    assert why in outcome.reason


def test_bytes_that_are_no_text() -> None:
    exchange = mechanism().begin()
    assert isinstance(exchange.step(b"\xff"), Failed)
    exchange = mechanism().begin()
    exchange.step(FIRST.encode())
    assert isinstance(exchange.step(b"\xff"), Failed)
