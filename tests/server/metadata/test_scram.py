"""SCRAM credentials: what is written, what is refused, and that the keys are those of RFC 5802 and RFC 7677."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from ottla.server.metadata import operation, scram
from ottla.server.metadata.image import MetadataImage
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.user_scram_credential_record import UserScramCredentialRecord
from tests.server.metadata.support import planned

SHA_256, SHA_512 = 1, 2


def an_image(metadata_version: int = 33) -> MetadataImage:
    image = MetadataImage("cluster")
    image.apply(FeatureLevelRecord("metadata.version", metadata_version))
    return image


def write(name: str, mechanism: int = SHA_256, iterations: int = 4096, password: bytes = b"salted") -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", password)


def delete(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name, mechanism)


def alter(image: MetadataImage, *wishes: ScramCredentialDeletion | ScramCredentialUpsertion) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        [wish for wish in wishes if isinstance(wish, ScramCredentialDeletion)],
        [wish for wish in wishes if isinstance(wish, ScramCredentialUpsertion)],
    )
    outcome = planned(scram.alter(image, request))
    image.apply_all(outcome.records)
    results = outcome.answer.results
    assert all((result.error_message is None) == (result.error_code in (0, -1)) for result in results)
    assert len({result.user for result in results}) == len(results)
    return {result.user: result.error_code for result in results}


def who(image: MetadataImage) -> set[tuple[str, int, int]]:
    return {(record.name, record.mechanism, record.iterations) for record in scram.credentials(image)}


def test_credentials_come_change_and_go() -> None:
    image = an_image()
    assert alter(image, write("u"), write("v", SHA_512, 16384)) == {"u": 0, "v": 0}
    assert alter(image, write("u", SHA_512, 5000)) == {"u": 0}
    assert who(image) == {("u", SHA_256, 4096), ("u", SHA_512, 5000), ("v", SHA_512, 16384)}
    assert alter(image, write("u", SHA_512, 6000), delete("v", SHA_512)) == {"u": 0, "v": 0}
    assert who(image) == {("u", SHA_256, 4096), ("u", SHA_512, 6000)}
    assert scram.credential(image, "v", SHA_512) is None


def test_the_keys_check_the_login_of_rfc_7677() -> None:
    """The exchange that the RFC prints: the proof opens with the stored key, the signature is made with the server's."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    image = an_image()
    alter(image, write("user", password=hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)))
    found = scram.credential(image, "user", SHA_256)
    assert isinstance(found, UserScramCredentialRecord)
    assert (found.salt, found.iterations) == (b"salt", 4096)
    first, nonce = "n=user,r=rOprNGfwEbeRWgbNEkqO", "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = f"{first},{nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,{nonce}".encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(found.stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == found.stored_key
    assert base64.b64encode(hmac.digest(found.server_key, message, "sha256")) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (write(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (write("", 0), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (write("x", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (write("x", 3, 1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (write("x", -1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (write("x", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (write("x", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (write("x", iterations=-(2**31)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (write("x", password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (delete(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (delete("u", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (delete("u", SHA_512), ErrorCode.RESOURCE_NOT_FOUND),
        (delete("x"), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_what_is_refused_leaves_the_others(wish: ScramCredentialDeletion | ScramCredentialUpsertion, code: ErrorCode) -> None:
    image = an_image()
    alter(image, write("u"))
    assert alter(image, wish, write("other")) == {wish.name: code, "other": 0}
    assert who(image) == {("u", SHA_256, 4096), ("other", SHA_256, 4096)}


def test_whoever_is_named_twice_stays_as_he_was() -> None:
    image = an_image()
    alter(image, write("u"), write("v"))
    twice = ErrorCode.DUPLICATE_RESOURCE
    assert alter(image, delete("u"), write("u", SHA_512), write("u"), write("w"), write("w", SHA_512)) == {"u": twice, "w": twice}
    assert alter(image, delete("u"), delete("u", SHA_256), delete("v")) == {"u": twice, "v": 0}
    assert alter(image, delete("x"), write("x")) == {"x": ErrorCode.RESOURCE_NOT_FOUND}
    assert who(image) == {("u", SHA_256, 4096)}


def test_an_old_metadata_version_holds_none() -> None:
    image = an_image(scram.SINCE - 1)
    assert alter(image, write("u"), delete("v")) == {"u": 35, "v": 35}
    assert who(image) == set()


def test_a_request_has_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram, "MAX_RECORDS", 2)
    assert operation.MAX_RECORDS == 10_000
    image = an_image()
    assert alter(image, write("a"), write("b")) == {"a": 0, "b": 0}
    with pytest.raises(operation.Refused) as refused:
        alter(image, write("c"), write("d"), write("e"))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    assert alter(image, write("c"), write("")) == {"c": 0, "": ErrorCode.UNACCEPTABLE_CREDENTIAL}
