"""DescribeAcls v1-3 lists the access rules that match a filter, by the resources that they are about.

A filter with an unknown (0) resource type, pattern type, operation or permission closes the connection, as in Kafka. Without an
authorizer the answer is 54 SECURITY_DISABLED.
"""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.metadata.access import DISABLED, Filter, rules
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.acls import check_elements
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse

TRAITS = Traits(Whole(Need(Operation.DESCRIBE, Resource.CLUSTER)))

RULES_A_STEP = 1000
"""So many rules are looked at before others may come first: about 0.5 ms."""


def handle(body: DescribeAclsRequest, request: Request) -> DescribeAclsResponse | Promise[DescribeAclsResponse]:
    check_elements(body.resource_type_filter, body.pattern_type_filter, body.operation, body.permission_type)
    if request.broker.authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=DISABLED)
    return take_steps(_describe(body, request), request.broker.clock)


def _describe(body: DescribeAclsRequest, request: Request) -> Steps[DescribeAclsResponse]:
    wanted = Filter(
        body.resource_type_filter,
        body.resource_name_filter,
        body.pattern_type_filter,
        body.principal_filter,
        body.host_filter,
        body.operation,
        body.permission_type,
    )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for at, rule in enumerate(list(rules(request.broker.metadata)), 1):
        if wanted.matches(rule):
            pattern = rule.resource_type, rule.resource_name, rule.pattern_type
            resource = resources.get(pattern)
            if resource is None:
                resource = resources[pattern] = DescribeAclsResource(*pattern, acls=[])
            resource.acls.append(AclDescription(rule.principal, rule.host, rule.operation, rule.permission_type))
        if at % RULES_A_STEP == 0:
            yield None
    return DescribeAclsResponse(resources=list(resources.values()))
