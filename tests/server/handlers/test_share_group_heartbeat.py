"""ShareGroupHeartbeat through the codecs: what a member is told, what it cannot say, and what follows after the answer."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, TopicPartitions
from tests.server.coordination.memory import TOPICS
from tests.server.group.share.driver import Driver
from tests.server.handlers.group_calls import call, versions

(VERSION,) = versions("share_group_heartbeat")
T, U = TOPICS["t"][0], TOPICS["u"][0]


def beat(
    driver: Driver,
    epoch: int = 0,
    topics: list[str] | None = None,
    *,
    member: str = "m",
    group: str = "g",
    rack: str | None = None,
) -> Any:
    return call(driver.broker, "share_group_heartbeat", VERSION, ShareGroupHeartbeatRequest(group, member, epoch, rack, topics))


def test_a_member_joins_goes_on_and_leaves() -> None:
    driver = Driver()
    joined = beat(driver, topics=["u", "t"])
    assert (joined.error_code, joined.error_message, joined.member_id, joined.member_epoch) == (0, None, "m", 2)
    assert (joined.heartbeat_interval_ms, joined.assignment.topic_partitions) == (5000, [])
    driver.clock.advance(1.5)
    second = beat(driver, 2)
    assert (second.member_id, second.member_epoch) == ("m", 3)
    assert second.assignment.topic_partitions == [TopicPartitions(T, [0, 1, 2]), TopicPartitions(U, [0])]
    assert beat(driver, 3).assignment is None, "nothing is new to it"
    assert beat(driver, 3, ["t", "u"]).assignment == second.assignment, "it names topics"
    left = beat(driver, -1)
    assert (left.error_code, left.member_id, left.member_epoch, left.assignment) == (0, "m", -1, None)
    assert driver.group().is_empty


def test_who_a_member_is() -> None:
    driver = Driver()
    beat(driver, topics=["t"], rack="r")
    member = driver.group().members["m"]
    assert (member.client_id, member.client_host, member.rack_id, member.topics) == ("c", "/127.0.0.1", "r", frozenset({"t"}))


def test_partitions_get_their_state_after_the_answer() -> None:
    driver = Driver()
    beat(driver, topics=["t"])
    state = driver.broker.state
    assert state.log.records() == []
    driver.clock.advance(0)
    assert len(state.log.records()) == 3
    beat(driver, 2)
    driver.clock.advance(0)
    assert len(state.log.records()) == 3, "they have it"


TOO_LONG = "x" * 37


@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"member": ""}, None),
        ({"member": TOO_LONG}, None),
        ({"member": " "}, "member id"),
        ({"group": ""}, "group id"),
        ({"group": " "}, "group id"),
        ({"rack": ""}, "rack"),
        ({"rack": " "}, "rack"),
        ({"topics": None}, "topics"),
        ({"topics": []}, "topics"),
        ({"epoch": -2}, "-2"),
    ],
)
def test_what_no_member_can_say(fields: dict[str, Any], about: str | None) -> None:
    driver = Driver()
    answer = beat(driver, **({"topics": ["t"]} | fields))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message is None if about is None else about in answer.error_message
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)
    assert driver.broker.log.records() == []


def test_the_longest_member_id() -> None:
    driver = Driver()
    assert beat(driver, topics=["t"], member=TOO_LONG[1:]).error_code == 0


def test_refusals_of_the_group_have_a_text_and_the_coordinators_have_none() -> None:
    driver = Driver()
    nowhere = beat(driver, 1, group="nowhere")
    assert (nowhere.error_code, "nowhere" in nowhere.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    driver.broker.log.leaders = [None] * 4
    elsewhere = beat(driver, topics=["t"])
    assert (elsewhere.error_code, elsewhere.error_message) == (ErrorCode.NOT_COORDINATOR, None)


@pytest.mark.parametrize(("level", "code"), [(0, ErrorCode.UNSUPPORTED_VERSION), (1, ErrorCode.NONE), (2, ErrorCode.NONE)])
def test_the_feature_is_asked_for_first(level: int, code: ErrorCode) -> None:
    driver = Driver()
    driver.broker.metadata.features["share.version"] = level
    assert beat(driver, topics=["t"]).error_code == code
    refused = beat(driver, epoch=-2)
    assert refused.error_code == (code or ErrorCode.INVALID_REQUEST)
