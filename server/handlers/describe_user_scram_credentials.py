"""DescribeUserScramCredentials v0 says which SCRAM credentials users have, without anything secret (KIP-554).

- A null or empty list asks for all users that have credentials. The mechanisms are 1 SCRAM-SHA-256 and 2 SCRAM-SHA-512.
- Errors of a user: 91 RESOURCE_NOT_FOUND, 92 DUPLICATE_RESOURCE (the user is named more than once, and answered once).
"""

from __future__ import annotations

from collections import Counter

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.scram import credentials
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

TRAITS = Traits(Whole(Need(Operation.DESCRIBE, Resource.CLUSTER)))


USERS_A_STEP = 100
"""So many users are described before others may come first."""


def handle(
    body: DescribeUserScramCredentialsRequest, request: Request
) -> DescribeUserScramCredentialsResponse | Promise[DescribeUserScramCredentialsResponse]:
    return take_steps(_describe_all(body, request), request.broker.clock)


def _describe_all(body: DescribeUserScramCredentialsRequest, request: Request) -> Steps[DescribeUserScramCredentialsResponse]:
    infos = _infos(request.broker.metadata)
    times = Counter(user.name for user in body.users) if body.users else Counter(list(infos))
    results = []
    for at, (user, count) in enumerate(times.items()):
        if at and at % USERS_A_STEP == 0:
            yield None
        results.append(_describe(user, count, infos.get(user, [])))
    return DescribeUserScramCredentialsResponse(results=results)


def _infos(image: MetadataImage) -> dict[str, list[CredentialInfo]]:
    """Returns the credentials of each user, in the order of mechanisms."""
    found: dict[str, list[CredentialInfo]] = {}
    for record in credentials(image):
        found.setdefault(record.name, []).append(CredentialInfo(record.mechanism, record.iterations))
    for infos in found.values():
        infos.sort(key=lambda info: info.mechanism)
    return found


def _describe(user: str, times: int, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    if times > 1:
        text = f"User '{user}' is named more than once."
        return DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, text)
    if not infos:
        text = f"User '{user}' has no SCRAM credentials."
        return DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, text)
    return DescribeUserScramCredentialsResult(user, credential_infos=infos)
