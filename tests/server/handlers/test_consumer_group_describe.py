"""ConsumerGroupDescribe at every version, through the codecs: groups, what members have and are to have, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.base.turns import at_once
from ottla.server.group.classic.group import ClassicGroup
from ottla.server.handlers import consumer_group_describe
from ottla.server.security.operations import GROUP_OPERATIONS, UNASKED
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, TopicPartitions
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS
from tests.server.group.consumer.beats import Beating
from tests.server.group.consumer.test_migration import subscription
from tests.server.group.fakes import Broker
from tests.server.handlers.group_calls import call, versions

VERSIONS = versions("consumer_group_describe")
T, U = TOPICS["t"][0], TOPICS["u"][0]


def describe(driver: Beating, *groups: str, version: int = 1, operations: bool = False) -> list[Any]:
    request = ConsumerGroupDescribeRequest(list(groups), operations)
    described: list[Any] = call(driver.broker, "consumer_group_describe", version, request).groups
    return described


def rebalancing() -> Beating:
    """m is about to give up two partitions of t to n, which as a static member comes first."""
    driver = Beating()
    driver.beat("m", rack_id="r", subscribed_topic_names=["u", "t"], server_assignor="range")
    driver.beat("n", instance_id="i")
    driver.later()
    driver.beat("m", 2)
    return driver


@pytest.mark.parametrize("version", VERSIONS)
@in_loop
async def test_a_group_and_its_members(version: int) -> None:
    (group,) = describe(rebalancing(), "g", version=version)
    assert (group.error_code, group.error_message, group.group_id) == (0, None, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "range"
    m, n = group.members
    assert (m.member_id, m.instance_id, m.rack_id, m.member_epoch) == ("m", None, "r", 2)
    assert (m.client_id, m.client_host, m.subscribed_topic_names, m.subscribed_topic_regex) == ("c", "/127.0.0.1", ["t", "u"], "")
    assert (n.member_id, n.instance_id, n.rack_id) == ("n", "i", None)
    assert [each.member_type for each in (m, n)] == ([1, 1] if version >= 1 else [-1, -1])


@in_loop
async def test_a_group_is_described_member_by_member_as_it_was_at_first() -> None:
    driver = rebalancing()
    request = driver.broker.context(1)
    steps = consumer_group_describe._describe("g", request)
    next(steps)
    driver.beat("o")  # another joins, and the target is another one, before the second member is described
    driver.later()
    driver.beat("m", 2)
    driver.beat("n", -1)
    group: Any = at_once(steps)
    assert (group.group_epoch, group.assignment_epoch) == (3, 3)
    assert [each.member_id for each in group.members] == ["m", "n"]
    assert group.members[1].target_assignment.topic_partitions == [TopicPartitions(T, "t", [0, 1])]


@in_loop
async def test_an_answer_with_many_names_is_promised_so_that_a_thread_encodes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = rebalancing()
    request = ConsumerGroupDescribeRequest(["g"])
    for most, promised in ((3, False), (2, True)):
        monkeypatch.setattr(consumer_group_describe, "NAMES_AT_ONCE", most)
        answer = consumer_group_describe.handle(request, driver.broker.context(1))
        assert isinstance(answer, Promise) is promised
    driver.clock.advance(0)
    assert isinstance(answer, Promise)
    assert len(answer.result().groups[0].members) == 2


@in_loop
async def test_what_a_member_is_about_to_give_up_it_still_has() -> None:
    (group,) = describe(rebalancing(), "g")
    m, n = group.members
    u = TopicPartitions(U, "u", [0])
    assert m.assignment.topic_partitions == [TopicPartitions(T, "t", [0, 1, 2]), u]
    assert m.target_assignment.topic_partitions == [TopicPartitions(T, "t", [2]), u]
    assert n.assignment.topic_partitions == []
    assert n.target_assignment.topic_partitions == [TopicPartitions(T, "t", [0, 1])]


@in_loop
async def test_a_member_with_an_expression() -> None:
    driver = Beating()
    driver.beat("m", subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    ((member,),) = (group.members for group in describe(driver, "g"))
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == ([], "[tu]")


@in_loop
async def test_the_epoch_of_a_group_that_is_to_be_assigned() -> None:
    driver = Beating()
    driver.beat("m")
    driver.beat("n")
    (group,) = describe(driver, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Assigning", 3, 2)
    assert group.members[1].target_assignment.topic_partitions == []
    assert [member.member_epoch for member in group.members] == [2, 2]


@in_loop
async def test_a_topic_that_is_gone_is_left_out() -> None:
    driver = rebalancing()
    gone = driver.broker.metadata.topics_by_id.pop(U)
    (group,) = describe(driver, "g")
    names = {part.topic_name for part in group.members[0].assignment.topic_partitions}
    targets = {part.topic_name for part in group.members[0].target_assignment.topic_partitions}
    assert names == targets == {"t"}
    assert gone.name in group.members[0].subscribed_topic_names


@in_loop
async def test_members_of_the_classic_protocol_are_shown_as_such() -> None:
    driver = Beating()
    driver.beat("new")
    old = driver.join(protocols=subscription()).member_id
    driver.join(member=old, protocols=subscription())
    (group,) = describe(driver, "g")
    assert {member.member_id: member.member_type for member in group.members} == {"new": 1, old: 0}


@in_loop
async def test_the_assignor_is_the_brokers_first_where_nobody_asks_for_one() -> None:
    driver = Beating(Broker(broker={"group.consumer.assignors": ["range", "uniform"]}))
    driver.beat("m")
    assert [group.assignor_name for group in describe(driver, "g")] == ["range"]
    driver.beat("n", server_assignor="uniform")
    assert [group.assignor_name for group in describe(driver, "g")] == ["uniform"]


@in_loop
async def test_each_group_has_its_own_answer() -> None:
    driver = Beating()
    driver.beat("m")
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
    assert [each.authorized_operations for each in describe(driver, "g")] == [UNASKED]


@pytest.mark.parametrize("features", [{}, {"group.version": 0}])
@in_loop
async def test_without_the_feature_no_group_is_described(features: dict[str, int]) -> None:
    driver = Beating()
    for name in ("g", "h"):
        driver.beat("m", group=name)
    driver.broker.metadata.features = features
    found = describe(driver, "g", "h", operations=True)
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    assert [(each.group_id, each.error_code) for each in found] == [("g", unsupported), ("h", unsupported)]
    assert all("group.version" in each.error_message and each.authorized_operations == UNASKED for each in found)
