"""SCRAM (RFC 5802, RFC 7677): the keys that are made of a password, the proofs that are made of keys, and names in its messages.

Both sides of a login use it, and whoever makes credentials. `digest` is the name of a hash in hashlib. Like Kafka and librdkafka,
this takes passwords as UTF-8 without the normalisation that the RFC asks for (SASLprep).
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism."""


class Keys(NamedTuple):
    """The two keys of which a server keeps a credential: with them it checks a proof and makes its own, but cannot log in."""

    stored: bytes
    server: bytes


def salt_password(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Returns the salted password. This is slow on purpose: some ms for 4,096 iterations."""
    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)


def make_keys(digest: str, salted_password: bytes) -> Keys:
    """Returns the StoredKey and the ServerKey."""
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    return Keys(hashlib.new(digest, client_key).digest(), hmac.digest(salted_password, b"Server Key", digest))


def client_proof(digest: str, salted_password: bytes, signed: bytes) -> bytes:
    """Returns the client's proof that it knows the password. `signed` are the messages of the login, joined by commas."""
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    return _xor(client_key, hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest))


def proves_password(digest: str, keys: Keys, proof: bytes, signed: bytes) -> bool:
    """Returns whether the proof was made with the password of these keys."""
    signature = hmac.digest(keys.stored, signed, digest)
    if len(proof) != len(signature):
        return False
    client_key = _xor(proof, signature)
    return hmac.compare_digest(hashlib.new(digest, client_key).digest(), keys.stored)


def server_signature(digest: str, server_key: bytes, signed: bytes) -> bytes:
    """Returns the server's proof that it knows the credential."""
    return hmac.digest(server_key, signed, digest)


def escape_name(name: str) -> str:
    """Returns a user's name as it stands in a message, where commas separate and `=` escapes."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(text: str) -> str:
    """Returns the name that `escape_name` made `text` of. Raises ValueError if it is not of that form."""
    if "=" in text.replace("=2C", "").replace("=3D", ""):
        raise ValueError("an = in the name is not escaped")
    return text.replace("=2C", ",").replace("=3D", "=")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(mine ^ theirs for mine, theirs in zip(one, other, strict=True))
