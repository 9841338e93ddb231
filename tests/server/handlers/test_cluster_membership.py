"""UpdateFeatures, UnregisterBroker and -Controller, AddRaftVoter and RemoveRaftVoter: through the log, and a disk that fails.

The rules: tests/server/metadata/test_features.py, test_membership.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.metadata import snapshot
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.internal.register_controller_record import RegisterControllerRecord
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.unregister_controller import UnregisterControllerRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.primitives import ZERO_UUID
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import CLUSTER_ID, METADATA, Node

LISTENERS = "PLAINTEXT://:9092,CONTROLLER://host:9093"
STATIC = {"listeners": LISTENERS, "controller_quorum_voters": "1@host:9093"}
DYNAMIC = {"listeners": LISTENERS, "controller_quorum_bootstrap_servers": "host:9093"}
DIRECTORY = b"d" * 16


def started(**settings: str) -> Node:
    node = Node(**settings)
    node.start()
    return node


def change(request: object, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        setattr(request, name, value)


def raise_kraft(node: Node, level: int = 1, version: int = 2) -> Any:
    request = UpdateFeaturesRequest(1000, [FeatureUpdateKey("kraft.version", level), FeatureUpdateKey("transaction.version", 2)])
    return call(node, "update_features", request, version)


def voter_directory(node: Node) -> bytes:
    request = DescribeQuorumRequest([RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])])
    answer: Any = call(node, "describe_quorum", request, 2)
    directory: bytes = answer.topics[0].partitions[0].current_voters[0].replica_directory_id
    return directory


# Features


@pytest.mark.parametrize("version", range(3))
def test_levels_outlive_a_restart(version: int) -> None:
    node = started()
    lower = FeatureUpdateKey("transaction.version", 1, True, 2)
    answer: Any = call(node, "update_features", UpdateFeaturesRequest(1000, [lower]), version)
    if version == 0:
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION, "it has no field that says what kind of change is meant"
        return
    assert (answer.error_code, [result.feature for result in answer.results]) == (
        0,
        ["transaction.version"] if version == 1 else [],
    )
    node.kill()
    node.start()
    assert node.image.finalized["transaction.version"] == 1


def test_kraft_version_rises_once_and_for_all() -> None:
    """The voters are in the log, and in the next snapshot, from then on."""
    node = started(**STATIC)
    assert (voter_directory(node), "kraft.version" in node.image.finalized) == (ZERO_UUID, False)
    assert raise_kraft(node).error_code == 0
    directory = voter_directory(node)
    assert directory != ZERO_UUID
    assert node.image.finalized["kraft.version"] == 1
    for _ in range(2):
        node.kill()
        node.start()
        assert (voter_directory(node), node.image.finalized["kraft.version"]) == (directory, 1)
    assert raise_kraft(node).error_code == 0
    assert raise_kraft(node, 0).error_code == ErrorCode.INVALID_UPDATE_VERSION
    controls = node.controller._log.voter_controls()
    assert [kind for kind, _ in controls] == [5, 6]
    assert snapshot.find(node.disk, METADATA), "there is one to compare with"


def test_a_disk_that_fails_leaves_all_levels() -> None:
    node = started(**STATIC)
    node.disk.fail("append", path="__cluster_metadata-0")
    assert raise_kraft(node).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "kraft.version" not in node.image.finalized


# Brokers and controllers


def test_unregistering_outlives_a_restart() -> None:
    node = started()
    node.controller.commit([RegisterControllerRecord(7), RegisterBrokerRecord(broker_id=7, broker_epoch=3)])
    answers: list[Any] = [
        call(node, "unregister_broker", UnregisterBrokerRequest(7), 0),
        call(node, "unregister_controller", UnregisterControllerRequest(7), 0),
        call(node, "unregister_broker", UnregisterBrokerRequest(7), 0),
        call(node, "unregister_controller", UnregisterControllerRequest(7), 0),
        call(node, "unregister_broker", UnregisterBrokerRequest(1), 0),
    ]
    assert [answer.error_code for answer in answers] == [0, 0, 102, 136, 42]
    assert [bool(answer.error_message) for answer in answers] == [False, False, True, True, True]
    node.kill()
    node.start()
    assert (list(node.image.brokers), ("controller", 7) in node.image.kept) == ([1], False)


def test_a_disk_that_fails_keeps_them() -> None:
    node = started()
    node.controller.commit([RegisterControllerRecord(7), RegisterBrokerRecord(broker_id=7, broker_epoch=3)])
    node.disk.fail("append", path="__cluster_metadata-0")
    for api, request in (
        ("unregister_broker", UnregisterBrokerRequest(7)),
        ("unregister_controller", UnregisterControllerRequest(7)),
    ):
        answer: Any = call(node, api, request, 0)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert 7 in node.image.brokers


# Voters


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("changes", "code", "static_code"),
    [
        ({}, ErrorCode.REQUEST_TIMED_OUT, 35),
        ({"cluster_id": None}, ErrorCode.REQUEST_TIMED_OUT, 35),
        ({"cluster_id": ""}, ErrorCode.INCONSISTENT_CLUSTER_ID, None),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST, None),
        ({"voter_directory_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST, None),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST, None),
        ({"listeners": [Listener("PLAINTEXT", "h", 1)]}, ErrorCode.INVALID_REQUEST, None),
        ({"listeners": [Listener("controller", "h", 1)]}, ErrorCode.REQUEST_TIMED_OUT, 35),
        ({"voter_id": 1}, ErrorCode.DUPLICATE_VOTER, 35),
    ],
)
def test_adding_a_voter(version: int, changes: dict[str, Any], code: ErrorCode, static_code: int | None) -> None:
    request = AddRaftVoterRequest(CLUSTER_ID, 1000, 2, DIRECTORY, [Listener("CONTROLLER", "h", 1)])
    change(request, changes)
    answers: list[Any] = [call(started(**settings), "add_raft_voter", request, version) for settings in (DYNAMIC, STATIC)]
    assert [answer.error_code for answer in answers] == [code, static_code or code]
    assert all(answer.error_message for answer in answers)


@pytest.mark.parametrize(
    ("changes", "code", "static_code"),
    [
        ({}, ErrorCode.VOTER_NOT_FOUND, 35),
        ({"cluster_id": "x"}, ErrorCode.INCONSISTENT_CLUSTER_ID, None),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST, None),
        ({"voter_directory_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST, None),
        ({"voter_id": 1}, ErrorCode.VOTER_NOT_FOUND, 35),
    ],
)
def test_removing_a_voter(changes: dict[str, Any], code: ErrorCode, static_code: int | None) -> None:
    request = RemoveRaftVoterRequest(CLUSTER_ID, 2, DIRECTORY)
    change(request, changes)
    answers: list[Any] = [call(started(**settings), "remove_raft_voter", request, 0) for settings in (DYNAMIC, STATIC)]
    assert [answer.error_code for answer in answers] == [code, static_code or code]


def test_the_last_voter_stays() -> None:
    node = started(**DYNAMIC)
    request = RemoveRaftVoterRequest(CLUSTER_ID, 1, voter_directory(node))
    answer: Any = call(node, "remove_raft_voter", request, 0)
    assert answer.error_code == ErrorCode.VOTER_NOT_FOUND
    assert voter_directory(node) == request.voter_directory_id
