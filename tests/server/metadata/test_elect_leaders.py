"""Elections that an administrator asks for: who may win, what the win does to a partition, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.metadata.elect_leaders import PREFERRED, UNCLEAN, elect_leaders
from ottla.server.metadata.image import MetadataImage, PartitionImage
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from tests.server.metadata.support import planned

NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def partition(index: int = 0, **changes: Any) -> PartitionRecord:
    """Replicas 1, 2, 3, all in sync; 2 leads."""
    fields: dict[str, Any] = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 2, "leader_epoch": 4, "partition_epoch": 7}
    return PartitionRecord(index, b"i" * 16, directories=[b"d" * 16] * 3, **(fields | changes))


def image_of(*partitions: PartitionRecord) -> MetadataImage:
    image = MetadataImage("cluster")
    image.apply_all([TopicRecord("t", b"i" * 16), *partitions])
    return image


def elected(kind: int, *alive: int, **changes: Any) -> PartitionImage:
    """The one partition after an election that had to change it."""
    image = image_of(partition(**changes))
    outcome = planned(elect_leaders(image, alive, ElectLeadersRequest(kind, [TopicPartitions("t", [0])])))
    assert codes(outcome.answer) == [("t", [(0, 0)])]
    image.apply_all(outcome.records)
    found = image.topics["t"].partitions[0]
    assert (found.leader_epoch, found.partition_epoch) == (5, 8)
    return found


def refused(kind: int, *alive: int, **changes: Any) -> int:
    outcome = planned(
        elect_leaders(image_of(partition(**changes)), alive, ElectLeadersRequest(kind, [TopicPartitions("t", [0])]))
    )
    assert outcome.records == []
    ((_, ((_, code),)),) = codes(outcome.answer)
    return code


def codes(answer: ElectLeadersResponse) -> list[tuple[str, list[tuple[int, int]]]]:
    return [(r.topic, [(p.partition_id, p.error_code) for p in r.partition_result]) for r in answer.replica_election_results]


def test_a_preferred_election_gives_the_partition_back() -> None:
    found = elected(PREFERRED, 1, 2, 3)
    assert (found.leader, found.isr) == (1, (1, 2, 3))


@pytest.mark.parametrize(
    ("alive", "changes"),
    [
        pytest.param((2, 3), {}, id="dead"),
        pytest.param((1, 2, 3), {"isr": [2, 3]}, id="behind"),
        pytest.param((), {"leader": -1}, id="nobody alive"),
        pytest.param((1, 3), {"leader": -1, "isr": [2]}, id="only others are behind"),
    ],
)
def test_a_preferred_election_that_nobody_wins(alive: tuple[int, ...], changes: dict[str, Any]) -> None:
    assert refused(PREFERRED, *alive, **changes) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_where_nobody_leads_a_preferred_election_takes_whoever_is_in_sync() -> None:
    assert elected(PREFERRED, 3, leader=-1).leader == 3
    found = elected(PREFERRED, 3, leader=-1, isr=[], eligible_leader_replicas=[2, 3], last_known_elr=[2])
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (3, (3,), (2,), ())


def test_the_preferred_leader_leads_already() -> None:
    assert refused(PREFERRED, 1, 2, 3, leader=1) == NOT_NEEDED
    assert refused(PREFERRED, leader=1) == NOT_NEEDED, "dead or not"


def test_an_unclean_election_prefers_who_is_in_sync() -> None:
    found = elected(UNCLEAN, 1, 3, leader=-1, isr=[3])
    assert (found.leader, found.isr) == (3, (3,))


def test_an_unclean_election_takes_the_first_replica_alive() -> None:
    found = elected(UNCLEAN, 3, 1, leader=-1, isr=[2])
    assert (found.leader, found.isr, found.leader_recovery_state) == (1, (1,), 0)
    found = elected(UNCLEAN, 3, 1, leader=-1, isr=[], eligible_leader_replicas=[2], last_known_elr=[2])
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (1, (1,), (), ())


def test_the_last_known_leader_comes_before_the_others() -> None:
    for kind in (PREFERRED, UNCLEAN):
        found = elected(kind, 1, 3, leader=-1, isr=[], last_known_elr=[3])
        assert (found.leader, found.isr, found.last_known_elr) == (3, (3,), ())


def test_unclean_elections_that_are_refused() -> None:
    assert refused(UNCLEAN, 1, 2, 3) == NOT_NEEDED, "somebody leads, though not the preferred replica"
    assert refused(UNCLEAN, 4, leader=-1) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def ask(request: ElectLeadersRequest) -> tuple[ElectLeadersResponse, int]:
    """For a topic whose partitions 0 and 1 need a preferred election and whose partition 2 does not; how many records."""
    image = image_of(partition(0), partition(1), partition(2, leader=1))
    outcome = planned(elect_leaders(image, (1, 2, 3), request))
    return outcome.answer, len(outcome.records)


def test_everything_leaves_out_what_needs_no_election() -> None:
    answer, records = ask(ElectLeadersRequest(PREFERRED, None))
    assert (codes(answer), records) == ([("t", [(0, 0), (1, 0)])], 2)
    answer, records = ask(ElectLeadersRequest(UNCLEAN, None))
    assert (codes(answer), records) == ([("t", [])], 0)


def test_others_come_in_between_and_what_they_change_is_planned_anew() -> None:
    image = image_of(*(partition(index) for index in range(250)))
    planning = elect_leaders(image, (1, 2, 3), ElectLeadersRequest(PREFERRED, None))
    for _ in range(2):
        assert next(planning) is None
    outcome = planned(planning)
    assert (len(outcome.records), outcome.holds()) == (250, True)
    image.apply_all([partition(300)])
    assert outcome.holds(), "another partition has changed"
    image.apply_all([PartitionChangeRecord(7, b"i" * 16, leader=3)])
    assert not outcome.holds()


def test_a_topic_that_is_deleted_while_everything_is_planned_is_left_out() -> None:
    image = image_of(*(partition(index) for index in range(250)))
    planning = elect_leaders(image, (1, 2, 3), ElectLeadersRequest(PREFERRED, None))
    next(planning)
    image.apply_all([RemoveTopicRecord(b"i" * 16)])
    outcome = planned(planning)
    assert not outcome.holds()
    assert codes(outcome.answer) == [("t", [(index, 0) for index in range(100)])]


def test_each_partition_on_its_own() -> None:
    asked = [
        TopicPartitions("nope", [0]),
        TopicPartitions("t", [9, -1, 2, 0]),
        TopicPartitions("t", []),
        TopicPartitions("", [0]),
    ]
    answer, records = ask(ElectLeadersRequest(PREFERRED, asked))
    assert codes(answer) == [
        ("nope", [(0, UNKNOWN)]),
        ("t", [(9, UNKNOWN), (-1, UNKNOWN), (2, NOT_NEEDED), (0, 0)]),
        ("t", []),
        ("", [(0, UNKNOWN)]),
    ]
    assert (answer.error_code, records) == (0, 1)


def test_a_partition_named_twice_is_elected_once_and_answered_twice() -> None:
    answer, records = ask(ElectLeadersRequest(PREFERRED, [TopicPartitions("t", [0, 0]), TopicPartitions("t", [0])]))
    assert (codes(answer), records) == ([("t", [(0, 0), (0, 0)]), ("t", [(0, 0)])], 1)


@pytest.mark.parametrize("kind", [2, -1, 127])
def test_a_type_that_there_is_not(kind: int) -> None:
    answer, records = ask(ElectLeadersRequest(kind, [TopicPartitions("t", [0, 9])]))
    assert (answer.error_code, records) == (ErrorCode.INVALID_REQUEST, 0)
    assert codes(answer) == [("t", [(0, ErrorCode.INVALID_REQUEST), (9, ErrorCode.INVALID_REQUEST)])]
    answer, _ = ask(ElectLeadersRequest(kind, None))
    assert (answer.error_code, codes(answer)) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_at_all(timeout_ms: int) -> None:
    answer, records = ask(ElectLeadersRequest(PREFERRED, [TopicPartitions("t", [0])], timeout_ms))
    assert (answer.error_code, records) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    ((result,),) = (each.partition_result for each in answer.replica_election_results)
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)


def test_nothing_asked_for_is_done_whatever_else_is_wrong() -> None:
    answer, records = ask(ElectLeadersRequest(9, [], 0))
    assert (answer, records) == (ElectLeadersResponse(), 0)


def test_more_than_one_batch_may_hold() -> None:
    image = image_of(*(partition(index) for index in range(10_001)))
    outcome = planned(elect_leaders(image, (1, 2, 3), ElectLeadersRequest(PREFERRED, None)))
    assert (outcome.answer.error_code, outcome.records) == (ErrorCode.POLICY_VIOLATION, [])
