"""Logging in with SASL on a connection of our own (direct.py): what is sent and what must come back, without the network.

PLAIN follows RFC 4616, SCRAM-SHA-256 and SCRAM-SHA-512 follow RFC 5802 and 7677. With SCRAM the password is never sent, and the
broker proves that it knows it, too. OAUTHBEARER follows RFC 7628; nobody signs the token, as in librdkafka. Names and passwords
are encoded as UTF-8, as in librdkafka. `exchange` sends a message to the broker and returns its answer; `nonce` is random
printable text without a comma.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Final

from ottla.commands.output import Failure
from ottla.wire.scram import DIGESTS, client_proof, escape_name, make_keys, salt_password, server_signature

Exchange = Callable[[bytes], bytes]

OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", *DIGESTS, OAUTHBEARER)
"""The mechanisms that are known here. For OAUTHBEARER there is a function of its own."""
_GS2_HEADER: Final = b"n,,"  # no channel binding, no authorization identity
_MIN_ITERATIONS: Final = 4096  # RFC 7677; with fewer, the password could be guessed cheaply from the proof
_MAX_ITERATIONS: Final = 10_000_000


def log_in(mechanism: str, name: str, password: str, exchange: Exchange, nonce: str) -> None:
    """Logs in. Raises Failure if the broker refuses, or does not prove that it knows the password."""
    if mechanism == "PLAIN":
        exchange(f"\0{name}\0{password}".encode())
    else:
        _scram(DIGESTS[mechanism], name, password, exchange, nonce)


def send_token(properties: Mapping[str, str], exchange: Exchange, now_s: float) -> None:
    """Logs in with a token of our own, as librdkafka's property sasl.oauthbearer.config describes it; `now_s` is the wall time.
    Raises Failure if the broker refuses it, or if the token would come from elsewhere."""
    if properties.get("enable.sasl.oauthbearer.unsecure.jwt", "false").lower() != "true":
        raise Failure(
            "this needs a connection of ottla's own, which gets no tokens of OAUTHBEARER from a server; use PLAIN or SCRAM for it"
        )
    words = dict(word.split("=", 1) for word in properties.get("sasl.oauthbearer.config", "").split() if "=" in word)
    claims: dict[str, object] = {
        words.get("principalClaimName", "sub"): words.get("principal", ""),
        "iat": now_s,
        "exp": now_s + float(words.get("lifeSeconds", "3600")),
    }
    if scope := words.get("scope"):
        claims[words.get("scopeClaimName", "scope")] = scope.split(",")
    token = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims))
    extensions = b"".join(
        f"{name.removeprefix('extension_')}={value}\1".encode() for name, value in words.items() if name.startswith("extension_")
    )
    answer = exchange(b"n,,\1auth=Bearer " + token + b".\1" + extensions + b"\1")
    if answer:
        exchange(b"\1")  # the broker then says why not
        raise Failure("the broker refused the token")


def _scram(digest: str, name: str, password: str, exchange: Exchange, nonce: str) -> None:
    first = f"n={escape_name(name)},r={nonce}".encode()
    challenge = exchange(_GS2_HEADER + first)
    try:
        asked = _attributes(challenge)
        whole_nonce, salt, iterations = asked["r"], base64.b64decode(asked["s"], validate=True), int(asked["i"])
    except (KeyError, ValueError) as error:  # binascii.Error is a ValueError
        raise Failure(f"the broker's answer to the login cannot be read ({error})") from None
    if not whole_nonce.startswith(nonce) or not _MIN_ITERATIONS <= iterations <= _MAX_ITERATIONS:
        raise Failure("the broker's answer to the login is not to be trusted")
    salted = salt_password(digest, password, salt, iterations)
    final = b"c=" + base64.b64encode(_GS2_HEADER) + b",r=" + whole_nonce.encode()
    signed = b",".join((first, challenge, final))
    answer = exchange(final + b",p=" + base64.b64encode(client_proof(digest, salted, signed)))
    expected = server_signature(digest, make_keys(digest, salted).server, signed)
    try:
        verifier = base64.b64decode(_attributes(answer).get("v", ""), validate=True)
    except ValueError:
        verifier = b""
    if not hmac.compare_digest(verifier, expected):
        raise Failure("the broker did not prove that it knows the password")


def _attributes(message: bytes) -> dict[str, str]:
    """Parses `r=...,s=...,i=...`. Raises ValueError for anything else."""
    return {key: value for key, equals, value in (part.partition("=") for part in message.decode().split(",")) if equals}
