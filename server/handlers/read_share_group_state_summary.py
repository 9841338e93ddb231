"""ReadShareGroupStateSummary v0-1 says how far a share group has come in partitions, without the batches (KIP-932; v1 KIP-1226).

v1 adds how many records from the start offset on are finished, or -1 if that is unknown. The start offset is -1 if the state was
never initialized. The leader epoch of a request is not looked at, as in Kafka. Errors of each partition, with a message:
42 INVALID_REQUEST for a negative number, 3 UNKNOWN_TOPIC_OR_PARTITION, 14 COORDINATOR_LOAD_IN_PROGRESS, 16 NOT_COORDINATOR.
server/share_state/answers.py says which empty requests are answered without results.
"""

from __future__ import annotations

from ottla.server.base.answers import map_answer
from ottla.server.base.promise import Promise
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.server.share_state.answers import answer_each
from ottla.wire.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

TRAITS = Traits(Whole(Need(Operation.CLUSTER_ACTION, Resource.CLUSTER)))


def handle(
    body: ReadShareGroupStateSummaryRequest, request: Request
) -> ReadShareGroupStateSummaryResponse | Promise[ReadShareGroupStateSummaryResponse]:
    coordinator = request.broker.share_coordinator()

    def ask(topic_id: bytes, each: PartitionData) -> PartitionResult | Promise[PartitionResult]:
        found = coordinator.read_summary(body.group_id, topic_id, each.partition)
        return map_answer(found, lambda summary: PartitionResult(each.partition, 0, None, *summary))

    return answer_each(
        body.group_id,
        body.topics,
        ask,
        lambda partition, error: PartitionResult(partition, error.code, error.text),
        lambda results: ReadShareGroupStateSummaryResponse([ReadStateSummaryResult(*each) for each in results]),
        request.broker.clock,
    )
