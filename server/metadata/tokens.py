"""Delegation tokens (KIP-48): short-lived credentials that a principal makes for others, and their life in the metadata.

A token is an id that is in the metadata, and an HMAC of it, made with `delegation.token.secret.key`, that only its holder and the
brokers know: a client that presents the HMAC holds the token. A token is valid for `delegation.token.expiry.time.ms`, may be
renewed for as long again by its owner and its renewers, and ends for good after `delegation.token.max.lifetime.ms`; a request may
ask for a shorter time, never for a longer one. Until expired tokens are removed (`expired`), they can be described, but neither
renewed nor used. server/security/delegation.py decides beforehand who may make requests at all.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final, NamedTuple, cast

from ottla.log.config_def import LONG_MAX, Secret
from ottla.server.base.randomness import random_uuid
from ottla.server.base.turns import Steps
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Outcome, Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.internal.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.internal.remove_delegation_token_record import RemoveDelegationTokenRecord
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ottla.wire.primitives import WireStruct, uuid_to_text

USER: Final = "User"
_KIND: Final = "token"
"""The image keeps tokens by this and their ids."""
SINCE: Final = 14
"""metadata.version 3.6-IV2, the first that can hold tokens."""


class Principal(NamedTuple):
    """The identity of a user, written `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def principal_of(text: str) -> Principal:
    kind, _, name = text.partition(":")
    return Principal(kind, name)


class TokenSettings(NamedTuple):
    """The settings of delegation tokens. Without a secret key there are no tokens."""

    secret_key: Secret | None
    max_lifetime_ms: int
    expiry_time_ms: int


def settings_of(values: Mapping[str, Any]) -> TokenSettings:
    """Returns the token settings among the broker's settings."""
    return TokenSettings(
        values["delegation.token.secret.key"] or None,
        values["delegation.token.max.lifetime.ms"],
        values["delegation.token.expiry.time.ms"],
    )


def tokens(image: MetadataImage) -> Iterator[DelegationTokenRecord]:
    return (record for record in image.kept.values() if isinstance(record, DelegationTokenRecord))


def hmac_of(token_id: str, secret_key: Secret) -> bytes:
    """Returns the HMAC-SHA-512 that the holder of the token presents."""
    return hmac.digest(secret_key.reveal().encode(), token_id.encode(), "sha512")


class TokenHmacs:
    """The HMACs of all tokens, so that a request that shows one finds its token by a single look. An HMAC is made once: neither a
    token's id nor the broker's secret key changes.
    """

    def __init__(self) -> None:
        self._ids: dict[bytes, str] = {}
        self._hmacs: dict[str, bytes] = {}

    def catch_up(self, image: MetadataImage, settings: TokenSettings) -> Steps[None]:
        """Makes steps that add what tokens are new, and drop those that are gone. A token that comes meanwhile is found only
        after the next time; its holder does not know it yet.
        """
        if settings.secret_key is None:
            return
        live = [key[1] for key in image.kept if key[0] == _KIND]
        new = [cast(str, each) for each in live if each not in self._hmacs]
        if len(self._hmacs) + len(new) > len(live):
            for gone in self._hmacs.keys() - set(live):
                del self._ids[self._hmacs.pop(gone)]
        for token_id in new:
            yield None
            self._hmacs[token_id] = made = hmac_of(token_id, settings.secret_key)
            self._ids[made] = token_id

    def find(self, image: MetadataImage, shown: bytes) -> DelegationTokenRecord | None:
        """Returns the token to which this HMAC belongs, None if there is none."""
        token_id = self._ids.get(shown)
        return None if token_id is None else cast("DelegationTokenRecord | None", image.kept.get((_KIND, token_id)))


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Returns the principal that the token will stand for: the requester, unless the request names another."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def create(
    image: MetadataImage,
    settings: TokenSettings,
    random: Random,
    now_ms: int,
    requester: Principal,
    request: CreateDelegationTokenRequest,
) -> Outcome[CreateDelegationTokenResponse]:
    owner = owner_of(request, requester)
    answer = CreateDelegationTokenResponse(0, owner.kind, owner.name, requester.kind, requester.name)
    try:
        secret_key = _secret_key(image, settings)
    except Refused as refused:
        answer.error_code = refused.code
        return Outcome([], answer)
    answer.issue_timestamp_ms = now_ms
    wanted_ms = request.max_lifetime_ms if request.max_lifetime_ms > 0 else LONG_MAX
    answer.max_timestamp_ms = min(LONG_MAX, now_ms + min(settings.max_lifetime_ms, wanted_ms))
    answer.expiry_timestamp_ms = min(answer.max_timestamp_ms, now_ms + settings.expiry_time_ms)
    answer.token_id = uuid_to_text(random_uuid(random))
    answer.hmac = hmac_of(answer.token_id, secret_key)
    record = DelegationTokenRecord(
        str(owner),
        str(requester),
        [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers],
        now_ms,
        answer.max_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.token_id,
    )
    return Outcome([record], answer)


def renew(
    image: MetadataImage,
    hmacs: TokenHmacs,
    settings: TokenSettings,
    now_ms: int,
    requester: Principal,
    request: RenewDelegationTokenRequest,
) -> Outcome[RenewDelegationTokenResponse]:
    """Carries out RenewDelegationToken. A period of 0 or less means the longest possible one."""
    try:
        token = _shown(image, hmacs, settings, request.hmac)
        _check_time(token, now_ms)
        _check_renewer(token, requester)
    except Refused as refused:
        return Outcome([], RenewDelegationTokenResponse(refused.code))
    wanted_ms = request.renew_period_ms if request.renew_period_ms > 0 else LONG_MAX
    expiry_ms = min(token.max_timestamp, now_ms + min(settings.expiry_time_ms, wanted_ms))
    return Outcome([_lasting(token, expiry_ms)], RenewDelegationTokenResponse(0, expiry_ms))


def expire(
    image: MetadataImage,
    hmacs: TokenHmacs,
    settings: TokenSettings,
    now_ms: int,
    requester: Principal,
    request: ExpireDelegationTokenRequest,
) -> Outcome[ExpireDelegationTokenResponse]:
    """Carries out ExpireDelegationToken. A negative period ends the token at once, even if it has expired already."""
    try:
        token = _shown(image, hmacs, settings, request.hmac)
        _check_renewer(token, requester)
        if request.expiry_time_period_ms < 0:
            return Outcome([RemoveDelegationTokenRecord(token.token_id)], ExpireDelegationTokenResponse(0, now_ms))
        _check_time(token, now_ms)
    except Refused as refused:
        return Outcome([], ExpireDelegationTokenResponse(refused.code))
    expiry_ms = min(token.max_timestamp, now_ms + request.expiry_time_period_ms)
    return Outcome([_lasting(token, expiry_ms)], ExpireDelegationTokenResponse(0, expiry_ms))


def expired(image: MetadataImage, now_ms: int) -> list[WireStruct]:
    """Returns the records that remove the tokens that have expired."""
    return [RemoveDelegationTokenRecord(token.token_id) for token in tokens(image) if is_expired(token, now_ms)]


def _secret_key(image: MetadataImage, settings: TokenSettings) -> Secret:
    """Raises Refused with 35 UNSUPPORTED_VERSION or 61 DELEGATION_TOKEN_AUTH_DISABLED."""
    if settings.secret_key is None:
        raise Refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if image.metadata_version < SINCE:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    return settings.secret_key


def _shown(image: MetadataImage, hmacs: TokenHmacs, settings: TokenSettings, shown: bytes) -> DelegationTokenRecord:
    """Raises Refused with 35 UNSUPPORTED_VERSION, 61 DELEGATION_TOKEN_AUTH_DISABLED or 62 DELEGATION_TOKEN_NOT_FOUND."""
    _secret_key(image, settings)
    token = hmacs.find(image, shown)
    if token is None:
        raise Refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_time(token: DelegationTokenRecord, now_ms: int) -> None:
    """Raises Refused with 66 DELEGATION_TOKEN_EXPIRED."""
    if is_expired(token, now_ms):
        raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _check_renewer(token: DelegationTokenRecord, requester: Principal) -> None:
    """Raises Refused with 63 DELEGATION_TOKEN_OWNER_MISMATCH."""
    if str(requester) not in (token.owner, *token.renewers):
        raise Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _lasting(token: DelegationTokenRecord, expiry_ms: int) -> WireStruct:
    """Returns the record of the same token with another expiry time."""
    return DelegationTokenRecord(
        token.owner, token.requester, list(token.renewers), token.issue_timestamp, token.max_timestamp, expiry_ms, token.token_id
    )
