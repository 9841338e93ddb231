"""These tests describe, set and delete offsets of share groups, and delete groups with their offsets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.log.errors import StorageError
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Committer
from ottla.server.group.share.protocol import ShareProtocol
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS
from tests.server.group.fakes import at_once
from tests.server.group.share.driver import END_OFFSET, Driver, codes

T, U = TOPICS["t"][0], TOPICS["u"][0]


@in_loop
async def test_offsets_are_set_where_nobody_reads() -> None:
    driver = Driver()
    driver.enter()
    assert driver.alter("t", {0: 5}).error_code == ErrorCode.NON_EMPTY_GROUP
    driver.beat(epoch=-1)
    assert driver.offsets() == {"t": dict.fromkeys(range(3), (-1, -1))}
    assert codes(driver.alter("t", {0: 5, 1: -1, 7: 3})) == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes(driver.alter("nothing", {0: 5})) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert driver.offsets() == {"t": {0: (5, END_OFFSET - 5), 1: (-1, -1), 2: (-1, -1)}}
    assert driver.offsets(("t", [0]), ("nothing", [3])) == {"t": {0: (5, END_OFFSET - 5)}, "nothing": {3: (-1, -1)}}
    assert driver.restarted().offsets() == driver.offsets()


@in_loop
async def test_setting_offsets_makes_a_group() -> None:
    driver = Driver()
    assert driver.offsets() == {}
    assert driver.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert codes(driver.alter("u", {0: 3})) == [0]
    described = driver.describe()
    assert (described.error_code, described.group_state, described.group_epoch) == (0, "Empty", 1)
    assert driver.offsets() == {"u": {0: (3, END_OFFSET - 3)}}
    assert driver.alter("u", {0: 3}, group="").error_code == ErrorCode.INVALID_GROUP_ID


@in_loop
async def test_a_lag_is_no_more_than_its_field_holds() -> None:
    driver = Driver()
    driver.alter("u", {0: -(2**63)})
    assert driver.offsets() == {"u": {0: (-(2**63), 2**63 - 1)}}


@in_loop
async def test_setting_offsets_waits_for_the_topic_that_keeps_them() -> None:
    driver = Driver()
    batches, driver.broker.state.log.batches = driver.broker.state.log.batches, []
    waiting = driver.alter("t", {0: 5})
    assert not waiting.done()
    driver.broker.state.log.batches = batches
    driver.clock.advance(1)
    assert codes(waiting.result()) == [0]
    assert driver.offsets() == {"t": {0: (5, END_OFFSET - 5)}}


@in_loop
async def test_refusals_of_the_share_coordinator_are_answered_by_partition() -> None:
    driver = Driver()
    driver.alter("t", {0: 5, 1: 5})
    driver.broker.state.topics[T] = 1
    assert codes(driver.alter("t", {0: 6, 1: 6})) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@in_loop
async def test_offsets_are_forgotten_by_topic() -> None:
    driver = Driver()
    driver.enter("m", "t", "u")
    assert driver.forget("t").error_code == ErrorCode.NON_EMPTY_GROUP
    driver.beat(epoch=-1)
    assert sorted(codes(driver.forget("t", "nothing"))) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert driver.offsets() == {"u": {0: (-1, -1)}}
    assert driver.group().state_partitions.deleting == {}
    assert codes(driver.forget("t")) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert driver.forget("t", group="other").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.forget("t", group="").error_code == ErrorCode.INVALID_GROUP_ID


@in_loop
async def test_what_could_not_be_forgotten_is_tried_again() -> None:
    driver = Driver()
    driver.enter("m", "t", "u")
    driver.beat(epoch=-1)
    driver.broker.state.log.fail = StorageError("gone")
    assert codes(driver.forget("t")) == [ErrorCode.NOT_COORDINATOR]
    assert driver.group().state_partitions.deleting == {T: "t"}
    assert driver.delete() == ErrorCode.NOT_COORDINATOR
    driver.broker.state.log.fail = None
    again = driver.restarted()
    assert again.group().state_partitions.deleting == {T: "t", U: "u"}
    assert codes(again.forget("t")) == [0]
    assert again.group().state_partitions.deleting == {U: "u"}
    assert again.delete() == ErrorCode.NONE
    state = again.broker.state.coordinator
    assert [at_once(state.read_summary("g", topic_id, 0)).start_offset for topic_id in (T, U)] == [-1, -1]


@in_loop
async def test_who_reads_a_topic_again_ends_its_deletion() -> None:
    driver = Driver()
    driver.enter()
    driver.beat(epoch=-1)
    driver.broker.state.log.fail = StorageError("gone")
    driver.forget("t")
    driver.broker.state.log.fail = None
    assert driver.group().state_partitions.deleting == {T: "t"}
    driver.join()
    assert driver.group().state_partitions.deleting == {}


@in_loop
async def test_a_group_goes_with_its_state() -> None:
    driver = Driver()
    driver.enter()
    assert driver.delete() == ErrorCode.NON_EMPTY_GROUP
    driver.beat(epoch=-1)
    assert driver.delete() == ErrorCode.NONE
    assert driver.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    state = driver.broker.state.coordinator
    assert [at_once(state.read_summary("g", T, partition)).start_offset for partition in range(3)] == [-1, -1, -1]
    assert driver.offsets() == {}


def test_a_share_group_commits_no_offsets_and_does_not_go_by_itself() -> None:
    driver = Driver()
    driver.enter()
    protocol, group = driver.broker.groups.shard("g").protocol(ShareProtocol), driver.group()
    refusals: list[Callable[[], None]] = [
        lambda: protocol.admit_commit(group, Committer("", None, -1, 9)),
        lambda: protocol.admit_commit_in_transaction(group, Committer("", None, -1, 3)),
        lambda: protocol.admit_offset_deletion(group),
    ]
    for refusal in refusals:
        with pytest.raises(GroupError) as error:
            refusal()
        assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    driver.beat(epoch=-1)
    driver.clock.advance(60 * 24 * 3600)
    driver.broker.groups.expire()
    assert driver.group().is_empty
