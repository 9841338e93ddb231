"""CreateAcls v1-3 adds access rules; metadata/access.py says which there can be.

- Each rule succeeds or fails on its own, and is in force when the answer goes out. A rule that exists already succeeds.
- A rule with an unknown (0) resource type, pattern type, operation or permission closes the connection, as in Kafka.
- Errors of a rule: 42 INVALID_REQUEST, for all rules if one has ANY or MATCH, which only filters may have; 44 POLICY_VIOLATION
  (more than 10,000 new rules, or more than 8 MiB of them), 54 SECURITY_DISABLED without an authorizer, 56 KAFKA_STORAGE_ERROR.
- The controller carries it out, on this node or another; whether there is an authorizer is for that one to say.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from ottla.log.errors import StorageError
from ottla.server.base.turns import Steps, in_runs, take_steps, wait_in_steps
from ottla.server.metadata.operation import Refused
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.acls import check_elements
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


RULES_A_STEP: Final = 1000
"""So many rules are looked at before others may come first, which takes about 0.3 ms."""


def handle(body: CreateAclsRequest, request: Request) -> CreateAclsResponse | Awaitable[CreateAclsResponse]:
    return take_steps(_checked(body, request), request.broker.clock)


def _checked(body: CreateAclsRequest, request: Request) -> Steps[CreateAclsResponse]:
    for run in in_runs(body.creations, RULES_A_STEP):
        for rule in run:
            check_elements(rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type)
        yield None
    return (yield from wait_in_steps(_create(body, request)))


async def _create(body: CreateAclsRequest, request: Request) -> CreateAclsResponse:
    try:
        return await request.broker.controller.create_acls(body, request.caller())
    except Refused as refused:
        return _refusal(body, refused.code, refused.message)
    except StorageError as error:
        return _refusal(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _refusal(body: CreateAclsRequest, code: ErrorCode, text: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, text)] * len(body.creations))
