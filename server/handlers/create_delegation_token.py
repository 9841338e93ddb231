"""CreateDelegationToken v1-3: a token that stands for whoever asks, or, since v3, for somebody else (KIP-48, KIP-373).

- The rules: metadata/tokens.py; who may ask: security/delegation.py. Without an authorizer anybody may have one for anybody.
- Errors, with all times -1: 64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (the listener does not tell who asks: PLAINTEXT), 67
  INVALID_PRINCIPAL_TYPE (a renewer that is no `User`). With times of 0: 35 UNSUPPORTED_VERSION (metadata.version before 3.6), 56
  KAFKA_STORAGE_ERROR, 61 DELEGATION_TOKEN_AUTH_DISABLED (no delegation.token.secret.key).
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.metadata.tokens import USER, owner_of, principal_of
from ottla.server.requests.context import RequestContext
from ottla.server.security.delegation import NO_TIME, may_ask
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse


async def handle(request: CreateDelegationTokenRequest, ctx: RequestContext) -> CreateDelegationTokenResponse:
    if not may_ask(ctx):
        return _refusal(request, ctx, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    if any(renewer.principal_type != USER for renewer in request.renewers):
        return _refusal(request, ctx, ErrorCode.INVALID_PRINCIPAL_TYPE, NO_TIME)
    try:
        return await ctx.broker.controller.create_delegation_token(request, ctx.principal)
    except StorageError:  # logged where the directory went offline
        return _refusal(request, ctx, ErrorCode.KAFKA_STORAGE_ERROR, 0)


def _refusal(
    request: CreateDelegationTokenRequest, ctx: RequestContext, code: ErrorCode, time_ms: int
) -> CreateDelegationTokenResponse:
    requester = principal_of(ctx.principal)
    return CreateDelegationTokenResponse(code, *owner_of(request, requester), *requester, time_ms, time_ms, time_ms)
