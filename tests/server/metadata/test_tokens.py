"""Delegation tokens: how long they last, who may renew them, and that the HMAC is what names them."""

from __future__ import annotations

import hashlib
import hmac
from random import Random
from typing import Any

import pytest

from ottla.log.config_def import LONG_MAX, Secret
from ottla.server.base.turns import at_once
from ottla.server.metadata import tokens
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Outcome
from ottla.server.metadata.tokens import Principal, TokenSettings
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.internal.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.remove_delegation_token_record import RemoveDelegationTokenRecord
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
SETTINGS = TokenSettings(Secret("secret"), 7 * DAY_MS, DAY_MS)
ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))


class Rig:
    """An image, a time, and the rules applied to both."""

    def __init__(self, metadata_version: int = 33, settings: TokenSettings = SETTINGS) -> None:
        self.image = MetadataImage("cluster")
        self.image.apply(FeatureLevelRecord("metadata.version", metadata_version))
        self.settings = settings
        self._hmacs = tokens.TokenHmacs()
        self.now_ms = NOW_MS
        self.random = Random(1)

    def carried_out(self, outcome: Outcome[Any]) -> Any:
        self.image.apply_all(outcome.records)
        assert len(outcome.records) == (outcome.answer.error_code == 0)
        return outcome.answer

    def create(self, who: Principal = ALICE, **fields: Any) -> CreateDelegationTokenResponse:
        request = CreateDelegationTokenRequest(**fields)
        answer: CreateDelegationTokenResponse = self.carried_out(
            tokens.create(self.image, self.settings, self.random, self.now_ms, who, request)
        )
        return answer

    def renew(self, who: Principal, shown: bytes, period_ms: int) -> tuple[int, int]:
        request = RenewDelegationTokenRequest(shown, period_ms)
        answer = self.carried_out(tokens.renew(self.image, self.hmacs(), self.settings, self.now_ms, who, request))
        return answer.error_code, answer.expiry_timestamp_ms

    def expire(self, who: Principal, shown: bytes, period_ms: int) -> tuple[int, int]:
        request = ExpireDelegationTokenRequest(shown, period_ms)
        answer = self.carried_out(tokens.expire(self.image, self.hmacs(), self.settings, self.now_ms, who, request))
        return answer.error_code, answer.expiry_timestamp_ms

    def hmacs(self) -> tokens.TokenHmacs:
        """Returns the HMACs of the tokens of now."""
        at_once(self._hmacs.catch_up(self.image, self.settings))
        return self._hmacs

    @property
    def only(self) -> DelegationTokenRecord:
        (token,) = tokens.tokens(self.image)
        return token


def test_a_token_as_it_comes() -> None:
    rig = Rig()
    made = rig.create(renewers=[CreatableRenewers("User", "bob")])
    assert (made.principal_type, made.principal_name) == tuple(ALICE)
    assert (made.token_requester_principal_type, made.token_requester_principal_name) == tuple(ALICE)
    assert made.hmac == hmac.new(b"secret", made.token_id.encode(), hashlib.sha512).digest()
    day, week = NOW_MS + DAY_MS, NOW_MS + 7 * DAY_MS
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (NOW_MS, day, week)
    assert rig.only == DelegationTokenRecord("User:alice", "User:alice", ["User:bob"], NOW_MS, week, day, made.token_id)
    assert rig.hmacs().find(rig.image, made.hmac) == rig.only
    another = tokens.TokenHmacs()
    at_once(another.catch_up(rig.image, SETTINGS._replace(secret_key=Secret("another"))))
    assert another.find(rig.image, made.hmac) is None


def test_a_token_for_somebody_else() -> None:
    rig = Rig()
    made = rig.create(owner_principal_type="User", owner_principal_name="bob")
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    assert (rig.only.owner, rig.only.requester) == ("User:bob", "User:alice")
    assert rig.renew(ALICE, made.hmac, -1)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


@pytest.mark.parametrize(
    ("wanted_ms", "lasts_ms", "at_most_ms"),
    [
        (-1, DAY_MS, 7 * DAY_MS),
        (0, DAY_MS, 7 * DAY_MS),
        (5, 5, 5),
        (2 * DAY_MS, DAY_MS, 2 * DAY_MS),
        (LONG_MAX, DAY_MS, 7 * DAY_MS),
    ],
)
def test_how_long_it_lasts(wanted_ms: int, lasts_ms: int, at_most_ms: int) -> None:
    made = Rig().create(max_lifetime_ms=wanted_ms)
    assert (made.expiry_timestamp_ms - NOW_MS, made.max_timestamp_ms - NOW_MS) == (lasts_ms, at_most_ms)


def test_times_have_an_end() -> None:
    made = Rig(settings=TokenSettings(Secret("secret"), LONG_MAX, LONG_MAX)).create()
    assert (made.expiry_timestamp_ms, made.max_timestamp_ms) == (LONG_MAX, LONG_MAX)


def test_renewing() -> None:
    rig = Rig()
    made = rig.create(renewers=[CreatableRenewers("User", "bob")])
    rig.now_ms += 1000
    assert rig.renew(EVE, made.hmac, 10) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert rig.renew(ALICE, b"?" * 64, 10) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
    assert rig.renew(BOB, made.hmac, 10) == (0, NOW_MS + 1010)
    assert rig.renew(ALICE, made.hmac, 2 * DAY_MS) == (0, NOW_MS + 1000 + DAY_MS)
    for _ in range(7):
        rig.now_ms = rig.only.expiration_timestamp
        answer = rig.renew(ALICE, made.hmac, 0)
    assert answer == (0, made.max_timestamp_ms)
    rig.now_ms = made.max_timestamp_ms + 1
    assert rig.renew(ALICE, made.hmac, 0) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert rig.renew(EVE, made.hmac, 0) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)


def test_expiring() -> None:
    rig = Rig()
    made = rig.create()
    assert rig.expire(EVE, made.hmac, -1) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert rig.expire(ALICE, b"", -1) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
    assert rig.expire(ALICE, made.hmac, LONG_MAX) == (0, made.max_timestamp_ms)
    assert rig.expire(ALICE, made.hmac, 0) == (0, NOW_MS)
    rig.now_ms += 1
    assert rig.expire(ALICE, made.hmac, 0) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert rig.expire(EVE, made.hmac, 0) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert rig.expire(ALICE, made.hmac, -1) == (0, NOW_MS + 1)
    assert list(tokens.tokens(rig.image)) == []


def test_what_is_over_is_swept() -> None:
    rig = Rig()
    first, second = rig.create(), rig.create(max_lifetime_ms=1)
    rig.now_ms += 1
    assert tokens.expired(rig.image, rig.now_ms) == []
    rig.image.apply_all(tokens.expired(rig.image, rig.now_ms + 1))
    assert rig.only.token_id == first.token_id != second.token_id


@pytest.mark.parametrize(
    ("rig", "code"),
    [
        (Rig(settings=SETTINGS._replace(secret_key=None)), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (Rig(tokens.SINCE - 1), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_without_tokens(rig: Rig, code: ErrorCode) -> None:
    made = rig.create()
    assert (made.error_code, made.principal_name, made.token_id, made.max_timestamp_ms) == (code, "alice", "", 0)
    assert rig.renew(ALICE, b"", 0)[0] == rig.expire(ALICE, b"", 0)[0] == code


def test_an_hmac_is_made_once_and_others_come_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    made = [rig.create() for _ in range(20)]
    asked: list[str] = []
    hmac_of = tokens.hmac_of

    def counted(token_id: str, secret_key: Secret) -> bytes:
        asked.append(token_id)
        return hmac_of(token_id, secret_key)

    monkeypatch.setattr(tokens, "hmac_of", counted)
    hmacs = tokens.TokenHmacs()
    for steps, _ in enumerate(hmacs.catch_up(rig.image, rig.settings)):
        assert len(asked) == steps
    assert sorted(asked) == sorted(each.token_id for each in made)
    assert [hmacs.find(rig.image, each.hmac) for each in made] == [rig.image.kept["token", each.token_id] for each in made]
    asked.clear()
    assert list(hmacs.catch_up(rig.image, rig.settings)) == []
    assert asked == []


def test_tokens_that_come_and_go_while_hmacs_are_made() -> None:
    rig = Rig()
    first, second = rig.create(), rig.create()
    hmacs = tokens.TokenHmacs()
    slow = hmacs.catch_up(rig.image, rig.settings)
    next(slow)
    rig.image.apply_all([RemoveDelegationTokenRecord(first.token_id)])
    third = rig.create()
    at_once(hmacs.catch_up(rig.image, rig.settings))
    assert list(slow) == [None]
    assert [hmacs.find(rig.image, each.hmac) is not None for each in (first, second, third)] == [False, True, True]
    at_once(hmacs.catch_up(rig.image, rig.settings))
    assert (len(hmacs._ids), len(hmacs._hmacs)) == (2, 2), "nothing is kept of a token that is gone"
    assert [hmacs.find(rig.image, each.hmac) is not None for each in (second, third)] == [True, True]
