"""AlterClientQuotas v0-1 sets and removes quotas of users, client ids and addresses (KIP-546); metadata/quotas.py has the rules.

- An entity is a user, a client id, both, or an ip; a null name stands for the default of its kind. Each entity succeeds or fails
  as a whole and independently of the others, and is answered once however often it is named. Removing a quota that is not set
  succeeds.
- `validate_only` gives the same answer and changes nothing. A change is in force when the answer goes out.
- Errors of an entity: 42 INVALID_REQUEST (an unknown kind of name or of quota; an empty name; an ip together with another name,
  or one that does not resolve; a value that is not positive, not finite, too large, or, for bytes and connections, not whole; an
  entity, or a quota of it, that is named twice).
- Errors of the whole request, given for each of its entities: 44 POLICY_VIOLATION (more than 10,000 changes, or more than 8 MiB
  of them), 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.log.errors import StorageError
from ottla.server.base.turns import promise_if_long
from ottla.server.metadata.operation import Refused
from ottla.server.metadata.quotas import refused_whole
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

TRAITS = Traits(Whole(Need(Operation.ALTER_CONFIGS, Resource.CLUSTER)))


def handle(body: AlterClientQuotasRequest, request: Request) -> Awaitable[AlterClientQuotasResponse] | AlterClientQuotasResponse:
    return promise_if_long(_alter(body, request), len(body.entries), request.broker.clock)


async def _alter(body: AlterClientQuotasRequest, request: Request) -> AlterClientQuotasResponse:
    try:
        return await request.broker.controller.alter_client_quotas(body, request.caller())
    except Refused as refused:
        return refused_whole(body, refused.code, refused.message)
    except StorageError as error:
        return refused_whole(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
