"""DeleteAcls v1-3 removes the access rules that match filters; metadata/access.py says which match.

- The rules are out of force when the answer goes out. A rule that several filters match is named by all of them.
- A filter with an unknown (0) resource type, pattern type, operation or permission closes the connection, as in Kafka.
- Errors of a filter: 42 INVALID_REQUEST, 54 SECURITY_DISABLED without an authorizer. Errors of all filters: 44 POLICY_VIOLATION
  (the request would remove more than 10,000 rules, compare too much, or have an answer of more than
  `ottla.response.max.bytes`; nothing is removed), 56 KAFKA_STORAGE_ERROR.
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
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)), long_answer=True)

FILTERS_A_STEP: Final = 1000
"""So many filters are looked at before others may come first, which takes about 0.3 ms."""


def handle(body: DeleteAclsRequest, request: Request) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    return take_steps(_checked(body, request), request.broker.clock)


def _checked(body: DeleteAclsRequest, request: Request) -> Steps[DeleteAclsResponse]:
    for run in in_runs(body.filters, FILTERS_A_STEP):
        for each in run:
            check_elements(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
        yield None
    answer = yield from wait_in_steps(_delete(body, request))
    long_answers = request.broker.long_answers
    for result in {id(each): each for each in answer.filter_results}.values():  # those of equal filters are the same
        result.matching_acls = long_answers.shared(result.matching_acls)
        yield None
    answer.filter_results = long_answers.bounded(answer.filter_results)
    return answer


async def _delete(body: DeleteAclsRequest, request: Request) -> DeleteAclsResponse:
    try:
        return await request.broker.controller.delete_acls(body, request.caller())
    except Refused as refused:
        return _refusal(body, refused.code, refused.message)
    except StorageError as error:
        return _refusal(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _refusal(body: DeleteAclsRequest, code: ErrorCode, text: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, text)] * len(body.filters))
