"""ShareGroupDescribe through the codecs: groups and their members, and each group's own error."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.group.classic.group import ClassicGroup
from ottla.server.security.operations import GROUP_OPERATIONS, UNASKED
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest, TopicPartitions
from tests.server.coordination.memory import TOPICS
from tests.server.group.share.driver import Driver
from tests.server.handlers.group_calls import call, versions

(VERSION,) = versions("share_group_describe")
T, U = TOPICS["t"][0], TOPICS["u"][0]


def describe(driver: Driver, *groups: str, operations: bool = False) -> list[Any]:
    request = ShareGroupDescribeRequest(list(groups), operations)
    described: list[Any] = call(driver.broker, "share_group_describe", VERSION, request).groups
    return described


def test_a_group_and_its_members() -> None:
    driver = Driver()
    driver.beat("m", 0, ["u", "t"], rack="r")
    driver.clock.advance(1.5)
    driver.beat("m")
    (group,) = describe(driver, "g")
    assert (group.error_code, group.error_message, group.group_id, group.group_state) == (0, None, "g", "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "simple")
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("m", "r", 3)
    assert (member.client_id, member.client_host) == ("c", "/127.0.0.1")
    assert member.subscribed_topic_names == ["t", "u"]
    assert member.assignment.topic_partitions == [TopicPartitions(T, "t", [0, 1, 2]), TopicPartitions(U, "u", [0])]


def test_epochs_of_a_group_that_is_to_be_assigned() -> None:
    driver = Driver()
    driver.enter("a")
    driver.join("b")
    (group,) = describe(driver, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 4, 3)
    assert [(member.member_id, member.member_epoch) for member in group.members] == [("a", 3), ("b", 3)]


def test_a_topic_that_is_gone_is_left_out() -> None:
    driver = Driver()
    driver.enter("m", "t", "u")
    driver.broker.remove("u")
    ((member,),) = (group.members for group in describe(driver, "g"))
    assert [part.topic_name for part in member.assignment.topic_partitions] == ["t"]
    assert member.subscribed_topic_names == ["t", "u"]


def test_each_group_has_its_own_answer() -> None:
    driver = Driver()
    driver.join()
    driver.broker.groups.shard("old").groups["old"] = ClassicGroup("old", 0)
    found = describe(driver, "", "g", "old", "nowhere", operations=True)
    assert [(each.group_id, each.error_code) for each in found] == [
        ("", ErrorCode.INVALID_GROUP_ID),
        ("g", ErrorCode.NONE),
        ("old", ErrorCode.GROUP_ID_NOT_FOUND),
        ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert all(each.group_id in each.error_message for each in found[2:])
    assert [each.authorized_operations for each in found] == [UNASKED, GROUP_OPERATIONS, UNASKED, UNASKED]


def test_operations_are_for_those_who_ask() -> None:
    driver = Driver()
    driver.join()
    assert [each.authorized_operations for each in describe(driver, "g")] == [UNASKED]


@pytest.mark.parametrize(("level", "code"), [(0, ErrorCode.UNSUPPORTED_VERSION), (1, ErrorCode.NONE), (2, ErrorCode.NONE)])
def test_without_the_feature_no_group_is_described(level: int, code: ErrorCode) -> None:
    driver = Driver()
    for name in ("g", "h"):
        driver.beat("m", 0, ["t"], group=name)
    driver.broker.metadata.features["share.version"] = level
    found = describe(driver, "g", "h", operations=True)
    assert [(each.group_id, each.error_code) for each in found] == [("g", code), ("h", code)]
    assert [each.authorized_operations != UNASKED for each in found] == [not code] * 2
    assert all(bool(each.error_message) == bool(code) for each in found)
