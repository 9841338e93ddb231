"""DeleteGroups at every version, through the codecs."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from tests.server.group.fakes import Driver, in_loop
from tests.server.handlers.group_calls import call, versions


@pytest.mark.parametrize("version", versions("delete_groups"))
@in_loop
async def test_deleting_at_every_version(version: int) -> None:
    driver = Driver()
    driver.stable(group="busy")
    driver.commit({0: 1, 1: 2}, group="old")
    answer = call(driver.broker, "delete_groups", version, DeleteGroupsRequest(["busy", "old", "nog", "old"]))
    assert [(each.group_id, each.error_code, each.error_message) for each in answer.results] == [
        ("busy", ErrorCode.NON_EMPTY_GROUP, None),
        ("old", ErrorCode.NONE, None),
        ("nog", ErrorCode.GROUP_ID_NOT_FOUND, None),
    ]
    assert driver.state("old") is None
    assert driver.fetch("old") == {}
    again = Driver(driver.broker.restarted())
    assert again.state("old") is None
    assert again.fetch("old") == {}
    assert again.state("busy") == "Stable"


@in_loop
async def test_a_deletion_that_cannot_be_written_deletes_nothing() -> None:
    driver = Driver()
    driver.commit({0: 1})
    driver.broker.log.fail = OSError("no space")
    (result,) = call(driver.broker, "delete_groups", 3, DeleteGroupsRequest(["g"])).results
    assert result.error_code == ErrorCode.NOT_COORDINATOR
    assert driver.fetch() == {"t": {0: 1}}


@in_loop
async def test_a_member_that_was_about_to_join_a_deleted_group() -> None:
    driver = Driver()
    pending = driver.join().member_id
    call(driver.broker, "delete_groups", 3, DeleteGroupsRequest(["g"]))
    assert driver.join(member=pending).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.clock.advance(100)
    assert driver.state() is None
