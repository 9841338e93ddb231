"""DeleteShareGroupOffsets through the codecs: each topic's answer, what is on record if it fails half-way, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.promise import Promise
from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.modern import operations
from ottla.server.group.result import Result
from ottla.server.group.share import group as share_group
from ottla.server.group.share import records
from ottla.server.group.share.member import ShareMember
from ottla.server.handlers.delete_share_group_offsets import NO_TOPIC, NOTHING_TO_DELETE
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from ottla.wire.primitives import ZERO_UUID
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS, slow
from tests.server.group.share.driver import END_OFFSET, Driver
from tests.server.handlers.group_calls import call, versions
from tests.server.share_state.fakes import NAME

(VERSION,) = versions("delete_share_group_offsets")
T, U = TOPICS["t"][0], TOPICS["u"][0]
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def delete(driver: Driver, *topics: str, group: str = "g") -> Any:
    request = DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics])
    return call(driver.broker, "delete_share_group_offsets", VERSION, request)


def told(answer: Any) -> list[tuple[str, bytes, int, str | None]]:
    assert (answer.error_code, answer.error_message) == (0, None)
    return [(topic.topic_name, topic.topic_id, topic.error_code, topic.error_message) for topic in answer.responses]


def begun() -> Driver:
    """A group without members that is at offset 5 of both topics."""
    driver = Driver()
    driver.alter("t", {0: 5, 1: 5})
    driver.alter("u", {0: 5})
    return driver


@in_loop
async def test_each_topic_has_its_answer() -> None:
    driver = begun()
    assert told(delete(driver, "t", "no")) == [("no", ZERO_UUID, UNKNOWN, NO_TOPIC), ("t", T, 0, None)]
    assert driver.offsets() == {"u": {0: (5, END_OFFSET - 5)}}
    assert driver.broker.state.coordinator.find(NAME) is None, "the share coordinator has forgotten it"
    assert told(delete(driver, "t", "u")) == [("t", ZERO_UUID, UNKNOWN, NOTHING_TO_DELETE), ("u", U, 0, None)]
    assert not any(driver.group().state_partitions)
    assert told(delete(driver, "t")) == [("t", ZERO_UUID, UNKNOWN, NOTHING_TO_DELETE)], "it did begin once"


@in_loop
async def test_a_topic_that_is_gone_has_no_offsets() -> None:
    driver = begun()
    driver.broker.metadata.topics.pop("t")
    assert told(delete(driver, "t")) == [("t", ZERO_UUID, UNKNOWN, NO_TOPIC)]


@in_loop
async def test_what_is_deleting_is_deleted_by_the_next_who_asks() -> None:
    driver = begun()
    log = driver.broker.state.log
    log.fail = StorageError("gone")
    refusal = (ErrorCode.NOT_COORDINATOR, ShareStateError(ErrorCode.NOT_COORDINATOR).text)
    assert told(delete(driver, "t")) == [("t", T, *refusal)]
    state = driver.group().state_partitions
    assert (set(state.initialized), dict(state.deleting)) == ({U}, {T: "t"})
    assert told(delete(driver, "t", "u")) == [("t", T, *refusal), ("u", U, *refusal)]
    assert driver.group().state_partitions.deleting == {T: "t", U: "u"}
    log.fail = None
    assert told(delete(driver, "t")) == [("t", T, 0, None)]
    assert driver.group().state_partitions.deleting == {U: "u"}


@in_loop
async def test_a_group_that_never_began_anywhere_answers_nothing_of_topics() -> None:
    driver = Driver()
    driver.join("m", "nowhere")
    driver.beat("m", -1)
    written = len(driver.broker.log.records())
    assert told(delete(driver, "t", "no")) == []
    assert len(driver.broker.log.records()) == written


@in_loop
async def test_refusals_of_the_group() -> None:
    driver = begun()
    driver.broker.groups.shard("old").groups["old"] = ClassicGroup("old", 0)

    def refused(group: str) -> tuple[int, str]:
        answer = delete(driver, "t", group=group)
        assert answer.responses == []
        return answer.error_code, answer.error_message

    for group in ("old", "nowhere"):
        code, text = refused(group)
        assert (code, group in text) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    assert refused("") == (ErrorCode.INVALID_GROUP_ID, "INVALID_GROUP_ID")
    driver.join()
    code, text = refused("g")
    assert (code, "still has members" in text) == (ErrorCode.NON_EMPTY_GROUP, True)
    driver.beat("m", -1)
    driver.broker.log.fail = StorageError("gone")
    assert refused("g") == (ErrorCode.NOT_COORDINATOR, "NOT_COORDINATOR")
    assert driver.broker.state.coordinator.find(NAME) is not None, "the record comes before the deed"
    driver.broker.metadata.features["share.version"] = 0
    code, text = refused("g")
    assert (code, "share.version" in text) == (ErrorCode.UNSUPPORTED_VERSION, True)


def test_many_topics_are_deleted_in_turns_of_a_group_that_has_state_and_no_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request about 9,900 of them, or about one of a group that has so many, kept everybody waiting for 0.1 s."""
    driver = begun()
    monkeypatch.setattr(share_group, "LARGE", 2)
    assert not driver.group().is_large
    monkeypatch.setattr(share_group, "LARGE", 1)
    assert driver.group().is_large, "it has no members, but state in two topics"
    with slow(driver.clock):
        answer = driver.forget("t")
        assert isinstance(answer, Promise)
        rounds = 0
        while not driver.group().state_partitions.deleting:
            assert not answer.done()
            assert driver.broker.state.coordinator.find(NAME) is not None, "the record comes before the deed"
            driver.clock.next_round()
            rounds += 1
        assert rounds > 2
        driver.clock.advance(0)
    assert told(answer.result()) == [("t", T, 0, None)]
    assert not driver.group().state_partitions.deleting


@pytest.mark.parametrize("rounds", range(10))
def test_what_is_begun_is_done_even_if_the_client_has_gone(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """Else a topic would be on record as being deleted for ever."""
    driver = begun()
    monkeypatch.setattr(operations, "LARGE", 0)
    with slow(driver.clock):
        answer = driver.forget("t")
        for _ in range(rounds):
            driver.clock.next_round()
        assert isinstance(answer, Promise)
        answer.cancel()
        driver.clock.advance(1)
    state = driver.group().state_partitions
    assert (set(state.initialized), state.deleting) == ({U}, {})


def test_a_group_that_gets_a_member_before_the_deletion_is_on_record_keeps_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = begun()
    monkeypatch.setattr(operations, "LARGE", 0)
    with slow(driver.clock):
        answer = driver.forget("t")
        monkeypatch.setattr(operations, "LARGE", 100)
        driver.broker.groups.shard("g").run(Result([records.member("g", ShareMember("m", topics=frozenset({"t"})))], None))
        driver.clock.advance(0)
    assert isinstance(answer, Promise)
    assert answer.result().error_code == ErrorCode.NON_EMPTY_GROUP
    assert set(driver.group().state_partitions.initialized) == {T, U}
