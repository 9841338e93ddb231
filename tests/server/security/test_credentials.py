"""SCRAM credentials as the metadata has them at the moment of a login."""

from __future__ import annotations

import base64

import pytest

from ottla.log.config_def import Secret
from ottla.server.base.randomness import from_seed
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.tokens import hmac_of
from ottla.server.security import credentials as module
from ottla.server.security.credentials import Credentials
from ottla.server.security.scram import Credential, TokenCredential
from ottla.wire.messages.internal.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.internal.remove_delegation_token_record import RemoveDelegationTokenRecord
from ottla.wire.messages.internal.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.wire.messages.internal.user_scram_credential_record import UserScramCredentialRecord
from ottla.wire.primitives import WireStruct
from ottla.wire.scram import Keys, client_proof, proves_password, salt_password
from tests.fakes import NOW_MS, ManualClock

KEY = Secret("key")


def made(*records: WireStruct, key: Secret | None = KEY, clock: ManualClock | None = None) -> Credentials:
    credentials = Credentials(key, clock or ManualClock(), from_seed(1))
    credentials.image = MetadataImage("cluster")
    credentials.image.apply_all(records)
    return credentials


def token(expires_ms: int = NOW_MS + 1000, token_id: str = "id", most_ms: int = NOW_MS + 5000) -> DelegationTokenRecord:
    return DelegationTokenRecord("User:owner", "User:asker", [], NOW_MS, most_ms, expires_ms, token_id)


def test_users_are_those_of_the_metadata_now() -> None:
    credentials = made()
    find = credentials.users("SCRAM-SHA-256")
    assert find("alice") is None
    assert credentials.image is not None
    credentials.image.apply(UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 5000))
    assert find("alice") == Credential(b"salt", 5000, Keys(b"stored", b"server"))
    assert credentials.users("SCRAM-SHA-512")("alice") is None
    credentials.image.apply(RemoveUserScramCredentialRecord("alice", 1))
    assert find("alice") is None


def test_before_the_metadata_is_there_nobody_is() -> None:
    credentials = Credentials(KEY, ManualClock(), from_seed(1))
    assert credentials.users("SCRAM-SHA-256")("alice") is None
    assert credentials.tokens("SCRAM-SHA-256")("id") is None


@pytest.mark.parametrize(("mechanism", "digest"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
def test_a_token_s_password_is_its_hmac(mechanism: str, digest: str) -> None:
    found = made(token()).tokens(mechanism)("id")
    assert isinstance(found, TokenCredential)
    assert (found.owner, found.expires_ms, found.credential.iterations) == ("User:owner", NOW_MS + 1000, 4096)
    password = base64.b64encode(hmac_of("id", KEY)).decode()
    salted = salt_password(digest, password, found.credential.salt, 4096)
    assert proves_password(digest, found.credential.keys, client_proof(digest, salted, b"x"), b"x")


def test_keys_are_made_once_and_times_are_read_each_time() -> None:
    credentials = made(token())
    first = credentials.tokens("SCRAM-SHA-256")("id")
    assert credentials.image is not None
    credentials.image.apply(token(NOW_MS + 9000))
    second = credentials.tokens("SCRAM-SHA-256")("id")
    assert first is not None
    assert second is not None
    assert first.credential is second.credential
    assert second.expires_ms == NOW_MS + 5000  # the end of its life comes first


def test_a_token_that_is_gone_or_over_does_not_count() -> None:
    clock = ManualClock()
    credentials = made(token(), clock=clock)
    find = credentials.tokens("SCRAM-SHA-256")
    assert find("other") is None
    clock.advance(1)
    assert find("id") is not None
    clock.advance(0.001)
    assert find("id") is None
    assert credentials.image is not None
    credentials.image.apply(token(NOW_MS + 4000))
    assert find("id") is not None
    credentials.image.apply(RemoveDelegationTokenRecord("id"))
    assert find("id") is None


def test_without_the_secret_key_there_are_no_tokens() -> None:
    assert made(token(), key=None).tokens("SCRAM-SHA-256")("id") is None


def test_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 2)
    credentials = made(*(token(token_id=each) for each in "abc"))
    find = credentials.tokens("SCRAM-SHA-256")
    first = [find(each) for each in "abc"]
    again = [find(each) for each in "bca"]
    assert all(first)
    assert all(again)
    assert len(credentials._of_tokens) == 2
