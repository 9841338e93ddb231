"""SCRAM's keys and proofs, by the examples of RFC 5802 and RFC 7677."""

from __future__ import annotations

import base64

import pytest

from ottla.wire.scram import (
    Keys,
    client_proof,
    escape_name,
    make_keys,
    proves_password,
    salt_password,
    server_signature,
    unescape_name,
)

EXAMPLES = {
    "sha1": (  # RFC 5802, section 5
        "QSXCR+Q6sek8bf92",
        "n=user,r=fyko+d2lbbFgONRv9qkxdawL,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096,"
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j",
        "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    "sha256": (  # RFC 7677, section 3
        "W22ZaJ0SNY7soEsUEjb6gQ==",
        "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
}


@pytest.mark.parametrize("digest", EXAMPLES)
def test_the_examples_of_the_rfcs(digest: str) -> None:
    salt, signed, proof, signature = EXAMPLES[digest]
    salted = salt_password(digest, "pencil", base64.b64decode(salt), 4096)
    keys = make_keys(digest, salted)
    assert client_proof(digest, salted, signed.encode()) == base64.b64decode(proof)
    assert server_signature(digest, keys.server, signed.encode()) == base64.b64decode(signature)
    assert proves_password(digest, keys, base64.b64decode(proof), signed.encode())


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
def test_only_the_right_proof_proves(digest: str) -> None:
    salted = salt_password(digest, "pencil", b"salt", 2)
    keys, proof = make_keys(digest, salted), client_proof(digest, salted, b"signed")
    assert proves_password(digest, keys, proof, b"signed")
    assert not proves_password(digest, keys, proof, b"other")
    assert not proves_password(digest, Keys(keys.server, keys.stored), proof, b"signed")
    assert not proves_password(digest, keys, proof[:-1], b"signed")
    assert not proves_password(digest, keys, proof + b"\0", b"signed")
    assert not proves_password(digest, keys, b"", b"signed")
    assert not proves_password(digest, keys, bytes(len(proof)), b"signed")


@pytest.mark.parametrize(("name", "text"), [("alice", "alice"), ("a=b,c", "a=3Db=2Cc"), ("=2C", "=3D2C"), ("ünï", "ünï")])
def test_names(name: str, text: str) -> None:
    assert escape_name(name) == text
    assert unescape_name(text) == name


@pytest.mark.parametrize("text", ["=", "a=b", "=2c", "=3d", "=2", "=3D=="])
def test_texts_that_are_no_names(text: str) -> None:
    with pytest.raises(ValueError, match="not escaped"):
        unescape_name(text)
