"""InitializeShareGroupState v0 starts a share group in partitions, at a start offset and with a new state epoch (KIP-932).

Errors of each partition, with a message: 42 INVALID_REQUEST for a negative number, 124 FENCED_STATE_EPOCH, 3
UNKNOWN_TOPIC_OR_PARTITION, 14 COORDINATOR_LOAD_IN_PROGRESS, 16 NOT_COORDINATOR. server/share_state/answers.py says which empty
requests are answered without results.
"""

from __future__ import annotations

from ottla.server.base.answers import map_answer
from ottla.server.base.promise import Promise
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.server.share_state.answers import answer_each
from ottla.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)

TRAITS = Traits(Whole(Need(Operation.CLUSTER_ACTION, Resource.CLUSTER)))


def handle(
    body: InitializeShareGroupStateRequest, request: Request
) -> InitializeShareGroupStateResponse | Promise[InitializeShareGroupStateResponse]:
    coordinator = request.broker.share_coordinator()

    def ask(topic_id: bytes, each: PartitionData) -> PartitionResult | Promise[PartitionResult]:
        done = coordinator.initialize(body.group_id, topic_id, each.partition, each.state_epoch, each.start_offset)
        return map_answer(done, lambda _: PartitionResult(each.partition))

    return answer_each(
        body.group_id,
        body.topics,
        ask,
        lambda partition, error: PartitionResult(partition, error.code, error.text),
        lambda results: InitializeShareGroupStateResponse([InitializeStateResult(*each) for each in results]),
        request.broker.clock,
        empty_topics=True,
    )
