"""ListGroups at every version, through the codecs."""

from __future__ import annotations

import pytest

from ottla.wire.messages.list_groups import ListGroupsRequest
from tests.in_loop import in_loop
from tests.server.coordination.memory import CoordinatorLog
from tests.server.group.fakes import Broker, Driver
from tests.server.handlers.group_calls import call, versions


def two_groups() -> Driver:
    driver = Driver()
    driver.stable(group="og")
    driver.commit({0: 1}, group="simple")
    return driver


@pytest.mark.parametrize("version", versions("list_groups"))
@in_loop
async def test_listing_at_every_version(version: int) -> None:
    groups = call(two_groups().broker, "list_groups", version, ListGroupsRequest()).groups
    stable, empty = ("Stable", "Empty") if version >= 4 else ("", "")
    kind = "classic" if version >= 5 else ""
    assert sorted((each.group_id, each.protocol_type, each.group_state, each.group_type) for each in groups) == [
        ("og", "consumer", stable, kind),
        ("simple", "", empty, kind),
    ]


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["Stable"], [], ["og"]),
        ([" stable ", "EMPTY"], [], ["og", "simple"]),
        (["Foo"], [], []),
        ([], ["consumer"], []),
        ([], ["Classic"], ["og", "simple"]),
        ([], ["foo", "classic"], ["og", "simple"]),
        (["Empty"], ["classic"], ["simple"]),
    ],
)
@in_loop
async def test_ls1_to_ls3_filters(states: list[str], types: list[str], expected: list[str]) -> None:
    answer = call(two_groups().broker, "list_groups", 5, ListGroupsRequest(states, types))
    assert (answer.error_code, sorted(each.group_id for each in answer.groups)) == (0, expected)


@in_loop
async def test_without_the_topic_there_are_no_groups() -> None:
    answer = call(Broker(CoordinatorLog(partitions=0)), "list_groups", 5, ListGroupsRequest())
    assert (answer.error_code, answer.groups) == (0, [])


@in_loop
async def test_groups_of_before_the_start_are_listed_without_having_been_asked_for() -> None:
    fresh = Broker(two_groups().broker.log)
    assert len(call(fresh, "list_groups", 5, ListGroupsRequest()).groups) == 2
