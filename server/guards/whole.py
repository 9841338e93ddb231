"""Guards of the APIs that need one right for the whole request. Without it they answer 31 in every place for an error."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from ottla.server.guards.ask import CLUSTER, TEXTS, Guard
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.server.security.rights import Either, Need, Resource, Whole
from ottla.wire.api import BY_MODULE
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.primitives import WireStruct

_TEXT: Final = TEXTS[CLUSTER]


def guard_whole(module: str, rights: Whole) -> Guard:
    """Returns the guard of an API whose handler declares `rights`."""
    refuse = _REFUSALS.get(module) or _refuse_plainly(module)
    needs = (rights.need.first, rights.need.second) if isinstance(rights.need, Either) else (rights.need,)

    def guard(ask: Ask, handle: Handle, body: Any, request: Request) -> Any:
        return handle(body, request) if _may_any(ask, needs) else refuse(body)

    return guard


def _may_any(ask: Ask, needs: tuple[Need, ...]) -> bool:
    assert all(need.resource is Resource.CLUSTER for need in needs)
    return any(ask.cluster(need.operation) for need in needs)


def _refuse_plainly(module: str) -> Callable[[Any], WireStruct]:
    """Returns what makes an answer that has a place for the error of the whole, or of each partition of topics by id."""
    messages = import_module(f"ottla.wire.messages.{module}")
    name = BY_MODULE[module].name
    response = getattr(messages, f"{name}Response")
    if "error_code" not in response.__slots__:
        return _refuse_by_topic_id(messages, name)

    def refuse(body: Any) -> WireStruct:
        answer: Any = response(error_code=CLUSTER)
        if "error_message" in response.__slots__:
            answer.error_message = _TEXT
        refusal: WireStruct = answer
        return refusal

    return refuse


def _refuse_by_topic_id(messages: Any, name: str) -> Callable[[Any], WireStruct]:
    """Returns what refuses a request about the state of a share group, for each partition."""
    response = getattr(messages, f"{name}Response")
    topic_result = getattr(messages, name.replace("ShareGroup", "") + "Result")
    partition_result = messages.PartitionResult

    def refuse(body: Any) -> WireStruct:
        answer: WireStruct = response(
            results=[
                topic_result(
                    topic.topic_id,
                    [partition_result(each.partition, error_code=CLUSTER, error_message=_TEXT) for each in topic.partitions],
                )
                for topic in body.topics
            ]
        )
        return answer

    return refuse


def _alter_partition_reassignments(body: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=CLUSTER,
        error_message=_TEXT,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [ReassignablePartitionResponse(each.partition_index, CLUSTER, _TEXT) for each in topic.partitions],
            )
            for topic in body.topics
        ],
    )


def _describe_client_quotas(body: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=CLUSTER, error_message=None, entries=None)


def _describe_user_scram_credentials(body: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    """Returns the refusal, with a result that names nobody, as Kafka's has."""
    nobody = DescribeUserScramCredentialsResult("", CLUSTER, None)
    return DescribeUserScramCredentialsResponse(error_code=CLUSTER, error_message=None, results=[nobody])


def _create_acls(body: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(CLUSTER, _TEXT)] * len(body.creations))


def _delete_acls(body: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(CLUSTER, _TEXT)] * len(body.filters))


def _alter_client_quotas(body: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    from ottla.server.metadata.quotas import refused_whole

    return refused_whole(body, CLUSTER, _TEXT)


def _elect_leaders(body: ElectLeadersRequest) -> ElectLeadersResponse:
    from ottla.server.metadata.elect_leaders import refused_whole

    return refused_whole(body, CLUSTER, _TEXT)


def _alter_user_scram_credentials(body: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([each.name for each in body.deletions] + [each.name for each in body.upsertions])
    return AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(each, CLUSTER, _TEXT) for each in users])


def _alter_replica_log_dirs(body: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    topics = [topic for directory in body.dirs for topic in directory.topics]
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic.name, [AlterReplicaLogDirPartitionResult(index, CLUSTER) for index in topic.partitions]
            )
            for topic in topics
        ]
    )


def _write_txn_markers(body: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name, [WritableTxnMarkerPartitionResult(index, CLUSTER) for index in topic.partition_indexes]
                    )
                    for topic in marker.topics
                ],
            )
            for marker in body.markers
        ]
    )


_REFUSALS: Final[dict[str, Callable[[Any], WireStruct]]] = {
    "alter_partition_reassignments": _alter_partition_reassignments,
    "describe_client_quotas": _describe_client_quotas,
    "describe_user_scram_credentials": _describe_user_scram_credentials,
    "create_acls": _create_acls,
    "delete_acls": _delete_acls,
    "alter_client_quotas": _alter_client_quotas,
    "elect_leaders": _elect_leaders,
    "alter_user_scram_credentials": _alter_user_scram_credentials,
    "alter_replica_log_dirs": _alter_replica_log_dirs,
    "write_txn_markers": _write_txn_markers,
}
"""The refusals of the APIs whose answers have places for the errors of what a request names, or are odd otherwise."""
