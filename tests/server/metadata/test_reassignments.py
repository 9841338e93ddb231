"""Reassignments where nothing can move, as functions of the image. Over the wire: tests/server/handlers/
test_alter_partition_reassignments.py and test_list_partition_reassignments.py."""

from __future__ import annotations

import pytest

from ottla.server.base.turns import at_once
from ottla.server.metadata import reassignments
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.internal.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)

T, U = b"t" * 16, b"u" * 16


@pytest.fixture
def image() -> MetadataImage:
    """Broker 1 has t-0 and u-0 alone; t-1 came with the directory of a larger cluster, where it was moving from 3 to 2."""
    made = MetadataImage("cluster")
    moving = PartitionRecord(1, T, [1, 2, 3], [1, 3], adding_replicas=[2], removing_replicas=[3], leader=1)
    made.apply_all(
        [
            RegisterBrokerRecord(broker_id=1, broker_epoch=1, fenced=False),
            TopicRecord("t", T),
            PartitionRecord(0, T, [1], [1], leader=1),
            moving,
            TopicRecord("u", U),
            PartitionRecord(0, U, [1], [1], leader=1),
        ]
    )
    return made


def test_many_partitions_take_many_steps(image: MetadataImage) -> None:
    partitions = [ReassignablePartition(0, [1])] * 50
    altering = reassignments.alter(image, AlterPartitionReassignmentsRequest(1, topics=[ReassignableTopic("t", partitions)]))
    for _ in range(50):
        assert next(altering) is None
    named = ListPartitionReassignmentsTopics("t", [1] * 10 * reassignments.PARTITIONS_A_STEP)
    finding = reassignments.find_moving(image, ListPartitionReassignmentsRequest(0, [named]))
    for _ in range(10):
        assert next(finding) is None
    image.apply_all([RemoveTopicRecord(T)])
    everything = reassignments.find_moving(image, ListPartitionReassignmentsRequest(0, None))
    next(everything)
    image.apply_all([RemoveTopicRecord(U)])
    assert at_once(everything).topics == []


def altered(image: MetadataImage, index: int, replicas: list[int] | None) -> ReassignablePartitionResponse:
    asked = ReassignableTopic("t", [ReassignablePartition(index, replicas)])
    answer = at_once(reassignments.alter(image, AlterPartitionReassignmentsRequest(1, topics=[asked])))
    assert (answer.error_code, answer.error_message) == (0, None)
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize(
    ("index", "replicas", "code", "said"),
    [
        (0, [1], ErrorCode.NONE, None),
        (1, [3, 1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "There are no brokers [3, 2]."),
        (1, [1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The replicas on [1, 2, 3] cannot be moved from here."),
        (0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition needs a replica."),
        (0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "[1, 1] names a broker twice."),
        (1, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
        (2, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no partition 2 of topic 't'."),
    ],
)
def test_a_partition_stays_where_it_is(
    image: MetadataImage, index: int, replicas: list[int] | None, code: ErrorCode, said: str | None
) -> None:
    assert altered(image, index, replicas) == ReassignablePartitionResponse(index, code, said)


def test_the_answer_repeats_whether_the_number_of_replicas_may_change(image: MetadataImage) -> None:
    for allowed in (True, False):
        request = AlterPartitionReassignmentsRequest(1, allowed, [ReassignableTopic("t", [ReassignablePartition(0, [1])])])
        assert at_once(reassignments.alter(image, request)).allow_replication_factor_change is allowed


def test_no_time_is_a_refusal_unless_nothing_is_asked(image: MetadataImage) -> None:
    with pytest.raises(Refused) as refused:
        at_once(reassignments.alter(image, AlterPartitionReassignmentsRequest(0, topics=[ReassignableTopic("t", [])])))
    assert (refused.value.code, refused.value.message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    answer = at_once(reassignments.alter(image, AlterPartitionReassignmentsRequest(0)))
    assert (answer.error_code, answer.error_message, answer.responses) == (0, "", [])


@pytest.mark.parametrize(
    ("asked", "found"),
    [(None, [1]), ([("t", [0, 1, 9])], [1]), ([("t", [0])], []), ([("u", [0]), ("nope", [1])], []), ([], [])],
)
def test_what_was_moving_in_a_larger_cluster_is_listed(
    image: MetadataImage, asked: list[tuple[str, list[int]]] | None, found: list[int]
) -> None:
    topics = None if asked is None else [ListPartitionReassignmentsTopics(*each) for each in asked]
    answer = at_once(reassignments.find_moving(image, ListPartitionReassignmentsRequest(0, topics)))
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [(topic.name, topic.partitions) for topic in answer.topics] == [
        ("t", [OngoingPartitionReassignment(index, [1, 2, 3], [2], [3])]) for index in found
    ]
