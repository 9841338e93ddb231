"""The quorum of `__cluster_metadata-0`, of which this node is and stays the only voter.

DescribeQuorum answers that this node leads and that nobody lags behind it. Kafka's brokers that do not vote follow the metadata
log as observers; a node that is both broker and voter, as here, counts only as a voter.

AddRaftVoter and RemoveRaftVoter are checked as by Kafka. A request that passes would need another controller: since no node
follows this one's metadata log, a voter to be added counts as unreachable, and the last voter is never removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.server.metadata.image import Endpoint
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.metadata.operation import Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
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
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.primitives import ZERO_UUID, uuid_to_text

_THE_PARTITION: Final = [RequestTopicData(CLUSTER_METADATA, [RequestPartitionData(0)])]


class Voter(NamedTuple):
    """A voter of the quorum. `directory_id` is all zeros if the configuration, not the log, names the voters (`kraft.version`
    0)."""

    node_id: int
    directory_id: bytes
    endpoints: Sequence[Endpoint]


def describe(
    voter: Voter, leader_epoch: int, end_offset: int, now_ms: int, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Answers DescribeQuorum if it asks for exactly the one partition that has a quorum; anything else, or more, is an error."""
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


def add(voter: Voter, cluster_id: str, listener: str, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Answers AddRaftVoter. `listener` is the one through which controllers talk to each other. Answers 7 REQUEST_TIMED_OUT, 35
    UNSUPPORTED_VERSION, 42 INVALID_REQUEST, 104 INCONSISTENT_CLUSTER_ID or 126 DUPLICATE_VOTER, never success."""
    try:
        _check_request(cluster_id, request)
        if listener not in {each.name.upper() for each in request.listeners}:
            raise Refused(ErrorCode.INVALID_REQUEST, f"The voter has no address for the controllers' listener {listener}.")
        _check_dynamic(voter)
        if request.voter_id == voter.node_id:
            text = f"Node {request.voter_id} is a voter already, with the directory {uuid_to_text(voter.directory_id)}."
            raise Refused(ErrorCode.DUPLICATE_VOTER, text)
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, f"Node {request.voter_id} does not follow the metadata log of this one.")
    except Refused as refused:
        return AddRaftVoterResponse(0, refused.code, refused.message)


def remove(voter: Voter, cluster_id: str, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Answers 35 UNSUPPORTED_VERSION, 42 INVALID_REQUEST, 104 INCONSISTENT_CLUSTER_ID or 127 VOTER_NOT_FOUND, never success."""
    try:
        _check_request(cluster_id, request)
        _check_dynamic(voter)
        asked, only = _named(request.voter_id, request.voter_directory_id), _named(voter.node_id, voter.directory_id)
        text = f"The only voter is {only}, which cannot be removed; the request names {asked}."
        raise Refused(ErrorCode.VOTER_NOT_FOUND, text)
    except Refused as refused:
        return RemoveRaftVoterResponse(0, refused.code, refused.message)


def _named(voter_id: int, directory_id: bytes) -> str:
    return f"node {voter_id} with the directory {uuid_to_text(directory_id)}"


def _check_request(cluster_id: str, request: AddRaftVoterRequest | RemoveRaftVoterRequest) -> None:
    """Checks the cluster and the voter that a request names. Raises Refused with 42 INVALID_REQUEST or 104
    INCONSISTENT_CLUSTER_ID."""
    if request.cluster_id not in (None, cluster_id):
        raise Refused(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {cluster_id}, not {request.cluster_id}.")
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, "A voter is named by an id of at least 0 and the id of its directory.")


def _check_dynamic(voter: Voter) -> None:
    """Raises Refused with 35 UNSUPPORTED_VERSION if the voters are fixed by the configuration."""
    if voter.directory_id == ZERO_UUID:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, "The configuration names the voters: kraft.version is 0.")
