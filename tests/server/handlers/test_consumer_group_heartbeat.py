"""ConsumerGroupHeartbeat at every version, through the codecs: what a member says, what it is told, and what it cannot say."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
    ResponseTopicPartitions,
)
from ottla.wire.primitives import LONGEST_STRING
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS
from tests.server.group.consumer.beats import Beating, parts
from tests.server.handlers.group_calls import call, versions

VERSIONS = versions("consumer_group_heartbeat")
T, U = TOPICS["t"][0], TOPICS["u"][0]
JOINING: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 10_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


def beat(driver: Beating, version: int = 1, **fields: Any) -> Any:
    """A heartbeat of the member m of the group g, unless the fields say otherwise."""
    request = ConsumerGroupHeartbeatRequest(**({"group_id": "g", "member_id": "m"} | fields))
    return call(driver.broker, "consumer_group_heartbeat", version, request)


def join(driver: Beating, version: int = 1, **fields: Any) -> Any:
    return beat(driver, version, **(JOINING | fields))


@pytest.mark.parametrize("version", VERSIONS)
@in_loop
async def test_a_member_joins_goes_on_and_leaves(version: int) -> None:
    driver = Beating()
    joined = join(driver, version, subscribed_topic_names=["u", "t"])
    assert (joined.error_code, joined.error_message, joined.member_id, joined.member_epoch) == (0, None, "m", 2)
    assert joined.heartbeat_interval_ms == 5000
    assert joined.assignment.topic_partitions == [ResponseTopicPartitions(T, [0, 1, 2]), ResponseTopicPartitions(U, [0])]
    assert beat(driver, version, member_epoch=2).assignment is None, "nothing is new to it"
    left = beat(driver, version, member_epoch=-1)
    assert (left.error_code, left.member_id, left.member_epoch, left.heartbeat_interval_ms) == (0, "m", -1, 0)
    assert left.assignment is None


@in_loop
async def test_who_a_member_is() -> None:
    driver = Beating()
    join(driver, instance_id="i", rack_id="r", server_assignor="range", subscribed_topic_regex="x", subscribed_topic_names=["u"])
    group = driver.described()
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
    assert (member.client_id, member.client_host) == ("c", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex, group.assignor_name) == (["u"], "x", "range")


@in_loop
async def test_what_a_member_does_not_say_is_as_before() -> None:
    driver = Beating()
    join(driver, rebalance_timeout_ms=7_000, rack_id="r")
    beat(driver, member_epoch=2)
    found = driver.broker.groups.find("g")
    assert found is not None
    assert found.members["m"].rebalance_timeout_ms == 7_000
    beat(driver, member_epoch=2, rebalance_timeout_ms=8_000)
    assert found.members["m"].rebalance_timeout_ms == 8_000
    assert found.members["m"].rack_id == "r"


@in_loop
async def test_what_a_member_has_comes_from_all_it_lists() -> None:
    driver = Beating()
    join(driver, server_assignor="range")
    driver.beat("n")
    driver.later()
    assert parts(beat(driver, member_epoch=2)) == {T: [0, 1]}
    has = [RequestTopicPartitions(T, [0]), RequestTopicPartitions(T, [2])]
    assert beat(driver, member_epoch=2, topic_partitions=has).member_epoch == 2, "it still has what it is to give up"
    has = [RequestTopicPartitions(T, [0]), RequestTopicPartitions(T, [1])]
    assert beat(driver, member_epoch=2, topic_partitions=has).member_epoch == 3


@in_loop
async def test_in_version_0_a_member_is_given_an_id() -> None:
    driver = Beating()
    given = join(driver, 0, member_id="").member_id
    assert len(given) == 22
    assert join(driver, 0, member_id="").member_id != given
    assert join(driver, 1, member_id="").error_code == ErrorCode.INVALID_REQUEST
    assert beat(driver, 0, member_id="", member_epoch=2).error_code == ErrorCode.INVALID_REQUEST
    assert beat(driver, 0, member_id="", member_epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    assert beat(driver, 0, member_id="", member_epoch=-2, instance_id="i").error_code == ErrorCode.UNKNOWN_MEMBER_ID


LONG = "é" * (LONGEST_STRING // 2 + 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"group_id": ""}, "group id"),
        ({"instance_id": ""}, "instance id"),
        ({"rack_id": ""}, "rack"),
        ({"rebalance_timeout_ms": -1}, "rebalance timeout"),
        ({"topic_partitions": None}, "partitions"),
        ({"topic_partitions": [RequestTopicPartitions(T, [0])]}, "partitions"),
        ({"subscribed_topic_names": None}, ""),
        ({"member_epoch": -2}, "static"),
        ({"member_epoch": -3}, "-3"),
        ({"member_id": LONG}, "longer"),
        ({"instance_id": LONG}, "longer"),
        ({"rack_id": LONG}, "longer"),
    ],
)
@in_loop
async def test_what_no_member_can_say(version: int, fields: dict[str, Any], about: str) -> None:
    driver = Beating()
    answer = join(driver, version, **fields)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message
    assert about in answer.error_message
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)
    assert driver.broker.log.records() == []


@in_loop
async def test_the_longest_id_and_an_expression_that_is_longer() -> None:
    driver = Beating()
    assert join(driver, member_id="x" * LONGEST_STRING).error_code == 0
    assert join(driver, subscribed_topic_regex=LONG).error_code == ErrorCode.INVALID_REQUEST
    assert join(driver, subscribed_topic_names=None, subscribed_topic_regex="t").error_code == 0, "no topics, but an expression"
    assert join(driver, member_id="n", subscribed_topic_names=[]).error_code == 0, "nothing is a subscription"


@in_loop
async def test_an_assignor_that_there_is_not() -> None:
    driver = Beating()
    refused = join(driver, server_assignor="best")
    assert refused.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert all(name in refused.error_message for name in ("best", "uniform", "range"))
    assert driver.broker.groups.find("g") is None


@in_loop
async def test_refusals_of_the_group_have_a_text() -> None:
    driver = Beating()
    nowhere = beat(driver, member_epoch=1)
    assert (nowhere.error_code, "g" in nowhere.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    driver.broker.log.leaders = [None] * 4
    driver.broker.groups.refresh()
    elsewhere = join(driver)
    assert (elsewhere.error_code, elsewhere.error_message) == (ErrorCode.NOT_COORDINATOR, "NOT_COORDINATOR")


@in_loop
async def test_the_feature_is_asked_for_first() -> None:
    driver = Beating()
    driver.broker.metadata.features["group.version"] = 0
    refused = join(driver, rack_id="")
    assert (refused.error_code, "group.version" in refused.error_message) == (ErrorCode.UNSUPPORTED_VERSION, True)
    del driver.broker.metadata.features["group.version"]
    assert join(driver).error_code == ErrorCode.UNSUPPORTED_VERSION
