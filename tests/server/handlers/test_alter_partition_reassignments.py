"""AlterPartitionReassignments where one broker holds everything: what is there already is a success, the rest is refused."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import NODE_ID, MemoryBroker
from tests.server.handlers.data_calls import call, versions


@pytest.mark.parametrize("version", versions("alter_partition_reassignments"))
@pytest.mark.parametrize(
    ("topic", "index", "replicas", "code"),
    [
        ("t", 0, [NODE_ID], ErrorCode.NONE),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [NODE_ID, NODE_ID], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [NODE_ID, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 1, [NODE_ID], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 7, [NODE_ID], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nope", 0, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_one_broker_is_the_only_target(version: int, topic: str, index: int, replicas: list[int] | None, code: ErrorCode) -> None:
    broker = MemoryBroker({"t": 2})
    broker.image.apply(PartitionChangeRecord(1, broker.topic_id("t"), replicas=[NODE_ID, 9]))  # of a larger cluster
    asked = ReassignableTopic(topic, [ReassignablePartition(index, replicas)])
    answer = call(broker, "alter_partition_reassignments", version, AlterPartitionReassignmentsRequest(1, True, [asked]))
    assert answer.error_code == 0
    (only,) = answer.responses[0].partitions
    assert (only.partition_index, only.error_code) == (index, code)
    assert bool(only.error_message) is (code not in (ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS))


@pytest.mark.parametrize("version", versions("alter_partition_reassignments"))
def test_no_time(version: int) -> None:
    asked = ReassignableTopic("t", [ReassignablePartition(0, [NODE_ID])])
    request = AlterPartitionReassignmentsRequest(0, False, [asked])
    answer = call(MemoryBroker({"t": 1}), "alter_partition_reassignments", version, request)
    assert answer.error_code == answer.responses[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_long_name_is_not_repeated_for_every_partition() -> None:
    asked = ReassignableTopic("n" * 30_000, [ReassignablePartition(index, [NODE_ID]) for index in range(3)])
    request = AlterPartitionReassignmentsRequest(1, True, [asked])
    answer = call(MemoryBroker({"t": 1}), "alter_partition_reassignments", 1, request)
    assert all(len(each.error_message) < 300 for each in answer.responses[0].partitions)
