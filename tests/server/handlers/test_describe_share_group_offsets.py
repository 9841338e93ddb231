"""DescribeShareGroupOffsets through the codecs: start offsets and lags, of all partitions or of those that are asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.interbroker.latest_offsets import Latest
from ottla.server.share_state.state import SharePartition
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.wire.primitives import ZERO_UUID
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS
from tests.server.group.share.driver import END_OFFSET, Driver
from tests.server.handlers.group_calls import call, versions

T, U = TOPICS["t"][0], TOPICS["u"][0]
NOTHING = (-1, 0, -1, 0)
"""The row of a partition of which nothing is known."""
LAST_INT64 = 2**63 - 1
LEADER_EPOCH = 4

Asked = tuple[str, list[int]]


def describe(driver: Driver, *groups: tuple[str, list[Asked] | None], version: int = 1) -> list[Any]:
    wanted = [
        DescribeShareGroupOffsetsRequestGroup(
            group, None if topics is None else [DescribeShareGroupOffsetsRequestTopic(*topic) for topic in topics]
        )
        for group, topics in groups
    ]
    answer = call(driver.broker, "describe_share_group_offsets", version, DescribeShareGroupOffsetsRequest(wanted))
    described: list[Any] = answer.groups
    return described


def rows(group: Any) -> list[tuple[str, bytes, dict[int, tuple[int, int, int, int]]]]:
    """Of each topic: its name, its id, and by partition start offset, leader epoch, lag and code."""
    assert (group.error_code, group.error_message) == (0, None)
    return [
        (
            topic.topic_name,
            topic.topic_id,
            {
                each.partition_index: (each.start_offset, each.leader_epoch, each.lag, each.error_code)
                for each in topic.partitions
            },
        )
        for topic in group.topics
    ]


def begun() -> Driver:
    """A group at offset 5 of a partition of each topic. One record of t behind that is done with."""
    driver = Driver()
    driver.alter("u", {0: 5})
    driver.alter("t", {0: 5, 2: -1})
    driver.broker.state.write((6, 6, 2, 1), start_offset=5, complete=1)
    driver.broker.state.coordinator.read("g", T, 0, LEADER_EPOCH)
    return driver


@pytest.mark.parametrize("version", versions("describe_share_group_offsets"))
@in_loop
async def test_all_partitions_with_state(version: int) -> None:
    lag = END_OFFSET - 5 if version >= 1 else -1
    (group,) = describe(begun(), ("g", None), version=version)
    assert group.group_id == "g"
    assert rows(group) == [
        ("t", T, {0: (5, LEADER_EPOCH, lag - 1 if version >= 1 else -1, 0), 2: NOTHING}),
        ("u", U, {0: (5, 0, lag, 0)}),
    ]
    assert [each.partition_index for each in group.topics[0].partitions] == [0, 2]


@in_loop
async def test_what_is_asked_for_once_each_and_what_there_is_not_behind_it() -> None:
    driver = begun()
    asked: list[Asked] = [("no", [4, 4]), ("t", [2, 0, 2]), ("u", [0]), ("no", [5]), ("t", [0, 9])]
    lag = END_OFFSET - 5
    (group,) = describe(driver, ("g", asked))
    assert rows(group) == [
        ("t", T, {2: NOTHING, 0: (5, LEADER_EPOCH, lag - 1, 0), 9: NOTHING}),
        ("u", U, {0: (5, 0, lag, 0)}),
        ("no", ZERO_UUID, {4: NOTHING}),
        ("no", ZERO_UUID, {5: NOTHING}),
    ]
    assert [[each.partition_index for each in topic.partitions] for topic in group.topics] == [[2, 0, 9], [0], [4, 4], [5]]
    assert rows(*describe(driver, ("g", []))) == []


@in_loop
async def test_groups_are_described_each_by_itself_whether_or_not_they_exist() -> None:
    found = describe(begun(), ("nobody", None), ("nobody", [("u", [0])]), ("g", [("u", [0])]))
    assert [each.group_id for each in found] == ["nobody", "nobody", "g"]
    assert [rows(each) for each in found] == [[], [("u", U, {0: NOTHING})], [("u", U, {0: (5, 0, END_OFFSET - 5, 0)})]]


@in_loop
async def test_a_topic_that_is_gone_is_left_out() -> None:
    driver = begun()
    driver.broker.metadata.topics_by_id.pop(driver.broker.metadata.topics.pop("u").topic_id)
    (group,) = describe(driver, ("g", None))
    assert [name for name, _, _ in rows(group)] == ["t"]


@in_loop
async def test_a_state_that_cannot_be_read_now_has_no_offset() -> None:
    driver = begun()
    driver.broker.state.log.leaders = [None] * 4
    driver.broker.state.coordinator.refresh()
    (group,) = describe(driver, ("g", [("u", [0])]))
    assert rows(group) == [("u", U, {0: NOTHING})]


@in_loop
async def test_a_state_without_a_start_offset_or_a_count_of_what_is_done_with_has_no_lag() -> None:
    driver = begun()
    driver.broker.state.write(leader_epoch=LEADER_EPOCH, start_offset=7, complete=-1)
    driver.broker.state.write(name=SharePartition("g", T, 2), start_offset=-1, complete=0)
    (group,) = describe(driver, ("g", [("t", [0, 2])]))
    assert rows(group) == [("t", T, {0: (7, LEADER_EPOCH, -1, 0), 2: NOTHING})]


@pytest.mark.parametrize(
    ("replica", "code"),
    [(SimpleNamespace(is_leader=False), ErrorCode.NOT_LEADER_OR_FOLLOWER), (None, ErrorCode.KAFKA_STORAGE_ERROR)],
)
@in_loop
async def test_why_a_high_watermark_is_not_known(replica: Any, code: ErrorCode) -> None:
    driver = begun()
    driver.broker.replicas.get = lambda topic, partition: replica
    driver.broker.replicas.why_missing = lambda topic, partition: ErrorCode.KAFKA_STORAGE_ERROR
    (group,) = describe(driver, ("g", [("u", [0])]))
    ((_, _, partitions),) = rows(group)
    assert partitions == {0: (0, 0, -1, code)}
    assert group.topics[0].partitions[0].error_message == code.name


class OtherLeader:
    """A stand-in for what asks other brokers, with an answer at hand or a promise of it."""

    def __init__(self, latest: Latest | Promise[Latest]) -> None:
        self.latest = latest

    def ask(self, topic: str, partition: int) -> Latest | Promise[Latest]:
        assert (topic, partition) == ("u", 0)
        return self.latest


@pytest.mark.parametrize("replica", [SimpleNamespace(is_leader=False), None])
@in_loop
async def test_the_leader_on_another_broker_is_asked(replica: Any) -> None:
    driver = begun()
    driver.broker.replicas.get = lambda topic, partition: replica
    driver.broker.other_leaders = OtherLeader(Latest(12))
    (group,) = describe(driver, ("g", [("u", [0])]))
    assert rows(group) == [("u", U, {0: (5, 0, 7, 0)})]
    driver.broker.other_leaders = OtherLeader(Latest(-1, ErrorCode.LEADER_NOT_AVAILABLE))
    (group,) = describe(driver, ("g", [("u", [0])]))
    assert rows(group) == [("u", U, {0: (0, 0, -1, ErrorCode.LEADER_NOT_AVAILABLE)})]
    assert group.topics[0].partitions[0].error_message == "LEADER_NOT_AVAILABLE"


@pytest.mark.parametrize(("start", "lag"), [(-(2**63), LAST_INT64), (LAST_INT64, END_OFFSET - LAST_INT64)])
@in_loop
async def test_a_lag_is_no_more_than_its_field_holds(start: int, lag: int) -> None:
    driver = Driver()
    driver.alter("u", {0: start})
    (group,) = describe(driver, ("g", None))
    assert rows(group) == [("u", U, {0: (start, 0, lag, 0)})]


@in_loop
async def test_a_lag_is_no_less_than_its_field_holds() -> None:
    driver = Driver()
    driver.alter("t", {0: LAST_INT64})
    driver.broker.state.write(start_offset=LAST_INT64, complete=2**31 - 1)
    (group,) = describe(driver, ("g", None))
    assert rows(group) == [("t", T, {0: (LAST_INT64, 0, -LAST_INT64 - 1, 0)})]


@in_loop
async def test_errors_of_a_group() -> None:
    driver = begun()
    driver.broker.log.leaders = [None] * 4
    driver.broker.groups.refresh()
    everything, asked = describe(driver, ("g", None), ("g", [("u", [0])]))
    assert (everything.error_code, everything.topics) == (ErrorCode.NOT_COORDINATOR, [])
    assert rows(asked), "the group's coordinator is not needed for that"
    driver.broker.metadata.features["share.version"] = 0
    found = describe(driver, ("g", None), ("h", [("u", [0])]))
    assert [(each.group_id, each.error_code, each.topics) for each in found] == [
        ("g", ErrorCode.UNSUPPORTED_VERSION, []),
        ("h", ErrorCode.UNSUPPORTED_VERSION, []),
    ]
