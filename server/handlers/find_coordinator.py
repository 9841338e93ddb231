"""FindCoordinator v0-6: which broker answers for a group or a transactional id.

- Key type 0 (all that v0 knows) is a group: the leader of its partition of `__consumer_offsets`. Key type 1 is a transactional
  id, and the topic `__transaction_state`. The first call of a cluster's life creates the topic and hears 15
  COORDINATOR_NOT_AVAILABLE, as from Kafka; clients ask again a moment later.
- Key type 2 (v6, KIP-932) is a share group's partition, and there is no share coordinator: 42 INVALID_REQUEST, with a text.
- v4 (KIP-699) several keys, each with its own code; an empty list is answered by an empty list. "" is a good group id.
- v1-3 carry a text even without an error: "NONE", as in Kafka.
"""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.group.errors import GroupError
from ottla.server.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.server.txn.errors import TransactionError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

SHARE = 2
_TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}


def handle(request: FindCoordinatorRequest, ctx: RequestContext) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if ctx.api_version >= 4 else [request.key]
    topic = _TOPICS.get(request.key_type)
    if topic is not None and keys and topic not in ctx.broker.metadata.topics:
        ctx.broker.controller.create_in_background((topic,))
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
    if key_type not in _TOPICS:
        text = f"{key_type} is not a type of coordinator."
        if key_type == SHARE:
            text = "This broker has no share coordinator: share groups are not supported yet."
        return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, text)
    unavailable = Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    image = ctx.broker.metadata
    topic = image.topics.get(_TOPICS[key_type])
    if topic is None:
        return unavailable
    coordinator = ctx.broker.groups if _TOPICS[key_type] == CONSUMER_OFFSETS else ctx.broker.transaction_coordinator()
    try:
        partition = topic.partitions.get(coordinator.partition_for(key))
    except (GroupError, TransactionError):
        return unavailable
    broker = None if partition is None else image.brokers.get(partition.leader)
    endpoint = broker.endpoints.get(ctx.listener) if broker is not None and broker.active else None
    if broker is None or endpoint is None:
        return unavailable
    return Coordinator(key, broker.broker_id, endpoint.host, endpoint.port, ErrorCode.NONE, "")
