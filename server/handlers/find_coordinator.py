"""FindCoordinator v0-6: which broker answers for a group.

- Key type 0 (all that v0 knows) is a group: the leader of its partition of `__consumer_offsets`. The first call of a cluster's
  life creates that topic and hears 15 COORDINATOR_NOT_AVAILABLE, as from Kafka; clients ask again a moment later.
- Key type 1 is a transactional id. There is no transaction coordinator yet: 42 INVALID_REQUEST, with a text. That is what Kafka
  answers for a kind of coordinator that it does not have; 15 would be retried until the client's timeout and never say why.
- Key type 2 (v6, KIP-932) is a share group's partition, and there is no share coordinator: 42 INVALID_REQUEST, too.
- v4 (KIP-699) several keys, each with its own code; an empty list is answered by an empty list. "" is a good group id.
- v1-3 carry a text even without an error: "NONE", as in Kafka.
"""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.group.coordinator import TOPIC
from ottla.server.group.errors import GroupError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
_NO_SUCH_COORDINATOR = {
    1: "This broker has no transaction coordinator: transactions are not supported yet.",
    2: "This broker has no share coordinator: share groups are not supported yet.",
}


def handle(request: FindCoordinatorRequest, ctx: RequestContext) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if ctx.api_version >= 4 else [request.key]
    if request.key_type == GROUP and keys and TOPIC not in ctx.broker.metadata.topics:
        ctx.broker.controller.create_in_background((TOPIC,))
    found = [_find(key, request.key_type, ctx) for key in keys]
    if ctx.api_version >= 4:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or ErrorCode(only.error_code).name,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(key: str, key_type: int, ctx: RequestContext) -> Coordinator:
    if key_type != GROUP:
        text = _NO_SUCH_COORDINATOR.get(key_type, f"{key_type} is not a type of coordinator.")
        return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, text)
    unavailable = Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    image = ctx.broker.metadata
    topic = image.topics.get(TOPIC)
    if topic is None:
        return unavailable
    try:
        partition = topic.partitions.get(ctx.broker.groups.partition_for(key))
    except GroupError:
        return unavailable
    broker = None if partition is None else image.brokers.get(partition.leader)
    endpoint = broker.endpoints.get(ctx.listener) if broker is not None and broker.active else None
    if broker is None or endpoint is None:
        return unavailable
    return Coordinator(key, broker.broker_id, endpoint.host, endpoint.port, ErrorCode.NONE, "")
