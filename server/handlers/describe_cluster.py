"""DescribeCluster v0-2: the cluster's id, its brokers and one to send administration to (KIP-700).

- Addresses are those of the listener that the client came in by; a broker without that listener is left out.
- `controller_id` is a broker that takes requests for the controller: any living one. -1 if there is
  none.
- v1 `endpoint_type` says what the client takes this endpoint for: 1 brokers, 2 controllers. Ours are for brokers.
- v2 `include_fenced_brokers` has the fenced ones in the answer, too, each marked.
- Operations are all there are, if the client asks: there is no authorizer.
- Errors, without brokers: 114 MISMATCHED_ENDPOINT_TYPE (controllers), 115 UNSUPPORTED_ENDPOINT_TYPE (any other number).
"""

from __future__ import annotations

from typing import Final

from ottla.server.context import RequestContext
from ottla.server.security.operations import CLUSTER_OPERATIONS, UNASKED
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, ctx: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        text = "This endpoint is for brokers; the request is for controllers."
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=text)
    if request.endpoint_type != BROKERS:
        text = f"{request.endpoint_type} is no type of endpoint."
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=text)
    image = ctx.broker.metadata
    reachable = [
        (broker, broker.endpoints[ctx.listener]) for broker in image.brokers.values() if ctx.listener in broker.endpoints
    ]
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=next((broker.broker_id for broker, _ in reachable if not broker.fenced), -1),
        brokers=[
            DescribeClusterBroker(broker.broker_id, endpoint.host, endpoint.port, broker.rack, broker.fenced)
            for broker, endpoint in reachable
            if request.include_fenced_brokers or not broker.fenced
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else UNASKED,
    )
