"""Guards of the APIs about settings, and of DescribeCluster.

Settings of a topic need a right to the topic, those of a group a right to the group, and those of brokers, loggers and client
metrics a right to the cluster.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.server.guards.ask import CLUSTER, GROUP, TEXTS, TOPIC, mend
from ottla.server.guards.topics import cluster_operations
from ottla.server.metadata import image
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import CLUSTER_NAME, Ask
from ottla.server.security.operations import UNASKED
from ottla.server.security.rights import Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse, DescribeConfigsResult
from ottla.wire.messages.incremental_alter_configs import AlterConfigsResourceResponse as IncrementalResponse
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

_CODES: Final = {
    image.TOPIC: (Resource.TOPIC, TOPIC),
    image.GROUP: (Resource.GROUP, GROUP),
    image.BROKER: (Resource.CLUSTER, CLUSTER),
    image.BROKER_LOGGER: (Resource.CLUSTER, CLUSTER),
    image.CLIENT_METRICS: (Resource.CLUSTER, CLUSTER),
}


def _refusal(kind: int, name: str, operation: Operation, ask: Ask) -> ErrorCode | None:
    """Returns the error for a resource of the APIs of settings; None if the client has the right, or there is no such type."""
    if kind not in _CODES:
        return None
    resource, code = _CODES[kind]
    return None if ask.may(operation, resource, CLUSTER_NAME if resource is Resource.CLUSTER else name) else code


def describe_configs(ask: Ask, handle: Handle, body: DescribeConfigsRequest, request: Request) -> Any:
    """DESCRIBE_CONFIGS."""
    if any(each.resource_type not in _CODES for each in body.resources):
        return handle(body, request)  # which refuses all of them
    codes = [_refusal(each.resource_type, each.resource_name, Operation.DESCRIBE_CONFIGS, ask) for each in body.resources]
    if not any(codes):
        return handle(body, request)
    refused = [
        DescribeConfigsResult(code, TEXTS[code], each.resource_type, each.resource_name)
        for each, code in zip(body.resources, codes, strict=True)
        if code is not None
    ]
    body.resources = [each for each, code in zip(body.resources, codes, strict=True) if code is None]

    def add(answer: DescribeConfigsResponse) -> DescribeConfigsResponse:
        answer.results += refused
        return answer

    return mend(handle(body, request), add)


def alter_configs(ask: Ask, handle: Handle, body: AlterConfigsRequest, request: Request) -> Any:
    """ALTER_CONFIGS."""
    codes = [_refusal(each.resource_type, each.resource_name, Operation.ALTER_CONFIGS, ask) for each in body.resources]
    if not any(codes):
        return handle(body, request)
    refused = [
        AlterConfigsResourceResponse(code, TEXTS[code], each.resource_type, each.resource_name)
        for each, code in zip(body.resources, codes, strict=True)
        if code is not None
    ]
    body.resources = [each for each, code in zip(body.resources, codes, strict=True) if code is None]

    def add(answer: AlterConfigsResponse) -> AlterConfigsResponse:
        answer.responses += refused
        return answer

    return mend(handle(body, request), add)


def incremental_alter_configs(ask: Ask, handle: Handle, body: IncrementalAlterConfigsRequest, request: Request) -> Any:
    """ALTER_CONFIGS."""
    codes = [_refusal(each.resource_type, each.resource_name, Operation.ALTER_CONFIGS, ask) for each in body.resources]
    if not any(codes):
        return handle(body, request)
    refused = [
        IncrementalResponse(code, TEXTS[code], each.resource_type, each.resource_name)
        for each, code in zip(body.resources, codes, strict=True)
        if code is not None
    ]
    body.resources = [each for each, code in zip(body.resources, codes, strict=True) if code is None]

    def add(answer: IncrementalAlterConfigsResponse) -> IncrementalAlterConfigsResponse:
        answer.responses += refused
        return answer

    return mend(handle(body, request), add)


def describe_cluster(ask: Ask, handle: Handle, body: DescribeClusterRequest, request: Request) -> Any:
    """Needs nothing; the operations in the answer are the client's own."""

    def add(answer: DescribeClusterResponse) -> DescribeClusterResponse:
        if answer.cluster_authorized_operations != UNASKED:
            answer.cluster_authorized_operations = cluster_operations(ask)
        return answer

    return mend(handle(body, request), add)
