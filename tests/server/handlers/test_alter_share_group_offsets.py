"""AlterShareGroupOffsets through the codecs: each partition's answer, the waiting for the share coordinator, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.promise import Promise
from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.errors import GroupError
from ottla.server.group.share.state_partitions import TopicPartitions
from ottla.server.handlers import alter_share_group_offsets
from ottla.server.share.group_state import ATTEMPTS, RETRY_SECONDS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.primitives import ZERO_UUID
from tests.in_loop import in_loop
from tests.noted import noted
from tests.server.coordination.memory import TOPICS, slow
from tests.server.group.share.driver import END_OFFSET, Driver
from tests.server.handlers.group_calls import call, versions

(VERSION,) = versions("alter_share_group_offsets")
T, U = TOPICS["t"][0], TOPICS["u"][0]
MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")


def request(*topics: tuple[str, dict[int, int]], group: str = "g") -> AlterShareGroupOffsetsRequest:
    asked = [
        AlterShareGroupOffsetsRequestTopic(name, [AlterShareGroupOffsetsRequestPartition(*each) for each in offsets.items()])
        for name, offsets in topics
    ]
    return AlterShareGroupOffsetsRequest(group, asked)


def alter(driver: Driver, *topics: tuple[str, dict[int, int]], group: str = "g") -> Any:
    """The answer, which the share coordinator gives at once."""
    return call(driver.broker, "alter_share_group_offsets", VERSION, request(*topics, group=group))


def told(answer: Any) -> list[tuple[str, bytes, dict[int, tuple[int, str | None]]]]:
    """Name and id of each topic, and code and text of its partitions."""
    assert (answer.error_code, answer.error_message) == (0, None)
    return [
        (
            topic.topic_name,
            topic.topic_id,
            {each.partition_index: (each.error_code, each.error_message) for each in topic.partitions},
        )
        for topic in answer.responses
    ]


@in_loop
async def test_each_partition_has_its_answer_and_each_topic_one_entry() -> None:
    driver = Driver()
    answer = alter(driver, ("t", {0: 5, 7: 5}), ("no", {0: 5}), ("u", {0: 3}), ("t", {1: 6}))
    assert told(answer) == [
        ("t", T, {0: (0, None), 7: MISSING, 1: (0, None)}),
        ("no", ZERO_UUID, {0: MISSING}),
        ("u", U, {0: (0, None)}),
    ]
    assert driver.offsets() == {"t": {0: (5, END_OFFSET - 5), 1: (6, END_OFFSET - 6)}, "u": {0: (3, END_OFFSET - 3)}}


@in_loop
async def test_what_is_done_at_once_is_answered_at_once() -> None:
    assert isinstance(Driver().alter("t", {0: 5}), AlterShareGroupOffsetsResponse)


@in_loop
async def test_what_is_begun_is_on_record_before_and_after() -> None:
    driver = Driver()
    log = driver.broker.state.log
    log.batches, batches = [], log.batches
    waiting = driver.alter("t", {0: 5})
    state = driver.group().state_partitions
    assert (state.initializing[T].partitions, state.initialized) == (frozenset({0}), {})
    assert state.initializing[T].since_ms == driver.clock.now_ms()
    log.batches = batches
    driver.clock.advance(1)
    assert waiting.done()
    state = driver.group().state_partitions
    assert (state.initializing, state.initialized[T].partitions) == ({}, frozenset({0}))
    assert driver.broker.state.now().state_epoch == driver.group().epoch


@in_loop
async def test_what_the_share_coordinator_refuses_is_told_with_its_text_and_stays_as_begun() -> None:
    driver = Driver()
    driver.broker.state.begin(state_epoch=9)
    ((_, _, partitions),) = told(alter(driver, ("t", {0: 6, 1: 6, 9: 6})))
    code, text = partitions.pop(0)
    assert (code, bool(text)) == (ErrorCode.FENCED_STATE_EPOCH, True)
    assert partitions == {1: (0, None), 9: MISSING}
    state = driver.group().state_partitions
    assert (state.initializing[T].partitions, state.initialized) == (frozenset({0, 1}), {})


@in_loop
async def test_after_a_while_the_share_coordinator_is_waited_for_no_longer() -> None:
    driver = Driver()
    driver.broker.state.log.fail = StorageError("gone")
    waiting = driver.alter("t", {0: 6, 9: 6})
    driver.clock.advance(RETRY_SECONDS * (ATTEMPTS - 1.5))
    assert not waiting.done()
    driver.clock.advance(RETRY_SECONDS)
    ((_, _, partitions),) = told(waiting.result())
    assert partitions[0][0] == ErrorCode.NOT_COORDINATOR
    assert partitions[9] == MISSING


@in_loop
async def test_where_nothing_is_to_be_set_the_share_coordinator_is_not_asked() -> None:
    driver = Driver()
    driver.broker.state.log.batches = []
    answer = alter_share_group_offsets.handle(request(("t", {9: 5})), driver.broker.context(VERSION))
    assert isinstance(answer, AlterShareGroupOffsetsResponse)
    assert told(answer) == [("t", T, {9: MISSING})]
    assert driver.group().epoch == 1, "the group is there now"
    assert driver.broker.state.created == 0, "nor is its topic made"
    assert alter(driver, group="other").responses == []
    with pytest.raises(GroupError):
        driver.group("other")


@in_loop
async def test_refusals_of_the_group() -> None:
    driver = Driver()
    driver.join()
    driver.broker.groups.shard("old").groups["old"] = ClassicGroup("old", 0)

    def refused(group: str) -> tuple[int, str]:
        answer = alter(driver, ("t", {0: 1}), group=group)
        assert answer.responses == []
        return answer.error_code, answer.error_message

    code, text = refused("g")
    assert (code, "still has members" in text) == (ErrorCode.NON_EMPTY_GROUP, True)
    code, text = refused("old")
    assert (code, "share group" in text) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    assert refused("") == (ErrorCode.INVALID_GROUP_ID, "INVALID_GROUP_ID")
    driver.broker.log.fail = StorageError("gone")
    assert refused("new") == (ErrorCode.NOT_COORDINATOR, "NOT_COORDINATOR")
    driver.broker.metadata.features["share.version"] = 0
    code, text = refused("new")
    assert (code, "share.version" in text) == (ErrorCode.UNSUPPORTED_VERSION, True)


@in_loop
async def test_who_has_gone_meanwhile_is_not_answered() -> None:
    driver = Driver()
    log = driver.broker.state.log
    log.batches, batches = [], log.batches
    waiting = driver.alter("t", {0: 5})
    assert isinstance(waiting, Promise)
    waiting.cancel()
    log.batches = batches
    driver.clock.advance(1)
    assert driver.offsets() == {"t": {0: (5, END_OFFSET - 5)}}, "it is done all the same"


@in_loop
async def test_a_topic_that_is_named_again_and_again_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all of its partitions so far each time, thousands of mentions took seconds."""
    made: list[str] = []
    monkeypatch.setattr(alter_share_group_offsets, "TopicPartitions", noted(made, TopicPartitions))
    alter(Driver(), *(("t", {index: 5}) for index in (0, 1, 2) * 10), ("u", {0: 3}))
    assert made == ["t", "u"]


def test_a_request_is_read_in_turns() -> None:
    """One with 9,900 topics was read at once, which took 0.1 s."""
    driver = Driver()
    with slow(driver.clock):
        answer = driver.alter("t", {0: 5, 1: 5, 2: 5})
        assert isinstance(answer, Promise)
        for _ in range(3):
            assert not driver.broker.log.records()
            driver.clock.next_round()
        driver.clock.advance(0)
    assert codes_of(answer.result()) == {0: 0, 1: 0, 2: 0}


def codes_of(answer: Any) -> dict[int, int]:
    ((_, _, partitions),) = told(answer)
    return {index: code for index, (code, _) in partitions.items()}
