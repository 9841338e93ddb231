"""DescribeQuorum, as the only voter of `__cluster_metadata-0` answers it: it leads, and nobody lags behind it.

Kafka's brokers that are no voters follow the metadata log as observers; a node that is both, as ours is, counts as a voter only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.server.metadata.image import Endpoint
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)

_THE_PARTITION: Final = [RequestTopicData(CLUSTER_METADATA, [RequestPartitionData(0)])]


class Voter(NamedTuple):
    """`directory_id` is all zeros where the configuration names the voters (`kraft.version` 0) and not the log."""

    node_id: int
    directory_id: bytes
    endpoints: Sequence[Endpoint]


def describe(
    voter: Voter, leader_epoch: int, end_offset: int, now_ms: int, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """For exactly the one partition that there is; a request for anything else, or more, finds nothing at all."""
    if request.topics != _THE_PARTITION:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Only {CLUSTER_METADATA}-0, alone, has a quorum to describe."
        return DescribeQuorumResponse(
            topics=[
                ResponseTopicData(
                    topic.topic_name,
                    [ResponsePartitionData(partition.partition_index, code, message) for partition in topic.partitions],
                )
                for topic in request.topics
            ]
        )
    state = ReplicaState(voter.node_id, voter.directory_id, end_offset, now_ms, now_ms)
    partition = ResponsePartitionData(
        leader_id=voter.node_id, leader_epoch=leader_epoch, high_watermark=end_offset, current_voters=[state]
    )
    listeners = [Listener(endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints]
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(CLUSTER_METADATA, [partition])], nodes=[Node(voter.node_id, listeners)]
    )
