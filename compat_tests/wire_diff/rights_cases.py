"""A request to every API that needs rights, with the rights that it needs: the matrix of authorisation.

Each case is asked by clients with no right, with all rights but one, and with all. test_rights.py compares the answers of both
brokers; tests/server/guards/test_cases.py holds those of ottla against the codes that stand here.

Clients are told apart by their address: the rules of each combination are for a host of its own, so that all rules can be made
at once. Both brokers have no logins here, so everybody is User:ANONYMOUS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from compat_tests.wire_diff import rights_of_groups, rights_of_records
from compat_tests.wire_diff.rights import (
    AC,
    ACTION,
    DESCRIBE,
    IW,
    MISSING,
    NO_CLUSTER,
    PRODUCER,
    A,
    Case,
    G,
    R,
    T,
    U,
    W,
    X,
    case,
    cluster,
    group,
    topic,
    transaction,
)
from ottla.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    init_producer_id,
    list_partition_reassignments,
    list_transactions,
    remove_raft_voter,
    txn_offset_commit,
    unregister_broker,
    unregister_controller,
    update_features,
    write_txn_markers,
)


def _txn_offsets(topic_id: Callable[[str], bytes]) -> txn_offset_commit.TxnOffsetCommitRequest:
    topics = [
        txn_offset_commit.TxnOffsetCommitRequestTopic(name, partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(0, 1)])
        for name in (T, U)
    ]
    return txn_offset_commit.TxnOffsetCommitRequest(X, G, PRODUCER, 0, -1, "", None, topics)


def _markers() -> write_txn_markers.WriteTxnMarkersRequest:
    topics = [write_txn_markers.WritableTxnMarkerTopic(MISSING, [0])]
    return write_txn_markers.WriteTxnMarkersRequest([write_txn_markers.WritableTxnMarker(PRODUCER, 0, False, topics)])


_ACL: Final = create_acls.AclCreation(2, "rights-acl", 3, "User:x", "*", 3, 3)
_FILTER: Final = (2, "rights-acl", 3, None, None, 1, 1)


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
    for version in (3, 4, 5):
        request = describe_log_dirs.DescribeLogDirsRequest([])
        yield case(f"describe_log_dirs in v{version}", request, cluster(DESCRIBE), version=version)
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
    others = [*rights_of_records.cases(), *rights_of_groups.cases()]
    return [*others, *_transactions(), *_cluster()]
