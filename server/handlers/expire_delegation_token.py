"""ExpireDelegationToken v1-2 makes a delegation token end earlier, or at once (KIP-48).

- The request names the token by its HMAC. metadata/tokens.py has the rules, and security/delegation.py says who may ask.
- Errors: 64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (the requester is not authenticated, or by a token itself), with a time of -1;
  35 UNSUPPORTED_VERSION (metadata.version is below 3.6), 56 KAFKA_STORAGE_ERROR, 61 DELEGATION_TOKEN_AUTH_DISABLED
  (delegation.token.secret.key is not set), 62 DELEGATION_TOKEN_NOT_FOUND, 63 DELEGATION_TOKEN_OWNER_MISMATCH (the requester is
  neither owner nor renewer), 66 DELEGATION_TOKEN_EXPIRED.
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.delegation import NO_TIME, may_ask
from ottla.server.security.rights import Open
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

TRAITS = Traits(Open("a token obeys its owner and its renewers, whatever the ACLs say"))


async def handle(body: ExpireDelegationTokenRequest, request: Request) -> ExpireDelegationTokenResponse:
    if not may_ask(request.broker.config.all_listeners, request.session):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    try:
        return await request.broker.controller.expire_delegation_token(body, request.caller())
    except StorageError:  # logged where the directory went offline
        return ExpireDelegationTokenResponse(ErrorCode.KAFKA_STORAGE_ERROR)
