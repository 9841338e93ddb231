"""The broker's side of the SASL mechanisms SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

The client says who it is, the broker answers with a nonce and what the password is salted with, and the client proves that it
knows the password; the broker then proves that it knows the credential. No password is sent, and the broker keeps none.

    n,,n=alice,r=NONCE                                   r=NONCEMORE,s=SALT,i=4096
    c=biws,r=NONCEMORE,p=PROOF                           v=SIGNATURE

There is no channel binding: a client that could do without one (`y`) or insists on one (`p=`) is refused, as by Kafka. But `c`,
which repeats the header of the first message, is checked here as the RFC demands, and Kafka takes anything.

What a client says is bounded (LONGEST_MESSAGE, LONGEST_NONCE), since it is kept until the login ends, of whoever knows a user's
name.

**Delegation tokens** (KIP-48) log in by either mechanism, with the extension `tokenauth=true`: the name is the token's id, the
password its HMAC in base64, and the principal is the token's owner. The client's side is `commands/clients/login.py`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.server.security.mechanism import Challenge, Done, Failed, Outcome
from ottla.wire.scram import Keys, proves_password, server_signature, unescape_name

_FIRST: Final = re.compile(
    r"(?P<header>n,(?:a=(?P<wanted>[^,\0]+))?,)(?P<bare>n=(?P<name>[^,\0]+),r=(?P<nonce>[!-+\--~]+)(?P<more>(?:,[A-Za-z]+=[^,\0]+)*))"
)
_FINAL: Final = re.compile(
    r"(?P<unproved>c=(?P<binding>[A-Za-z0-9/+=]+),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]+=[^,\0]+)*),p=(?P<proof>[A-Za-z0-9/+=]+)"
)
_BY_TOKEN: Final = "tokenauth"

LONGEST_MESSAGE: Final = 2048
"""So many bytes a message of a client may have. Those of usual clients have a hundred or two."""
LONGEST_NONCE: Final = 256
"""So many characters the client's nonce may have. Those of usual clients have thirty or less."""


class Credential(NamedTuple):
    """The facts that are known of a password: two keys, and the salt and the number of iterations that made them."""

    salt: bytes
    iterations: int
    keys: Keys


class TokenCredential(NamedTuple):
    """The credential of a delegation token, the principal that it stands for, and the wall time in ms at which it expires."""

    credential: Credential
    owner: str
    expires_ms: int


class Scram:
    """One of the two mechanisms.

    `digest` is the name of its hash in hashlib. `find` returns the credential of a user, `find_token` that of a delegation token,
    both None if there is none. `make_nonce` returns random printable text without a comma.
    """

    longest_blocking = 0

    def __init__(
        self,
        name: str,
        digest: str,
        find: Callable[[str], Credential | None],
        find_token: Callable[[str], TokenCredential | None],
        make_nonce: Callable[[], str],
    ) -> None:
        self.name = name
        self.digest = digest
        self.find = find
        self.find_token = find_token
        self.make_nonce = make_nonce

    def begin(self) -> ScramExchange:
        """Returns the exchange of a new login."""
        return ScramExchange(self)


class ScramExchange:
    """The two messages of a client's login."""

    __slots__ = ("_credential", "_done", "_header", "_mechanism", "_nonce", "_signed")

    refused = False

    def __init__(self, mechanism: Scram) -> None:
        self._mechanism = mechanism
        self._credential: Credential | None = None  # None until the first message was understood

    def step(self, token: bytes) -> Outcome:
        """Takes the client's next message."""
        if len(token) > LONGEST_MESSAGE:
            return Failed(None, f"its message has {len(token)} bytes, and {LONGEST_MESSAGE} are allowed")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            return Failed(None, "its message is not UTF-8")
        return self._first(text) if self._credential is None else self._final(text, self._credential)

    def _first(self, text: str) -> Outcome:
        found = _FIRST.fullmatch(text)
        if found is None:
            return Failed(None, "its first message is not one of SCRAM, or wants channel binding")
        try:
            name, wanted = unescape_name(found["name"]), unescape_name(found["wanted"] or "")
        except ValueError as error:
            return Failed(None, str(error))
        if wanted not in ("", name):
            return Failed("A user cannot log in as another one.", f"{name!r} wants to be {wanted!r}")
        if len(found["nonce"]) > LONGEST_NONCE:
            return Failed(None, f"its nonce has {len(found['nonce'])} characters, and {LONGEST_NONCE} are allowed")
        more = dict(part.split("=", 1) for part in found["more"].split(",")[1:])
        mechanism = self._mechanism
        if more.get(_BY_TOKEN, "").lower() == "true":
            token = mechanism.find_token(name)
            if token is None:
                return Failed(None, f"there is no delegation token {name!r}, or it has expired")
            credential = token.credential
            self._done = Done(token.owner, expires_ms=token.expires_ms, by_delegation_token=True)
        else:
            found_credential = mechanism.find(name)
            if found_credential is None:
                return Failed(None, f"user {name!r} has no credential of {mechanism.name}")
            credential = found_credential
            self._done = Done(f"User:{name}")
        self._credential = credential
        self._header = found["header"]
        self._nonce = found["nonce"] + mechanism.make_nonce()
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._signed = f"{found['bare']},{answer},"
        return Challenge(answer.encode())

    def _final(self, text: str, credential: Credential) -> Outcome:
        who = self._done.principal
        found = _FINAL.fullmatch(text)
        if found is None:
            return Failed(None, f"the last message of {who!r} is not one of SCRAM")
        try:
            binding, proof = (base64.b64decode(found[part], validate=True) for part in ("binding", "proof"))
        except binascii.Error:
            return Failed(None, f"the last message of {who!r} has invalid base64")
        if found["nonce"] != self._nonce:
            return Failed(None, f"the last message of {who!r} has another nonce")
        if binding != self._header.encode():
            return Failed(None, f"the last message of {who!r} does not repeat the header of the first")
        signed, digest = (self._signed + found["unproved"]).encode(), self._mechanism.digest
        if not proves_password(digest, credential.keys, proof, signed):
            return Failed(None, f"wrong password of {who!r}")
        verifier = base64.b64encode(server_signature(digest, credential.keys.server, signed))
        return self._done._replace(token=b"v=" + verifier)
