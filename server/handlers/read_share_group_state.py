"""ReadShareGroupState v0 tells the leader of a partition how far a share group has come there (KIP-932).

A request with a higher leader epoch than the last fences the earlier leaders. Errors of each partition, with a message: 42
INVALID_REQUEST for a negative number or a share partition that was not initialized, 74 FENCED_LEADER_EPOCH, 3
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
from ottla.server.share_state.coordinator import ReadState
from ottla.wire.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

TRAITS = Traits(Whole(Need(Operation.CLUSTER_ACTION, Resource.CLUSTER)))


def handle(
    body: ReadShareGroupStateRequest, request: Request
) -> ReadShareGroupStateResponse | Promise[ReadShareGroupStateResponse]:
    coordinator = request.broker.share_coordinator()
    known: dict[tuple[bytes, int, int], PartitionResult | Promise[PartitionResult]] = {}

    def ask(topic_id: bytes, each: PartitionData) -> PartitionResult | Promise[PartitionResult]:
        """Reads the state, which may be long; a partition that is named again is not read again."""
        key = topic_id, each.partition, each.leader_epoch
        if key not in known:
            found = coordinator.read(body.group_id, topic_id, each.partition, each.leader_epoch)
            known[key] = map_answer(found, lambda state: _result(each.partition, state))
        return known[key]

    return answer_each(
        body.group_id,
        body.topics,
        ask,
        lambda partition, error: PartitionResult(partition, error.code, error.text),
        lambda results: ReadShareGroupStateResponse([ReadStateResult(*each) for each in results]),
        request.broker.clock,
    )


def _result(partition: int, state: ReadState) -> PartitionResult:
    batches = [StateBatch(*batch[:2], batch.delivery_state, batch.delivery_count) for batch in state.batches]
    return PartitionResult(partition, state_epoch=state.state_epoch, start_offset=state.start_offset, state_batches=batches)
