"""AlterClientQuotas v0-1: set and remove quotas of users, client ids and addresses (KIP-546); the rules: metadata/quotas.py.

- An entity is a user, a client id, both, or an ip; a null name is the default for all of its kind. Each entity succeeds or fails
  on its own and as a whole, and is answered once however often it is named. What is removed need not be there.
- `validate_only` answers as if, and changes nothing. A change is in force when the answer is there.
- Errors: 42 INVALID_REQUEST (no such kind of name or quota, an empty name, an ip with anything else or one that does not resolve,
  a value that is not positive, not finite, too large or, of bytes and connections, not whole; an entity or a quota of it twice).
  Of the whole request, for all its entities: 44 POLICY_VIOLATION (over 10,000 changes), 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.metadata.quotas import refused_whole
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

TRAITS = Traits(Whole(Need(Operation.ALTER_CONFIGS, Resource.CLUSTER)))


async def handle(body: AlterClientQuotasRequest, request: Request) -> AlterClientQuotasResponse:
    try:
        return await request.broker.controller.alter_client_quotas(body)
    except StorageError as error:
        return refused_whole(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
