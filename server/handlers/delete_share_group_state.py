"""DeleteShareGroupState v0 makes the share coordinator forget a share group's state in partitions (KIP-932).

Deleting a state that does not exist succeeds. Errors of each partition, with a message: 42 INVALID_REQUEST for a negative number,
3 UNKNOWN_TOPIC_OR_PARTITION, 14 COORDINATOR_LOAD_IN_PROGRESS, 16 NOT_COORDINATOR. server/share_state/answers.py says which empty
requests are answered without results.
"""

from __future__ import annotations

from ottla.server.base.answers import map_answer
from ottla.server.base.promise import Promise
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.server.share_state.answers import answer_each
from ottla.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)

TRAITS = Traits(Whole(Need(Operation.CLUSTER_ACTION, Resource.CLUSTER)))


def handle(
    body: DeleteShareGroupStateRequest, request: Request
) -> DeleteShareGroupStateResponse | Promise[DeleteShareGroupStateResponse]:
    coordinator = request.broker.share_coordinator()

    def ask(topic_id: bytes, each: PartitionData) -> PartitionResult | Promise[PartitionResult]:
        done = coordinator.delete(body.group_id, topic_id, each.partition)
        return map_answer(done, lambda _: PartitionResult(each.partition))

    return answer_each(
        body.group_id,
        body.topics,
        ask,
        lambda partition, error: PartitionResult(partition, error.code, error.text),
        lambda results: DeleteShareGroupStateResponse([DeleteStateResult(*each) for each in results]),
        request.broker.clock,
    )
