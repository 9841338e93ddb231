"""DeleteGroups at every version, through the codecs."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Workers
from ottla.server.group.commits import AT_ONCE
from ottla.server.group.requests import Commit, Committer
from ottla.server.handlers import delete_groups
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.primitives import ZERO_UUID
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver
from tests.server.handlers.group_calls import call, versions

MANY: Final = AT_ONCE + 1


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


def many_offsets(driver: Driver, count: int = MANY, first: int = 0) -> None:
    commits = [Commit("t", ZERO_UUID, index, 7, -1, "") for index in range(first, first + count)]
    driver.broker.groups.shard("g").commit("g", Committer("", None, -1, 9), commits)


def begun(driver: Driver) -> Any:
    """Begins to delete a group with many offsets; returns the promise of the answer."""
    answer = delete_groups.handle(DeleteGroupsRequest(["g"]), driver.broker.context(3))
    assert isinstance(answer, Promise)
    assert driver.broker.groups.shard("g").offsets.count("g") > AT_ONCE
    return answer


def end(driver: Driver, answer: Any) -> ErrorCode:
    """Ends the thread; returns the error code."""
    driver.broker.threads.end_first()
    driver.clock.advance(0)
    (result,) = answer.result().results
    return ErrorCode(result.error_code)


@in_loop
async def test_the_deletion_of_many_offsets_is_encoded_in_a_thread_and_written_in_one_batch() -> None:
    driver = Driver()
    many_offsets(driver)
    answer, before = begun(driver), sum(map(len, driver.broker.log.batches))
    assert (end(driver, answer), sum(map(len, driver.broker.log.batches)) - before) == (ErrorCode.NONE, 1)
    assert (driver.state(), driver.broker.groups.shard("g").offsets.count("g")) == (None, 0)
    again = Driver(driver.broker.restarted())
    assert (again.state(), again.broker.groups.shard("g").offsets.count("g")) == (None, 0)


@in_loop
async def test_few_offsets_are_deleted_at_once() -> None:
    driver = Driver()
    many_offsets(driver, AT_ONCE)
    (result,) = call(driver.broker, "delete_groups", 3, DeleteGroupsRequest(["g"])).results
    assert (result.error_code, driver.broker.threads.jobs, driver.state()) == (ErrorCode.NONE, [], None)


@in_loop
async def test_what_is_committed_meanwhile_is_deleted_as_well() -> None:
    driver = Driver()
    many_offsets(driver)
    answer = begun(driver)
    many_offsets(driver, 1, MANY)
    assert end(driver, answer) == ErrorCode.NONE
    assert (driver.state(), driver.broker.groups.shard("g").offsets.count("g")) == (None, 0)


@in_loop
async def test_a_group_that_gets_members_meanwhile_keeps_its_offsets() -> None:
    driver = Driver()
    many_offsets(driver)
    answer = begun(driver)
    driver.stable()
    assert end(driver, answer) == ErrorCode.NON_EMPTY_GROUP
    assert driver.broker.groups.shard("g").offsets.count("g") == MANY


@in_loop
async def test_without_a_thread_it_is_encoded_here() -> None:
    driver = Driver()
    many_offsets(driver)

    def refuse(job: Any, done: Any) -> None:
        raise RuntimeError("can't start new thread")

    driver.broker.workers = lambda: Workers(refuse)
    answer = delete_groups.handle(DeleteGroupsRequest(["g"]), driver.broker.context(3))
    driver.clock.advance(0)
    result = answer.result() if isinstance(answer, Promise) else answer
    assert (result.results[0].error_code, driver.state()) == (ErrorCode.NONE, None)
