"""DescribeCluster v0-2 gives the cluster's id, its brokers, and one that takes requests of administrators (KIP-700).

- Addresses are those of the listener through which the client came; a broker without that listener is left out.
- `controller_id` is a broker that takes requests for the controller: any living one, or -1 if there is none.
- In v1 `endpoint_type` says what the client takes this endpoint for: 1 brokers, 2 controllers (KIP-919). At the controller's
  listener the nodes are the registered controllers with their addresses there, and `controller_id` is the leader, which is this
  node.
- In v2 `include_fenced_brokers` asks for the fenced brokers as well; they are marked as such.
- The authorized operations, if the client asks for them, are all there are, because there is no authorizer.
- Errors, without brokers: 35 UNSUPPORTED_VERSION (controllers were asked for, and metadata.version is too low for them to be
  registered), 114 MISMATCHED_ENDPOINT_TYPE (the endpoint is of the other type; 42 INVALID_REQUEST in v0), 115
  UNSUPPORTED_ENDPOINT_TYPE (any other number).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from ottla.server.metadata.feature_levels import CONTROLLERS_REGISTER
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.operations import CLUSTER_OPERATIONS, UNASKED
from ottla.server.security.rights import Open
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.wire.messages.internal.register_controller_record import RegisterControllerRecord

TRAITS = Traits(Open("everybody may know the brokers; the bit field says which rights the client has"))

BROKERS: Final = 1
CONTROLLERS: Final = 2
ENDPOINT_TYPE_SINCE: Final = 1
"""The version since which a client can say what it takes the endpoint for; before, it always meant brokers."""
_NAMES: Final = {BROKERS: "brokers", CONTROLLERS: "controllers"}


def handle(body: DescribeClusterRequest, request: Request) -> DescribeClusterResponse:
    ours = CONTROLLERS if request.broker.config.is_controllers(request.session.listener) else BROKERS
    if body.endpoint_type not in _NAMES:
        text = f"{body.endpoint_type} is not a type of endpoint."
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=text)
    if body.endpoint_type != ours:
        text = f"This endpoint is for {_NAMES[ours]}; the request is for {_NAMES[body.endpoint_type]}."
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if request.api_version >= ENDPOINT_TYPE_SINCE else ErrorCode.INVALID_REQUEST
        return DescribeClusterResponse(error_code=code, error_message=text)
    if ours == CONTROLLERS:
        return _controllers(body, request)
    image = request.broker.metadata
    reachable = [
        (broker, broker.endpoints[request.session.listener])
        for broker in image.brokers.values()
        if request.session.listener in broker.endpoints
    ]
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=next((broker.broker_id for broker, _ in reachable if not broker.fenced), -1),
        brokers=[
            DescribeClusterBroker(broker.broker_id, endpoint.host, endpoint.port, broker.rack, broker.fenced)
            for broker, endpoint in reachable
            if body.include_fenced_brokers or not broker.fenced
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS if body.include_cluster_authorized_operations else UNASKED,
    )


def _controllers(body: DescribeClusterRequest, request: Request) -> DescribeClusterResponse:
    """Answers a request at the controller's listener, where the nodes are the registered controllers."""
    image = request.broker.metadata
    if image.metadata_version < CONTROLLERS_REGISTER:
        text = "Controllers are in the metadata from metadata.version 3.7-IV0 on; raise it with kafka-features upgrade."
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)
    records = (record for key, record in image.kept.items() if key[0] == "controller")
    nodes = [
        DescribeClusterBroker(record.controller_id, endpoint.host, endpoint.port)
        for record in cast("Iterable[RegisterControllerRecord]", records)
        for endpoint in record.end_points
        if endpoint.name.upper() == request.session.listener
    ]
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=image.cluster_id,
        controller_id=next((node.broker_id for node in nodes if node.broker_id == request.broker.config.node_id), -1),
        brokers=nodes,
        cluster_authorized_operations=CLUSTER_OPERATIONS if body.include_cluster_authorized_operations else UNASKED,
    )
