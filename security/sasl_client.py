"""The client's side of a SASL login, message by message: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

`log_in` is a generator: it yields what the client sends, and is sent what the broker answers. It ends when the login is complete.
Whoever drives it brings the connection, so brokers and commands share it. With SCRAM the password is never sent, and the broker
proves that it knows it, too. Names and passwords are encoded as UTF-8, as in librdkafka and Kafka.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Generator
from typing import Final

from ottla.wire.scram import DIGESTS, client_proof, escape_name, make_keys, salt_password, server_signature

Messages = Generator[bytes, bytes, None]

MECHANISMS: Final = ("PLAIN", *DIGESTS)
_GS2_HEADER: Final = b"n,,"  # no channel binding, no authorization identity
_MIN_ITERATIONS: Final = 4096  # RFC 7677; with fewer, the password could be guessed cheaply from the proof
MOST_ITERATIONS: Final = 10_000_000
"""So many a broker may ask for, unless a caller says otherwise; who waits for them can interrupt them."""


class NotTrusted(Exception):
    """The broker's answer to a login is none, or shows that it does not know the password. The text is one line."""


def log_in(mechanism: str, name: str, password: str, nonce: str, most_iterations: int = MOST_ITERATIONS) -> Messages:
    """Yields the client's messages by one of MECHANISMS; `nonce` is random printable text without a comma. A broker that has this
    compute more iterations of a hash than `most_iterations` is none to trust. Raises NotTrusted."""
    if mechanism == "PLAIN":
        yield f"\0{name}\0{password}".encode()
    else:
        yield from _scram(DIGESTS[mechanism], name, password, nonce, most_iterations)


def _scram(digest: str, name: str, password: str, nonce: str, most_iterations: int) -> Messages:
    first = f"n={escape_name(name)},r={nonce}".encode()
    challenge = yield _GS2_HEADER + first
    try:
        asked = _attributes(challenge)
        whole_nonce, salt, iterations = asked["r"], base64.b64decode(asked["s"], validate=True), int(asked["i"])
    except (KeyError, ValueError) as error:  # binascii.Error is a ValueError
        raise NotTrusted(f"the broker's answer to the login cannot be read ({error})") from None
    if not whole_nonce.startswith(nonce) or not _MIN_ITERATIONS <= iterations <= most_iterations:
        raise NotTrusted("the broker's answer to the login is not to be trusted")
    salted = salt_password(digest, password, salt, iterations)
    final = b"c=" + base64.b64encode(_GS2_HEADER) + b",r=" + whole_nonce.encode()
    signed = b",".join((first, challenge, final))
    answer = yield final + b",p=" + base64.b64encode(client_proof(digest, salted, signed))
    expected = server_signature(digest, make_keys(digest, salted).server, signed)
    try:
        verifier = base64.b64decode(_attributes(answer).get("v", ""), validate=True)
    except ValueError:
        verifier = b""
    if not hmac.compare_digest(verifier, expected):
        raise NotTrusted("the broker did not prove that it knows the password")


def _attributes(message: bytes) -> dict[str, str]:
    """Parses `r=...,s=...,i=...`. Raises ValueError for anything else."""
    return {key: value for key, equals, value in (part.partition("=") for part in message.decode().split(",")) if equals}
