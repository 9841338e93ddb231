"""CreateDelegationToken v1-3 creates a token that stands for the requester or, since v3, for another principal (KIP-48, KIP-373).

- metadata/tokens.py has the rules, and security/delegation.py says who may ask. Without an authorizer anybody may create a token
  for anybody.
- With an authorizer, a token for another owner needs CREATE_TOKENS on that user.
- Errors, with all times -1: 64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (the requester is not authenticated, or by a token
  itself), 65 DELEGATION_TOKEN_AUTHORIZATION_FAILED, 67 INVALID_PRINCIPAL_TYPE (a renewer is not of the type `User`).
- Errors, with all times 0: 35 UNSUPPORTED_VERSION (metadata.version is below 3.6), 56 KAFKA_STORAGE_ERROR, 61
  DELEGATION_TOKEN_AUTH_DISABLED (delegation.token.secret.key is not set).
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.metadata.tokens import USER, owner_of, principal_of
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.delegation import NO_TIME, may_ask
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

TRAITS = Traits(Inside(Need(Operation.CREATE_TOKENS, Resource.USER), in_handler=True))


async def handle(body: CreateDelegationTokenRequest, request: Request) -> CreateDelegationTokenResponse:
    if not may_ask(request.broker.config.all_listeners, request.session):
        return _refusal(body, request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    ask, owner = request.ask(), ":".join(owner_of(body, principal_of(request.session.principal)))
    if ask is not None and owner != request.session.principal and not ask.may(Operation.CREATE_TOKENS, Resource.USER, owner):
        return _refusal(body, request, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, NO_TIME)
    if any(renewer.principal_type != USER for renewer in body.renewers):
        return _refusal(body, request, ErrorCode.INVALID_PRINCIPAL_TYPE, NO_TIME)
    try:
        return await request.broker.controller.create_delegation_token(body, request.caller())
    except StorageError:  # logged where the directory went offline
        return _refusal(body, request, ErrorCode.KAFKA_STORAGE_ERROR, 0)


def _refusal(
    body: CreateDelegationTokenRequest, request: Request, code: ErrorCode, time_ms: int
) -> CreateDelegationTokenResponse:
    requester = principal_of(request.session.principal)
    return CreateDelegationTokenResponse(code, *owner_of(body, requester), *requester, time_ms, time_ms, time_ms)
