"""DescribeDelegationToken v1-3 lists delegation tokens with their owners and renewers (KIP-48, KIP-373).

- A null list of owners asks for all tokens, an empty one for none. Expired tokens are listed until the sweep removes them.
- With an authorizer a client sees its own tokens and those that it may renew; others need DESCRIBE on the token or
  DESCRIBE_TOKENS on its owner, and are left out otherwise.
- v3 adds who requested the token. security/delegation.py says who may ask.
- Errors: 61 DELEGATION_TOKEN_AUTH_DISABLED (delegation.token.secret.key is not set), 64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (the
  requester is not authenticated, or by a token itself).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.log.config_def import Secret
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.metadata.tokens import hmac_of, principal_of, settings_of, tokens
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.delegation import is_wanted, may_ask
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.internal.delegation_token_record import DelegationTokenRecord

if TYPE_CHECKING:
    from ottla.server.security.authorizer import Ask

TRAITS = Traits(
    Inside(
        Either(Need(Operation.DESCRIBE, Resource.DELEGATION_TOKEN), Need(Operation.DESCRIBE_TOKENS, Resource.USER)),
        in_handler=True,
    )
)


def handle(
    body: DescribeDelegationTokenRequest, request: Request
) -> DescribeDelegationTokenResponse | Promise[DescribeDelegationTokenResponse]:
    if not may_ask(request.broker.config.all_listeners, request.session):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    secret_key = settings_of(request.broker.config.values).secret_key
    if secret_key is None:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return take_steps(_describe(body, request, secret_key), request.broker.clock)


def _describe(
    body: DescribeDelegationTokenRequest, request: Request, secret_key: Secret
) -> Steps[DescribeDelegationTokenResponse]:
    owners = None
    if body.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in body.owners}
    ask, principal = request.ask(), request.session.principal
    found = []
    for token in list(tokens(request.broker.metadata)):
        yield None
        if is_wanted(token, owners) and (ask is None or _may_see(token, principal, ask)):
            found.append(_described(token, secret_key))
    return DescribeDelegationTokenResponse(tokens=found)


def _may_see(token: DelegationTokenRecord, principal: str, ask: Ask) -> bool:
    """Returns whether a client sees a token: its own, one that it may renew, or one for which it has a right."""
    if principal in (token.owner, token.requester, *token.renewers):
        return True
    if ask.may(Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id, quiet=True):
        return True
    return ask.may(Operation.DESCRIBE_TOKENS, Resource.USER, token.owner, quiet=True)


def _described(token: DelegationTokenRecord, secret_key: Secret) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *principal_of(token.owner),
        *principal_of(token.requester),
        token.issue_timestamp,
        token.expiration_timestamp,
        token.max_timestamp,
        token.token_id,
        hmac_of(token.token_id, secret_key),
        [DescribedDelegationTokenRenewer(*principal_of(renewer)) for renewer in token.renewers],
    )
