"""DescribeGroups at every version, through the codecs."""

from __future__ import annotations

import pytest

from ottla.server.handlers import describe_groups as handler
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from tests.in_loop import in_loop
from tests.noted import noted
from tests.server.coordination.memory import CoordinatorLog
from tests.server.group.fakes import Broker, Driver
from tests.server.handlers.group_calls import call, versions

NOT_ASKED = -(2**31)


@pytest.mark.parametrize("version", versions("describe_groups"))
@in_loop
async def test_dg1_dg2_at_every_version(version: int) -> None:
    driver = Driver()
    (member,), _ = driver.stable()
    stable, unknown = call(driver.broker, "describe_groups", version, DescribeGroupsRequest(["g", "nog"], version >= 3)).groups
    assert (stable.error_code, stable.group_state, stable.protocol_type, stable.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (described,) = stable.members
    assert (described.member_id, described.client_id, described.client_host) == (member, "c", "/127.0.0.1")
    assert (described.member_metadata, described.member_assignment) == (b"meta", b"0")
    # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, as Kafka without an authorizer says.
    assert stable.authorized_operations == (3400 if version >= 3 else NOT_ASKED)
    assert (unknown.group_state, unknown.members) == ("Dead", [])
    if version >= 6:
        assert (unknown.error_code, unknown.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "There is no group 'nog'.")
        assert unknown.authorized_operations == NOT_ASKED
    else:
        assert unknown.error_code == ErrorCode.NONE


@in_loop
async def test_while_a_group_rebalances_only_assignments_are_shown() -> None:
    driver = Driver()
    driver.stable()
    driver.enter()
    (group,) = call(driver.broker, "describe_groups", 6, DescribeGroupsRequest(["g"])).groups
    assert (group.group_state, group.protocol_data, group.authorized_operations) == ("PreparingRebalance", "", NOT_ASKED)
    assert [(each.member_metadata, each.member_assignment) for each in group.members] == [(b"", b"0"), (b"", b"")]


@in_loop
async def test_static_members_and_simple_groups() -> None:
    driver = Driver()
    driver.join(instance="i")
    driver.clock.advance(0)
    driver.commit({0: 1}, group="simple")
    static, simple = call(driver.broker, "describe_groups", 4, DescribeGroupsRequest(["g", "simple"])).groups
    assert [each.group_instance_id for each in static.members] == ["i"]
    assert (simple.group_state, simple.protocol_type) == ("Empty", "")


@in_loop
async def test_no_coordinator() -> None:
    (group,) = call(Broker(CoordinatorLog(partitions=0)), "describe_groups", 5, DescribeGroupsRequest(["g"])).groups
    assert (group.error_code, group.group_state) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")


@in_loop
async def test_a_group_that_is_named_again_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered each time all the same, as by Kafka."""
    described: list[str] = []
    monkeypatch.setattr(handler, "_describe", noted(described, handler._describe))
    driver = Driver()
    driver.stable()
    answer = call(driver.broker, "describe_groups", 6, DescribeGroupsRequest(["g", "", "g", "", "", "g"], True)).groups
    assert [each.group_id for each in answer] == ["g", "", "g", "", "", "g"]
    assert answer[0] == answer[2] == answer[5]
    assert len(answer[5].members) == 1
    assert described == ["g", ""]
