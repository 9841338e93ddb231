"""WriteShareGroupState v0-1 stores how far a share group has come in a partition, as its leader says (KIP-932; v1 KIP-1226).

v1 adds how many records from the start offset on are finished; after a v0 request that is unknown (-1). Errors of each partition,
with a message: 42 INVALID_REQUEST for a negative number or a share partition that was not initialized, 74 FENCED_LEADER_EPOCH,
124 FENCED_STATE_EPOCH, 3 UNKNOWN_TOPIC_OR_PARTITION, 14 COORDINATOR_LOAD_IN_PROGRESS, 16 NOT_COORDINATOR.
server/share_state/answers.py says which empty requests are answered without results.
"""

from __future__ import annotations

from ottla.server.base.answers import map_answer
from ottla.server.base.promise import Promise
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.server.share_state.answers import answer_each
from ottla.server.share_state.batches import StateBatch
from ottla.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

TRAITS = Traits(Whole(Need(Operation.CLUSTER_ACTION, Resource.CLUSTER)))


def handle(
    body: WriteShareGroupStateRequest, request: Request
) -> WriteShareGroupStateResponse | Promise[WriteShareGroupStateResponse]:
    coordinator = request.broker.share_coordinator()

    def ask(topic_id: bytes, each: PartitionData) -> PartitionResult | Promise[PartitionResult]:
        done = coordinator.write(
            body.group_id,
            topic_id,
            each.partition,
            each.state_epoch,
            each.leader_epoch,
            each.start_offset,
            each.delivery_complete_count,
            [StateBatch(one.first_offset, one.last_offset, one.delivery_count, one.delivery_state) for one in each.state_batches],
        )
        return map_answer(done, lambda _: PartitionResult(each.partition))

    return answer_each(
        body.group_id,
        body.topics,
        ask,
        lambda partition, error: PartitionResult(partition, error.code, error.text),
        lambda results: WriteShareGroupStateResponse([WriteStateResult(*each) for each in results]),
        request.broker.clock,
    )
