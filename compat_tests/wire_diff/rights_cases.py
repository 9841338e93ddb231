"""A request to every API that needs rights, with the rights that it needs: the matrix of authorisation.

Each case is asked by clients with no right, with all rights but one, and with all. test_rights.py compares the answers of both
brokers; tests/server/guards/test_cases.py holds those of ottla against the codes that stand here.

Clients are told apart by their address: the rules of each combination are for a host of its own, so that all rules can be made
at once. Both brokers have no logins here, so everybody is User:ANONYMOUS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from compat_tests.wire import batch
from ottla.server.security.rights import Operation, Resource
from ottla.wire.api import BY_MODULE
from ottla.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    read_share_group_state,
    read_share_group_state_summary,
    remove_raft_voter,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    unregister_controller,
    update_features,
    write_share_group_state,
    write_txn_markers,
)

T, U, DOOMED, MISSING = "rights-t", "rights-u", "rights-doomed", "rights-missing"
"""Two topics, one to be deleted, and one that there is not."""
G, S, X = "rights-g", "rights-s", "rights-x"
"""A group with a committed offset in T and U, a share group, and a transactional id."""
PRODUCER: Final = 1_000_000
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
UNKNOWN_ID: Final = b"nobody's topicid"
NODE: Final = "1"

R, W, C, D, A, DESCRIBE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE
ACTION, DC, AC, IW = (
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION = 29, 30, 31, 53
AUTHORIZATION_CODES: Final = frozenset((29, 30, 31, 53, 65))


class Right(NamedTuple):
    """A right, and the code that stands in the answer without it; 0 where something is only left out."""

    operation: Operation
    resource: Resource
    name: str
    code: int


class Case(NamedTuple):
    """A request and the rights that are needed for all of it. `request` is told the id of a topic."""

    name: str
    version: int
    request: Callable[[Callable[[str], bytes]], Any]
    rights: tuple[Right, ...]

    @property
    def api(self) -> str:
        return self.name.partition(" ")[0]


def topic(operation: Operation, name: str = T, code: int = NO_TOPIC) -> Right:
    return Right(operation, Resource.TOPIC, name, code)


def group(operation: Operation, name: str = G, code: int = NO_GROUP) -> Right:
    return Right(operation, Resource.GROUP, name, code)


def cluster(operation: Operation, code: int = NO_CLUSTER) -> Right:
    return Right(operation, Resource.CLUSTER, "kafka-cluster", code)


def transaction(operation: Operation, name: str = X, code: int = NO_TRANSACTION) -> Right:
    return Right(operation, Resource.TRANSACTIONAL_ID, name, code)


def last(name: str) -> int:
    return BY_MODULE[name.partition(" ")[0]].max_version


def case(name: str, request: Any, *rights: Right, version: int | None = None) -> Case:
    """A case; `request` is one, or a function of what returns a topic's id."""
    make = request if callable(request) and not hasattr(request, "__slots__") else lambda topic_id: request
    return Case(name, last(name) if version is None else version, make, rights)


def _produced(records: bytes, *names: str, transactional_id: str | None = None, acks: int = 1) -> produce.ProduceRequest:
    data = [produce.TopicProduceData(name, partition_data=[produce.PartitionProduceData(0, records)]) for name in names]
    return produce.ProduceRequest(transactional_id, acks, 5000, data)


def _produced_by_id(topic_id: Callable[[str], bytes]) -> produce.ProduceRequest:
    ids = topic_id(T), UNKNOWN_ID
    data = [
        produce.TopicProduceData(topic_id=each, partition_data=[produce.PartitionProduceData(0, batch(b"v"))]) for each in ids
    ]
    return produce.ProduceRequest(None, 1, 5000, data)


def _fetched(*names: str) -> fetch.FetchRequest:
    topics = [fetch.FetchTopic(name, partitions=[fetch.FetchPartition(0, partition_max_bytes=1)]) for name in names]
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=topics)


def _fetched_by_id(topic_id: Callable[[str], bytes], replica_id: int = -1) -> fetch.FetchRequest:
    ids = topic_id(T), UNKNOWN_ID
    topics = [fetch.FetchTopic(topic_id=each, partitions=[fetch.FetchPartition(0, partition_max_bytes=1)]) for each in ids]
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=topics)
    request.replica_state = fetch.ReplicaState(replica_id, -1)
    return request


def _transactional() -> bytes:
    return batch(b"v", producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True)


def _offsets(*names: str) -> list[offset_commit.OffsetCommitRequestTopic]:
    return [
        offset_commit.OffsetCommitRequestTopic(name, partitions=[offset_commit.OffsetCommitRequestPartition(0, 1)])
        for name in names
    ]


def _txn_offsets(topic_id: Callable[[str], bytes]) -> txn_offset_commit.TxnOffsetCommitRequest:
    topics = [
        txn_offset_commit.TxnOffsetCommitRequestTopic(name, partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(0, 1)])
        for name in (T, U)
    ]
    return txn_offset_commit.TxnOffsetCommitRequest(X, G, PRODUCER, 0, -1, "", None, topics)


def _topology() -> streams_group_heartbeat.Topology:
    changelog = streams_group_heartbeat.TopicInfo(f"{S}-changelog")
    return streams_group_heartbeat.Topology(
        1, [streams_group_heartbeat.Subtopology("0", [T], state_changelog_topics=[changelog], repartition_sink_topics=[U])]
    )


def _markers() -> write_txn_markers.WriteTxnMarkersRequest:
    topics = [write_txn_markers.WritableTxnMarkerTopic(MISSING, [0])]
    return write_txn_markers.WriteTxnMarkersRequest([write_txn_markers.WritableTxnMarker(PRODUCER, 0, False, topics)])


_ACL: Final = create_acls.AclCreation(2, "rights-acl", 3, "User:x", "*", 3, 3)
_FILTER: Final = (2, "rights-acl", 3, None, None, 1, 1)
_NO_OFFSET: Final = -1


def _records() -> Iterator[Case]:
    yield case("produce", lambda _: _produced(batch(b"v"), T, U, MISSING), topic(W), topic(W, U), topic(W, MISSING), version=12)
    yield case("produce by id", _produced_by_id, topic(W))
    yield case(
        "produce in a transaction",
        lambda _: _produced(_transactional(), T, transactional_id=X),
        transaction(W),
        topic(W),
        version=9,
    )
    yield case("produce with an id only", lambda _: _produced(batch(b"v"), T, transactional_id=X), topic(W), version=9)
    yield case("produce transactional without an id", lambda _: _produced(_transactional(), T), topic(W), version=9)
    yield case("fetch", lambda _: _fetched(T, U, MISSING), topic(R), topic(R, U), topic(R, MISSING), version=12)
    yield case("fetch by id", _fetched_by_id, topic(R))
    yield case("fetch as a replica", partial(_fetched_by_id, replica_id=2), cluster(ACTION, NO_TOPIC))
    for name, module, api in (("list_offsets", list_offsets, list_offsets.ListOffsetsRequest),):
        topics = [module.ListOffsetsTopic(each, [module.ListOffsetsPartition(0, timestamp=-1)]) for each in (T, MISSING)]
        yield case(name, api(-1, 0, topics), topic(DESCRIBE), topic(DESCRIBE, MISSING))
    epochs = offset_for_leader_epoch
    asked = [epochs.OffsetForLeaderTopic(each, [epochs.OffsetForLeaderPartition(0, -1, 0)]) for each in (T, MISSING)]
    yield case(
        "offset_for_leader_epoch", epochs.OffsetForLeaderEpochRequest(-1, asked), topic(DESCRIBE), topic(DESCRIBE, MISSING)
    )
    yield case("offset_for_leader_epoch of a broker", epochs.OffsetForLeaderEpochRequest(2, asked), cluster(ACTION, NO_TOPIC))
    gone = [delete_records.DeleteRecordsTopic(each, [delete_records.DeleteRecordsPartition(0, 0)]) for each in (T, MISSING)]
    yield case("delete_records", delete_records.DeleteRecordsRequest(gone, 1000), topic(D), topic(D, MISSING))
    seen = [describe_producers.TopicRequest(each, [0]) for each in (U, MISSING)]
    yield case("describe_producers", describe_producers.DescribeProducersRequest(seen), topic(R, U), topic(R, MISSING))


def _topics() -> Iterator[Case]:
    def named(*names: str, create: bool = False) -> metadata.MetadataRequest:
        return metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name) for name in names], create, True, True)

    def by_id(topic_id: Callable[[str], bytes]) -> metadata.MetadataRequest:
        return metadata.MetadataRequest([metadata.MetadataRequestTopic(each, None) for each in (topic_id(T), UNKNOWN_ID)], False)

    yield case("metadata", named(T, U, MISSING), topic(DESCRIBE), topic(DESCRIBE, U), topic(DESCRIBE, MISSING))
    yield case("metadata with operations of the cluster", named(T), topic(R), topic(AC, code=0), cluster(DESCRIBE, 0), version=10)
    yield case("metadata by id", by_id, topic(DESCRIBE))
    yield case("metadata of all topics", metadata.MetadataRequest(None), topic(DESCRIBE, code=0), topic(DESCRIBE, U, 0))
    yield case("metadata of all topics in v0", metadata.MetadataRequest([]), topic(DESCRIBE, code=0), version=0)
    new = "rights-new"
    yield case("metadata that creates", named(new, create=True), topic(DESCRIBE, new), topic(C, new))
    pages = describe_topic_partitions
    yield case(
        "describe_topic_partitions",
        pages.DescribeTopicPartitionsRequest([pages.TopicRequest(each) for each in (MISSING, T, U)]),
        topic(DESCRIBE),
        topic(DESCRIBE, U),
        topic(DESCRIBE, MISSING),
    )
    yield case("describe_topic_partitions of all", pages.DescribeTopicPartitionsRequest([]), topic(DESCRIBE, code=0))
    made = [create_topics.CreatableTopic(each, 1, 1) for each in ("rights-made", T)]
    yield case(
        "create_topics",
        create_topics.CreateTopicsRequest(made, 5000, True),
        topic(C, "rights-made"),
        topic(C),
        topic(DC, "rights-made", 0),
    )
    yield case("create_topics of the cluster", create_topics.CreateTopicsRequest(made, 5000, True), cluster(C, NO_TOPIC))
    yield case(
        "delete_topics",
        delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(each) for each in (DOOMED, MISSING)], [], 5000),
        topic(D, DOOMED),
        topic(D, MISSING),
    )
    yield case(
        "delete_topics by id",
        lambda topic_id: delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(None, each) for each in (topic_id(f"{DOOMED}-2"), UNKNOWN_ID)], [], 5000
        ),
        topic(D, f"{DOOMED}-2"),
        topic(DESCRIBE, f"{DOOMED}-2", 0),
    )
    yield case(
        "delete_topics in v5",
        delete_topics.DeleteTopicsRequest([], [MISSING, "rights-none"], 5000),
        topic(D, MISSING),
        topic(D, "rights-none"),
        version=5,
    )
    more = [create_partitions.CreatePartitionsTopic(each, 2, None) for each in (T, MISSING)]
    yield case("create_partitions", create_partitions.CreatePartitionsRequest(more, 5000, True), topic(A), topic(A, MISSING))


def _configs() -> Iterator[Case]:
    kinds = (2, T, topic), (2, MISSING, topic), (32, G, group)
    cluster_kinds = (4, NODE), (8, NODE), (16, "rights-metrics")
    for name, operation, make in (
        (
            "describe_configs",
            DC,
            lambda kind, name: describe_configs.DescribeConfigsResource(kind, name, ["retention.ms", "no.such"]),
        ),
        ("alter_configs", AC, lambda kind, name: alter_configs.AlterConfigsResource(kind, name, [])),
        ("incremental_alter_configs", AC, lambda kind, name: incremental_alter_configs.AlterConfigsResource(kind, name, [])),
    ):
        asked = [make(kind, resource) for kind, resource, _ in kinds]
        rest = [make(*each) for each in cluster_kinds if name != "alter_configs" or each[0] == 16]
        requests: dict[str, Callable[[Any], Any]] = {
            "describe_configs": describe_configs.DescribeConfigsRequest,
            "alter_configs": lambda resources: alter_configs.AlterConfigsRequest(resources, True),
            "incremental_alter_configs": lambda resources: incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources, True
            ),
        }
        request = requests[name]
        yield case(name, request(asked), *(right(operation, resource) for _, resource, right in kinds))
        yield case(f"{name} of brokers", request(rest), cluster(operation))
    yield case("list_config_resources", list_config_resources.ListConfigResourcesRequest([2]), cluster(DC))
    quotas = describe_client_quotas
    any_user = [quotas.ComponentData("user", 2, None)]
    yield case("describe_client_quotas", quotas.DescribeClientQuotasRequest(any_user, False), cluster(DC))
    entry = alter_client_quotas.RequestEntryData(
        [alter_client_quotas.RequestEntityData("user", "x")], [alter_client_quotas.OpData("request_percentage", 5.0, False)]
    )
    yield case("alter_client_quotas", alter_client_quotas.AlterClientQuotasRequest([entry], True), cluster(AC))


def _groups() -> Iterator[Case]:
    finds = find_coordinator.FindCoordinatorRequest
    yield case("find_coordinator", finds("", 0, [G, "rights-h"]), group(DESCRIBE), group(DESCRIBE, "rights-h"))
    yield case("find_coordinator in v3", finds(G, 0), group(DESCRIBE), version=3)
    yield case("find_coordinator of a transaction", finds("", 1, [X]), transaction(DESCRIBE))
    yield case("find_coordinator of a share partition", finds("", 2, [f"{S}:{MEMBER}:0"]), cluster(ACTION))
    protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
    yield case("join_group", join_group.JoinGroupRequest(G, 0, 60_000, "", None, "consumer", protocols), group(R))
    yield case(
        "join_group in v6", join_group.JoinGroupRequest(G, 0, 60_000, "", None, "consumer", protocols), group(R), version=6
    )
    yield case("sync_group", sync_group.SyncGroupRequest(G, 1, "m", None, "consumer", "range", []), group(R))
    yield case("heartbeat", heartbeat.HeartbeatRequest(G, 1, "m"), group(R))
    yield case("leave_group", leave_group.LeaveGroupRequest(G, members=[leave_group.MemberIdentity("m", None)]), group(R))
    yield case("leave_group in v2", leave_group.LeaveGroupRequest(G, "m"), group(R), version=2)
    yield case("list_groups", list_groups.ListGroupsRequest(), group(DESCRIBE, code=0))
    yield case("list_groups of the cluster", list_groups.ListGroupsRequest(), cluster(DESCRIBE, 0))
    described = describe_groups.DescribeGroupsRequest
    yield case(
        "describe_groups",
        described([G, "rights-h"], True),
        group(DESCRIBE, code=0),
        group(D, code=0),
        group(DESCRIBE, "rights-h"),
    )
    yield case(
        "consumer_group_describe",
        consumer_group_describe.ConsumerGroupDescribeRequest([G, "rights-c"], True),
        group(DESCRIBE),
        group(DESCRIBE, "rights-c"),
    )
    yield case("share_group_describe", share_group_describe.ShareGroupDescribeRequest([S], True), group(DESCRIBE, S))
    yield case("streams_group_describe", streams_group_describe.StreamsGroupDescribeRequest([S], True), group(DESCRIBE, S))
    gone = ["rights-gone", "rights-gone-2"]
    yield case("delete_groups", delete_groups.DeleteGroupsRequest(gone), *(group(D, each) for each in gone))
    yield case(
        "consumer_group_heartbeat",
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("rights-c", MEMBER, 7, None, None, -1, [T, MISSING]),
        group(R, "rights-c"),
        topic(DESCRIBE),
        topic(DESCRIBE, MISSING),
    )
    yield case(
        "share_group_heartbeat",
        share_group_heartbeat.ShareGroupHeartbeatRequest("rights-r", MEMBER, 7, None, [T, MISSING]),
        group(R, "rights-r"),
        topic(DESCRIBE),
        topic(DESCRIBE, MISSING),
    )
    yield case(
        "streams_group_heartbeat",
        streams_group_heartbeat.StreamsGroupHeartbeatRequest("rights-n", MEMBER, 7, 0, topology=_topology()),
        group(R, "rights-n"),
        topic(DESCRIBE),
        topic(DESCRIBE, U),
        topic(DESCRIBE, f"{S}-changelog"),
    )
    update = streams_group_topology_description_update
    yield case(
        "streams_group_topology_description_update",
        update.StreamsGroupTopologyDescriptionUpdateRequest(G, MEMBER, 1, update.TopologyDescription()),
        group(R),
    )


def _share_groups() -> Iterator[Case]:
    def acknowledged(topic_id: Callable[[str], bytes]) -> Any:
        topics = [
            share_acknowledge.AcknowledgeTopic(each, [share_acknowledge.AcknowledgePartition(0, [])])
            for each in (topic_id(T), UNKNOWN_ID)
        ]
        return share_acknowledge.ShareAcknowledgeRequest(S, MEMBER, 5, topics=topics)

    yield case("share_fetch", share_fetch.ShareFetchRequest(S, MEMBER, 5, 0, 0, 1, 1, 1), group(R, S))
    yield case("share_acknowledge", acknowledged, group(R, S))
    described = describe_share_group_offsets
    asked = [described.DescribeShareGroupOffsetsRequestTopic(each, [0]) for each in (T, MISSING)]
    yield case(
        "describe_share_group_offsets",
        described.DescribeShareGroupOffsetsRequest([described.DescribeShareGroupOffsetsRequestGroup(S, asked)]),
        group(DESCRIBE, S),
        topic(DESCRIBE),
        topic(DESCRIBE, MISSING),
    )
    altered = alter_share_group_offsets
    wanted = [altered.AlterShareGroupOffsetsRequestTopic(MISSING, [altered.AlterShareGroupOffsetsRequestPartition(0, 0)])]
    yield case("alter_share_group_offsets", altered.AlterShareGroupOffsetsRequest(S, wanted), group(R, S), topic(R, MISSING))
    deleted = delete_share_group_offsets
    gone = [deleted.DeleteShareGroupOffsetsRequestTopic(MISSING)]
    yield case(
        "delete_share_group_offsets",
        deleted.DeleteShareGroupOffsetsRequest("rights-q", gone),
        group(D, "rights-q"),
        topic(R, MISSING, 0),
    )
    for name, module, part in (
        ("InitializeShareGroupState", initialize_share_group_state, ("InitializeStateData", (0, 0))),
        ("ReadShareGroupState", read_share_group_state, ("ReadStateData", (0, 0))),
        ("ReadShareGroupStateSummary", read_share_group_state_summary, ("ReadStateSummaryData", (0, 0))),
        ("WriteShareGroupState", write_share_group_state, ("WriteStateData", (0, 0, 0))),
        ("DeleteShareGroupState", delete_share_group_state, ("DeleteStateData", (0,))),
    ):
        data = getattr(module, part[0])(UNKNOWN_ID, [module.PartitionData(*part[1])])
        yield case(module.__name__.rpartition(".")[2], getattr(module, f"{name}Request")("rights-z", [data]), cluster(ACTION))


def _offsets_of_groups() -> Iterator[Case]:
    commits = offset_commit.OffsetCommitRequest
    yield case("offset_commit", commits(G, -1, "", None, -1, _offsets(T, U)), group(R), topic(R), topic(R, U), version=9)
    yield case(
        "offset_commit by id",
        lambda topic_id: commits(
            G,
            -1,
            "",
            None,
            -1,
            [
                offset_commit.OffsetCommitRequestTopic("", each, [offset_commit.OffsetCommitRequestPartition(0, 1)])
                for each in (topic_id(T), UNKNOWN_ID)
            ],
        ),
        group(R),
        topic(R),
    )
    topics = [offset_fetch.OffsetFetchRequestTopic(each, [0]) for each in (T, MISSING)]
    for version in (1, 7):
        yield case(
            f"offset_fetch in v{version}",
            offset_fetch.OffsetFetchRequest(G, topics),
            group(DESCRIBE),
            topic(DESCRIBE),
            topic(DESCRIBE, MISSING),
            version=version,
        )
    several = [offset_fetch.OffsetFetchRequestTopics(each, partition_indexes=[0]) for each in (T, MISSING)]
    request = offset_fetch.OffsetFetchRequestGroup
    yield case(
        "offset_fetch",
        lambda _: offset_fetch.OffsetFetchRequest(
            groups=[request(G, topics=list(several)), request("rights-h", topics=list(several))]
        ),
        group(DESCRIBE),
        group(DESCRIBE, "rights-h"),
        topic(DESCRIBE),
        topic(DESCRIBE, MISSING),
        version=9,
    )
    yield case(
        "offset_fetch of all",
        lambda _: offset_fetch.OffsetFetchRequest(groups=[request(G, topics=None)]),
        group(DESCRIBE),
        topic(DESCRIBE, T, 0),
        topic(DESCRIBE, U, 0),
        version=9,
    )
    yield case(
        "offset_fetch by id",
        lambda topic_id: offset_fetch.OffsetFetchRequest(
            groups=[
                request(G, topics=[offset_fetch.OffsetFetchRequestTopics("", each, [0]) for each in (topic_id(T), UNKNOWN_ID)])
            ]
        ),
        group(DESCRIBE),
        topic(DESCRIBE),
    )
    gone = [
        offset_delete.OffsetDeleteRequestTopic(each, [offset_delete.OffsetDeleteRequestPartition(0)])
        for each in (DOOMED, MISSING)
    ]
    yield case("offset_delete", offset_delete.OffsetDeleteRequest(G, gone), group(D), topic(R, DOOMED), topic(R, MISSING))


def _transactions() -> Iterator[Case]:
    yield case("init_producer_id", init_producer_id.InitProducerIdRequest(None, 1000), cluster(IW))
    yield case("init_producer_id with WRITE", init_producer_id.InitProducerIdRequest(None, 1000), topic(W, MISSING, NO_CLUSTER))
    yield case(
        "init_producer_id of a transaction", init_producer_id.InitProducerIdRequest("rights-y", 0), transaction(W, "rights-y")
    )
    parts = add_partitions_to_txn
    topics = [parts.AddPartitionsToTxnTopic(each, [0]) for each in (T, U, MISSING)]
    yield case(
        "add_partitions_to_txn in v3",
        parts.AddPartitionsToTxnRequest([], X, PRODUCER, 0, topics),
        transaction(W),
        topic(W),
        topic(W, U),
        topic(W, MISSING),
        version=3,
    )
    single = [parts.AddPartitionsToTxnTransaction("rights-none", PRODUCER, 0, False, topics)]
    yield case("add_partitions_to_txn", parts.AddPartitionsToTxnRequest(single), cluster(ACTION))
    yield case("add_offsets_to_txn", add_offsets_to_txn.AddOffsetsToTxnRequest(X, PRODUCER, 0, G), transaction(W), group(R))
    yield case("txn_offset_commit", _txn_offsets, transaction(W), group(R), topic(R), topic(R, U), version=3)
    yield case("end_txn", end_txn.EndTxnRequest("rights-none", PRODUCER, 0, True), transaction(W, "rights-none"))
    yield case(
        "describe_transactions",
        describe_transactions.DescribeTransactionsRequest(["rights-none", "rights-no"]),
        transaction(DESCRIBE, "rights-none"),
        transaction(DESCRIBE, "rights-no"),
    )
    yield case("list_transactions", list_transactions.ListTransactionsRequest(), transaction(DESCRIBE, code=0))
    yield case("write_txn_markers", _markers(), cluster(ACTION))
    yield case("write_txn_markers of an administrator", _markers(), cluster(A))


def _cluster() -> Iterator[Case]:
    yield case("describe_cluster", describe_cluster.DescribeClusterRequest(True), cluster(DESCRIBE, 0), cluster(AC, 0))
    yield case("create_acls", create_acls.CreateAclsRequest([_ACL, _ACL]), cluster(A))
    yield case("describe_acls", describe_acls.DescribeAclsRequest(*_FILTER), cluster(DESCRIBE))
    yield case("delete_acls", delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(*_FILTER)]), cluster(A))
    yield case("elect_leaders", elect_leaders.ElectLeadersRequest(0, [elect_leaders.TopicPartitions(T, [0])], 5000), cluster(A))
    reassign = alter_partition_reassignments
    wanted = [reassign.ReassignableTopic(MISSING, [reassign.ReassignablePartition(0, [1])])]
    yield case("alter_partition_reassignments", reassign.AlterPartitionReassignmentsRequest(5000, True, wanted), cluster(A))
    yield case(
        "list_partition_reassignments",
        list_partition_reassignments.ListPartitionReassignmentsRequest(5000, None),
        cluster(DESCRIBE),
    )
    yield case(
        "alter_replica_log_dirs",
        alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            [
                alter_replica_log_dirs.AlterReplicaLogDir(
                    "/none", [alter_replica_log_dirs.AlterReplicaLogDirTopic(MISSING, [0, 1])]
                )
            ]
        ),
        cluster(A),
    )
    yield case("describe_log_dirs", describe_log_dirs.DescribeLogDirsRequest([]), cluster(DESCRIBE))
    yield case("describe_log_dirs in v2", describe_log_dirs.DescribeLogDirsRequest([]), cluster(DESCRIBE, 0), version=2)
    users = [describe_user_scram_credentials.UserName("nobody")]
    yield case(
        "describe_user_scram_credentials",
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users),
        cluster(DESCRIBE),
    )
    scram = alter_user_scram_credentials
    yield case(
        "alter_user_scram_credentials",
        scram.AlterUserScramCredentialsRequest([scram.ScramCredentialDeletion("nobody", 1)], []),
        cluster(A),
    )
    features = [update_features.FeatureUpdateKey("no.such", 1, False, 1)]
    yield case("update_features", update_features.UpdateFeaturesRequest(5000, features, True), cluster(A))
    yield case("unregister_broker", unregister_broker.UnregisterBrokerRequest(77), cluster(A))
    yield case("unregister_controller", unregister_controller.UnregisterControllerRequest(77), cluster(A))
    yield case("describe_quorum", describe_quorum.DescribeQuorumRequest([]), cluster(DESCRIBE))
    yield case("add_raft_voter", add_raft_voter.AddRaftVoterRequest("other", 1000, 7), cluster(A))
    yield case("remove_raft_voter", remove_raft_voter.RemoveRaftVoterRequest("other", 7), cluster(A))


def all_cases() -> list[Case]:
    makers = (_records, _topics, _configs, _groups, _share_groups, _offsets_of_groups, _transactions, _cluster)
    return [each for make in makers for each in make()]


def combinations(rights: tuple[Right, ...]) -> Iterator[tuple[str, tuple[Right, ...], Right | None]]:
    """(what the client lacks, its rights, the one that is missing or None): none first, then all but one each, then all."""
    yield "every right", (), None
    if len(rights) > 1:
        for missing in rights:
            yield f"{missing.operation.name} {missing.name}", tuple(each for each in rights if each is not missing), missing
    yield "nothing", rights, None


def host_of(number: int) -> str:
    """The address of the client of one combination, by its number."""
    return f"127.1.{number >> 8}.{number & 255}"


def rules_for(rights: tuple[Right, ...], host: str) -> list[create_acls.AclCreation]:
    return [create_acls.AclCreation(each.resource, each.name, 3, "User:ANONYMOUS", host, each.operation, 3) for each in rights]
