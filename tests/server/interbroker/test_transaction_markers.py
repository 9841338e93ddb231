"""Markers of transactions for partitions of this broker and of others: who gets which request, and what the answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.interbroker import transaction_markers
from ottla.server.interbroker.transaction_markers import MarkerChannel
from ottla.server.peers.outcomes import Disconnected
from ottla.server.txn.shard import Marker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.fakes import MemoryBroker
from tests.server.interbroker.played import PlayedBrokers

TWO, THREE = 2, 3
COMMIT = Marker(7, 1, 4, True, 2)
ABORT = Marker(8, 0, 4, False, 2)


class Rig:
    """Topic a is led here, b and c by broker 2, d by broker 3."""

    def __init__(self) -> None:
        self.broker = MemoryBroker({})
        for node in (TWO, THREE):
            self.broker.register_broker(node, 9000 + node)
        self.broker.create_topic("a")
        for topic, leader in (("b", TWO), ("c", TWO), ("d", THREE)):
            self.broker.create_topic(topic, leader=leader, followers=(leader,))
        self.others = PlayedBrokers(self.broker.image)
        self.here: list[tuple[str, int, Marker]] = []
        self.write = MarkerChannel(self.others.as_others, self.broker.clock, self._write_here)

    def _write_here(self, topic: str, partition: int, marker: Marker) -> ErrorCode:
        self.here.append((topic, partition, marker))
        return ErrorCode.KAFKA_STORAGE_ERROR

    def bring(self, topic: str, marker: Marker = COMMIT) -> Promise[ErrorCode]:
        outcome = self.write(topic, 0, marker)
        assert isinstance(outcome, Promise)
        return outcome

    def turn(self) -> None:
        self.broker.clock.advance()


def answer(*results: tuple[Marker, str, int]) -> WriteTxnMarkersResponse:
    """An answer with a code for each marker and topic."""
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id, [WritableTxnMarkerTopicResult(topic, [WritableTxnMarkerPartitionResult(0, code)])]
            )
            for marker, topic, code in results
        ]
    )


def test_a_partition_of_this_broker_gets_its_marker_at_once() -> None:
    rig = Rig()
    assert rig.write("a", 0, COMMIT) is ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.here == [("a", 0, COMMIT)]
    rig.turn()
    assert not rig.others.asked


def test_what_comes_in_one_turn_for_one_broker_is_one_request() -> None:
    rig = Rig()
    outcomes = [rig.bring("b"), rig.bring("c"), rig.bring("b", ABORT), rig.bring("d")]
    assert not rig.others.asked
    rig.turn()
    two, three = rig.others.asked
    assert (two.broker_id, two.min_version) == (TWO, 1)
    assert two.request == WriteTxnMarkersRequest(
        [
            WritableTxnMarker(7, 1, True, [WritableTxnMarkerTopic("b", [0]), WritableTxnMarkerTopic("c", [0])], 4, 2),
            WritableTxnMarker(8, 0, False, [WritableTxnMarkerTopic("b", [0])], 4, 2),
        ]
    )
    assert (three.broker_id, len(three.request.markers)) == (THREE, 1)
    two.answer.set_result(
        answer((COMMIT, "b", 0), (COMMIT, "c", ErrorCode.NOT_LEADER_OR_FOLLOWER), (ABORT, "b", ErrorCode.INVALID_PRODUCER_EPOCH))
    )
    assert [each.result() for each in outcomes[:3]] == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ]
    assert not outcomes[3].done()


def test_a_broker_is_asked_once_at_a_time() -> None:
    rig = Rig()
    first = rig.bring("b")
    rig.turn()
    second = rig.bring("c")
    rig.turn()
    assert len(rig.others.asked) == 1
    rig.others.asked[0].answer.set_result(answer((COMMIT, "b", 0)))
    rig.turn()
    assert [each.request.markers[0].topics[0].name for each in rig.others.asked] == ["b", "c"]
    rig.others.asked[1].answer.set_result(answer((COMMIT, "c", 0)))
    rig.turn()
    assert first.result() is second.result() is ErrorCode.NONE
    assert not rig.write._waiting, "nothing is kept of a broker for which nothing waits"
    rig.bring("b")
    rig.turn()
    assert len(rig.others.asked) == 3


def test_a_request_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "MOST_IN_A_REQUEST", 1)
    rig = Rig()
    rig.bring("b")
    rig.bring("c")
    rig.turn()
    (only,) = rig.others.asked
    assert [topic.name for topic in only.request.markers[0].topics] == ["b"]
    only.answer.set_result(answer((COMMIT, "b", 0)))
    rig.turn()
    assert [topic.name for topic in rig.others.asked[1].request.markers[0].topics] == ["c"]


@pytest.mark.parametrize("said", [None, answer()])
def test_without_an_answer_the_marker_is_brought_again_by_whoever_wants_it(said: Any) -> None:
    rig = Rig()
    outcome = rig.bring("b")
    rig.turn()
    asked = rig.others.asked[0].answer
    if said is None:
        asked.set_exception(Disconnected("gone"))
    else:
        asked.set_result(said)
    assert outcome.result() is ErrorCode.NETWORK_EXCEPTION
    rig.turn()
    rig.bring("b")
    rig.turn()
    assert len(rig.others.asked) == 2


def test_a_partition_that_its_leader_does_not_know_yet_needs_its_marker() -> None:
    rig = Rig()
    outcomes = [rig.bring("b"), rig.bring("c")]
    rig.turn()
    rig.broker.delete_topic("c")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rig.others.asked[0].answer.set_result(answer((COMMIT, "b", unknown), (COMMIT, "c", unknown)))
    assert [each.result() for each in outcomes] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, unknown]


def test_partitions_without_a_leader_and_without_a_topic() -> None:
    rig = Rig()
    rig.broker.elect("b", -1)
    assert rig.write("b", 0, COMMIT) is ErrorCode.LEADER_NOT_AVAILABLE
    assert rig.write("nowhere", 0, COMMIT) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_code_of_a_newer_broker_is_an_error_and_no_bug() -> None:
    rig = Rig()
    outcome = rig.bring("b")
    rig.turn()
    rig.others.asked[0].answer.set_result(answer((COMMIT, "b", 999)))
    assert outcome.result() is ErrorCode.NETWORK_EXCEPTION
