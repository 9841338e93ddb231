"""Delegation tokens (KIP-48) of any Kafka cluster, over a connection of our own, since librdkafka has no requests for them.

A token is an id, which is no secret, and a secret that the cluster makes of it. A client logs in by SCRAM with the id as its name
and the secret, in base64, as its password. Requests that renew or end a token name it by its secret, which a description has;
whoever shows a description leaves that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla.commands.clients import direct
from ottla.commands.clients.brokers import check
from ottla.wire.messages import create_delegation_token as creating
from ottla.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

AS_LONG_AS_POSSIBLE: Final = -1
"""The lifetime or period that leaves it to the cluster's settings."""
AT_ONCE: Final = -1
"""The period after which a token ends for good, now."""
_WITH_OWNER: Final = 3
"""The first version of CreateDelegationToken that can name an owner (KIP-373); an older one would say nothing of it."""


class Principal(NamedTuple):
    """Somebody with an identity, written `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Token(NamedTuple):
    """A delegation token without its secret. Times are in ms since 1970: it ends with `expires_ms` unless it is renewed, and with
    `latest_ms` anyway. `requester` made it for the owner; None if the broker is too old to tell."""

    name: str
    owner: str
    requester: str | None
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    latest_ms: int


def described(connection: direct.Connection) -> list[tuple[Token, bytes]]:
    """Returns the tokens that this client may see, each with its secret, sorted. Raises direct.Refused where there are none, and
    Failure."""
    answer = connection.call(DescribeDelegationTokenRequest(None))
    check(answer.error_code)
    return sorted((_token(one), bytes(one.hmac)) for one in answer.tokens)


def _token(one: Any) -> Token:
    renewers = [Principal(each.principal_type, each.principal_name) for each in one.renewers]
    return _token_of(one, renewers, one.issue_timestamp, one.expiry_timestamp, one.max_timestamp)


def _token_of(answer: Any, renewers: Sequence[Principal], issued_ms: int, expires_ms: int, latest_ms: int) -> Token:
    """Returns the token of an answer that describes it, or that says it was made; these name its times in two ways."""
    owner = Principal(answer.principal_type, answer.principal_name)
    requester = Principal(answer.token_requester_principal_type, answer.token_requester_principal_name)
    told = str(requester) if any(requester) else None
    return Token(answer.token_id, str(owner), told, tuple(map(str, renewers)), issued_ms, expires_ms, latest_ms)


def create(
    connection: direct.Connection, owner: Principal | None, renewers: Sequence[Principal], lifetime_ms: int
) -> tuple[Token, bytes]:
    """Makes a token for a principal, or for whoever asks if it is None, and returns it with its secret. Raises Failure."""
    if owner is not None and connection.versions.get(creating.API_KEY, (0, 0))[1] < _WITH_OWNER:
        raise direct.Unsupported(f"{connection.who}: the broker makes tokens only for those who ask for them")
    request = creating.CreateDelegationTokenRequest(
        None if owner is None else owner.kind,
        None if owner is None else owner.name,
        [creating.CreatableRenewers(*each) for each in renewers],
        lifetime_ms,
    )
    answer = connection.call(request)
    check(answer.error_code)
    token = _token_of(answer, renewers, answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
    return token, bytes(answer.hmac)


def renew(connection: direct.Connection, secret: bytes, period_ms: int) -> int:
    """Has a token last for so long from now, and returns until when. Raises Failure."""
    answer = connection.call(RenewDelegationTokenRequest(secret, period_ms))
    check(answer.error_code)
    return int(answer.expiry_timestamp_ms)


def expire(connection: direct.Connection, secret: bytes, period_ms: int) -> int:
    """Has a token end after so long, and returns when. Raises Failure."""
    answer = connection.call(ExpireDelegationTokenRequest(secret, period_ms))
    check(answer.error_code)
    return int(answer.expiry_timestamp_ms)
