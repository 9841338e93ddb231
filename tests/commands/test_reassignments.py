"""Reassignments: what is asked, and what is made of answers. compat_tests/cluster/test_console.py has clusters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.commands.clients.direct import Refused
from ottla.commands.clients.partition import Partition
from ottla.commands.reassignments import Moving, reassign, under_way
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import alter_partition_reassignments as altering
from ottla.wire.messages import list_partition_reassignments as listing


class Controller:
    """Answers what a test says, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: Any = None

    def call(self, request: Any) -> Any:
        self.asked = request
        return self.answer


def test_those_under_way() -> None:
    ongoing = [
        listing.OngoingPartitionReassignment(1, [2, 3, 1], [3], [1]),
        listing.OngoingPartitionReassignment(0, [1, 2, 3], [3], []),
    ]
    answer = listing.ListPartitionReassignmentsResponse(topics=[listing.OngoingTopicReassignment("t", ongoing)])
    controller: Any = Controller(answer)
    first, second = under_way(controller, 5000)
    assert (controller.asked.timeout_ms, controller.asked.topics) == (5000, None)
    assert first == Moving(Partition("t", 0), (1, 2, 3), (3,), ())
    assert (second.after, second.before) == ((2, 3), (2, 1))
    refusing: Any = Controller(listing.ListPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    with pytest.raises(Refused):
        under_way(refusing, 5000)


def test_moves_and_cancels_of_several_topics_go_in_one_request() -> None:
    refused = altering.ReassignablePartitionResponse(0, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "There are no brokers [9].")
    taken = altering.ReassignablePartitionResponse(1, 0, None)
    answer = altering.AlterPartitionReassignmentsResponse(
        responses=[altering.ReassignableTopicResponse("t", [refused, taken]), altering.ReassignableTopicResponse("u", [taken])]
    )
    controller: Any = Controller(answer)
    found = reassign(controller, 5000, {Partition("t", 0): (9,), Partition("t", 1): (2, 3), Partition("u", 1): None})
    asked = [(topic.name, [(one.partition_index, one.replicas) for one in topic.partitions]) for topic in controller.asked.topics]
    assert asked == [("t", [(0, [9]), (1, [2, 3])]), ("u", [(1, None)])]
    assert found.keys() == {Partition("t", 0)}
    assert "no brokers [9]" in found[Partition("t", 0)]
    refusing: Any = Controller(SimpleNamespace(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=None))
    with pytest.raises(Refused):
        reassign(refusing, 5000, {Partition("t", 0): None})
