"""Tests of how far partitions of other brokers go: who gets which request, and what the answers mean."""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.interbroker.latest_offsets import Latest, LatestOffsets
from ottla.server.peers.outcomes import Disconnected
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from tests.fakes import MemoryBroker
from tests.server.interbroker.played import PlayedBrokers

TWO, THREE = 2, 3


class Rig:
    """Topic a is led here, b and c by broker 2, d by broker 3, and e by nobody."""

    def __init__(self) -> None:
        self.broker = MemoryBroker({})
        for node in (TWO, THREE):
            self.broker.register_broker(node, 9000 + node)
        self.broker.create_topic("a")
        for topic, leader in (("b", TWO), ("c", TWO), ("d", THREE), ("e", -1)):
            self.broker.create_topic(topic, leader=leader, followers=(TWO,))
        self.others = PlayedBrokers(self.broker.image)
        self.latest = LatestOffsets(self.others.as_others, self.broker.clock)

    def ask(self, topic: str) -> Promise[Latest]:
        latest = self.latest.ask(topic, 0)
        assert isinstance(latest, Promise)
        return latest


def answer(**offsets: tuple[int, int]) -> ListOffsetsResponse:
    """An answer with a code and an offset for each topic."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name, [ListOffsetsPartitionResponse(0, code, offset=offset)])
            for name, (code, offset) in offsets.items()
        ]
    )


def test_what_is_asked_in_one_turn_of_one_broker_is_one_request() -> None:
    rig = Rig()
    b, c, d = rig.ask("b"), rig.ask("c"), rig.ask("d")
    assert not rig.others.asked
    rig.broker.clock.advance()
    first, second = rig.others.asked
    wanted = [ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-1)]) for name in ("b", "c")]
    assert (first.broker_id, first.request, first.min_version) == (TWO, ListOffsetsRequest(-1, 0, wanted), 1)
    assert (second.broker_id, second.request.topics[0].name) == (THREE, "d")
    first.answer.set_result(answer(b=(0, 7), c=(6, -1)))
    assert (b.result(), c.result()) == (Latest(7), Latest(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert not d.done()


def test_what_is_asked_twice_in_one_turn_is_named_once() -> None:
    """A partition that is named twice would be answered with INVALID_REQUEST."""
    rig = Rig()
    b, again = rig.ask("b"), rig.ask("b")
    rig.broker.clock.advance()
    (one,) = rig.others.asked
    assert one.request.topics == [ListOffsetsTopic("b", [ListOffsetsPartition(0, timestamp=-1)])]
    one.answer.set_result(answer(b=(0, 7)))
    assert (b.result(), again.result()) == (Latest(7), Latest(7))


def test_the_next_turn_asks_again() -> None:
    rig = Rig()
    rig.ask("b")
    rig.broker.clock.advance()
    later = rig.ask("b")
    rig.broker.clock.advance()
    rig.others.asked[1].answer.set_result(answer(b=(0, 9)))
    assert later.result() == Latest(9)


def test_a_broker_that_is_gone_or_says_nothing_of_a_partition() -> None:
    rig = Rig()
    b, d = rig.ask("b"), rig.ask("d")
    rig.broker.clock.advance()
    rig.others.asked[0].answer.set_exception(Disconnected("gone"))
    rig.others.asked[1].answer.set_result(answer(b=(0, 7)))
    assert b.result() == d.result() == Latest(-1, ErrorCode.NETWORK_EXCEPTION)


def test_who_does_not_wait_any_more_is_told_nothing() -> None:
    rig = Rig()
    b, c = rig.ask("b"), rig.ask("c")
    b.cancel()
    rig.broker.clock.advance()
    rig.others.asked[0].answer.set_result(answer(b=(0, 7), c=(0, 8)))
    assert c.result() == Latest(8)


def test_nobody_is_asked_about_partitions_without_another_leader() -> None:
    rig = Rig()
    assert rig.latest.ask("a", 0) == Latest(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert rig.latest.ask("e", 0) == Latest(-1, ErrorCode.LEADER_NOT_AVAILABLE)
    assert rig.latest.ask("nope", 0) == Latest(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    rig.broker.clock.advance()
    assert not rig.others.asked
