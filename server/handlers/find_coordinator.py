"""FindCoordinator v0-6 names the broker that coordinates a group, a transactional id or a share partition.

- Key type 0 (the only one in v0) is a group: its coordinator is the leader of its partition of `__consumer_offsets`. Key type 1
  is a transactional id, and the topic is `__transaction_state`. Key type 2 (v6, KIP-932) is a share partition, `group:topic
  id:partition`, and the topic is `__share_group_state`. The first call in the life of a cluster creates the topic and is answered
  15 COORDINATOR_NOT_AVAILABLE, as by Kafka; clients ask again a moment later.
- 42 INVALID_REQUEST for any other key type, with a message, and for a share partition that is not written like one, without a
  message.
- v4 (KIP-699) takes several keys, each with its own error code. An empty list is answered with an empty list. "" is a valid group
  id.
- v1-3 carry a message even without an error: "NONE", as in Kafka.
"""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, answer_once, take_steps
from ottla.server.group.errors import GroupError
from ottla.server.metadata.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.txn.errors import TransactionError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

TRAITS = Traits(
    Inside(
        Need(Operation.DESCRIBE, Resource.GROUP),
        Need(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),
        Need(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    )
)

SHARE = 2
_TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE, SHARE: SHARE_GROUP_STATE}
_SHARE_SINCE = 6


def handle(body: FindCoordinatorRequest, request: Request) -> FindCoordinatorResponse | Promise[FindCoordinatorResponse]:
    return take_steps(_answer(body, request), request.broker.clock)


def _answer(body: FindCoordinatorRequest, request: Request) -> Steps[FindCoordinatorResponse]:
    keys = body.coordinator_keys if request.api_version >= 4 else [body.key]
    found = yield from answer_once(keys, lambda key: _find(key, body.key_type, request))
    if request.api_version >= 4:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or ErrorCode(only.error_code).name,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(key: str, key_type: int, request: Request) -> Coordinator:
    if key_type not in _TOPICS:
        return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, f"{key_type} is not a type of coordinator.")
    if key_type == SHARE and not _names_share_partition(key, request.api_version):
        return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, "")
    unavailable = Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    image = request.broker.metadata
    topic = image.topics.get(_TOPICS[key_type])
    if topic is None:
        request.broker.controller.create_in_background((_TOPICS[key_type],), None)
        return unavailable
    try:
        partition = topic.partitions.get(_partition_for(key, key_type, request))
    except (GroupError, TransactionError):
        return unavailable
    broker = None if partition is None else image.brokers.get(partition.leader)
    endpoint = broker.endpoints.get(request.session.listener) if broker is not None and broker.active else None
    if broker is None or endpoint is None:
        return unavailable
    return Coordinator(key, broker.broker_id, endpoint.host, endpoint.port, ErrorCode.NONE, "")


def _names_share_partition(key: str, version: int) -> bool:
    from ottla.server.share_state.state import parse_key  # not loaded by brokers without share groups

    return version >= _SHARE_SINCE and parse_key(key) is not None


def _partition_for(key: str, key_type: int, request: Request) -> int:
    if key_type == SHARE:
        from ottla.server.share_state.state import parse_key

        name = parse_key(key)
        assert name is not None, key
        return request.broker.share_coordinator().partition_for(name)
    coordinator = request.broker.groups if _TOPICS[key_type] == CONSUMER_OFFSETS else request.broker.transaction_coordinator()
    return coordinator.partition_for(key)
