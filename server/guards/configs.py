"""Guards of the APIs about settings, and of DescribeCluster.

Settings of a topic need a right to the topic, those of a group a right to the group, and those of brokers, loggers and client
metrics a right to the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from ottla.server.base.turns import Steps
from ottla.server.guards.ask import CLUSTER, GROUP, NAMES_A_STEP, TEXTS, TOPIC, change_answer, in_turns
from ottla.server.guards.topics import cluster_operations
from ottla.server.metadata import image
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import CLUSTER_NAME, Ask
from ottla.server.security.operations import UNASKED
from ottla.server.security.rights import Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse, DescribeConfigsResult
from ottla.wire.messages.incremental_alter_configs import AlterConfigsResourceResponse as IncrementalResponse
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

T = TypeVar("T")

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


def _take_refused(body: Any, operation: Operation, ask: Ask, answer: Callable[[ErrorCode, str, int, str], T]) -> Steps[list[T]]:
    """Makes steps that take what is refused out of a request, and return what `answer` makes of each resource: of its error, the
    text of that, its type and its name."""
    refused: list[T] = []
    allowed = []
    for at, each in enumerate(body.resources, 1):
        code = _refusal(each.resource_type, each.resource_name, operation, ask)
        if code is None:
            allowed.append(each)
        else:
            refused.append(answer(code, TEXTS[code], each.resource_type, each.resource_name))
        if at % NAMES_A_STEP == 0:
            yield None
    body.resources = allowed
    return refused


@in_turns
def describe_configs(ask: Ask, handle: Handle, body: DescribeConfigsRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE_CONFIGS on each resource."""
    if any(each.resource_type not in _CODES for each in body.resources):
        return handle(body, request)  # which refuses all of them
    refused = yield from _take_refused(body, Operation.DESCRIBE_CONFIGS, ask, DescribeConfigsResult)
    if not refused:
        return handle(body, request)

    def add(answer: DescribeConfigsResponse) -> DescribeConfigsResponse:
        answer.results += refused
        return answer

    return change_answer(handle(body, request), add)


@in_turns
def alter_configs(ask: Ask, handle: Handle, body: AlterConfigsRequest, request: Request) -> Steps[Any]:
    """Asks for ALTER_CONFIGS on each resource."""
    return (yield from _alter(ask, handle, body, request, AlterConfigsResourceResponse))


@in_turns
def incremental_alter_configs(ask: Ask, handle: Handle, body: IncrementalAlterConfigsRequest, request: Request) -> Steps[Any]:
    """Asks for ALTER_CONFIGS on each resource."""
    return (yield from _alter(ask, handle, body, request, IncrementalResponse))


def _alter(ask: Ask, handle: Handle, body: Any, request: Request, refusal: Callable[[ErrorCode, str, int, str], T]) -> Steps[Any]:
    refused = yield from _take_refused(body, Operation.ALTER_CONFIGS, ask, refusal)
    if not refused:
        return handle(body, request)

    def add(answer: Any) -> Any:
        answer.responses += refused
        return answer

    return change_answer(handle(body, request), add)


def describe_cluster(ask: Ask, handle: Handle, body: DescribeClusterRequest, request: Request) -> Any:
    """Needs nothing; the operations in the answer are the client's own."""

    def add(answer: DescribeClusterResponse) -> DescribeClusterResponse:
        if answer.cluster_authorized_operations != UNASKED:
            answer.cluster_authorized_operations = cluster_operations(ask)
        return answer

    return change_answer(handle(body, request), add)
