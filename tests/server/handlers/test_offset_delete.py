"""OffsetDelete: what a group may forget, through the codecs, over a log that a restart reads again."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tests.in_loop import in_loop
from tests.server.group.fakes import Driver
from tests.server.handlers.group_calls import call, versions

NONE = ErrorCode.NONE
SUBSCRIBED_TO_T = struct.pack(">hih1si", 0, 1, 1, b"t", -1)


def delete(driver: Driver, *topics: tuple[str, list[int]], group: str = "g", version: int = 0) -> Any:
    asked = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(n) for n in indexes]) for name, indexes in topics]
    return call(driver.broker, "offset_delete", version, OffsetDeleteRequest(group, asked))


def codes(answer: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    assert answer.error_code == NONE
    return [(topic.name, [(p.partition_index, p.error_code) for p in topic.partitions]) for topic in answer.topics]


@pytest.mark.parametrize("version", versions("offset_delete"))
@in_loop
async def test_offsets_go_for_good(version: int) -> None:
    driver = Driver()
    driver.commit({0: 1, 1: 2})
    driver.commit({0: 3}, topic="u")
    assert codes(delete(driver, ("t", [0, 2]), version=version)) == [("t", [(0, NONE), (2, NONE)])]
    assert driver.fetch() == {"t": {1: 2}, "u": {0: 3}}
    assert Driver(driver.broker.restarted()).fetch() == {"t": {1: 2}, "u": {0: 3}}


@in_loop
async def test_what_is_not_there_is_not_written_down() -> None:
    driver = Driver()
    driver.commit({0: 1})
    before = len(driver.broker.log.records())
    delete(driver, ("t", [1, 2]))
    assert len(driver.broker.log.records()) == before
    delete(driver, ("t", [0, 0]), ("t", [0]))
    assert len(driver.broker.log.records()) == before + 1, "one tombstone, however often it was asked for"


@in_loop
async def test_partitions_that_do_not_exist_come_first_and_merge_topics() -> None:
    driver = Driver()
    driver.commit({0: 1})
    answer = delete(driver, ("t", [0, 9]), ("nope", [0]), ("t", [1, -1]), ("u", []))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == [("t", [(9, unknown), (-1, unknown), (0, NONE), (1, NONE)]), ("nope", [(0, unknown)])]


@in_loop
async def test_topics_named_twice_are_answered_twice_where_all_exist() -> None:
    driver = Driver()
    driver.commit({0: 1})
    assert codes(delete(driver, ("t", [1, 1]), ("t", [2]))) == [("t", [(1, NONE), (1, NONE)]), ("t", [(2, NONE)])]


@in_loop
async def test_a_topic_that_members_read_keeps_its_offsets() -> None:
    driver = Driver()
    (member,), generation = driver.stable(protocols={"range": SUBSCRIBED_TO_T})
    for topic in ("t", "u"):
        driver.commit({0: 1}, topic=topic, member=member, generation=generation)
    assert codes(delete(driver, ("t", [0]), ("u", [0]))) == [
        ("t", [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]),
        ("u", [(0, NONE)]),
    ]
    assert driver.fetch() == {"t": {0: 1}}
    driver.leave(member)
    assert codes(delete(driver, ("t", [0]))) == [("t", [(0, NONE)])]
    assert driver.fetch() == {}


@in_loop
async def test_while_nobody_knows_what_members_read_all_offsets_stay() -> None:
    driver = Driver()
    driver.stable(protocols={"range": b"no subscription"})
    assert codes(delete(driver, ("t", [0]))) == [("t", [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)])]


@in_loop
async def test_a_group_that_is_refused_whole() -> None:
    driver = Driver()
    driver.stable(group="connect", protocol_type="connect")
    for group, code in (
        ("nog", ErrorCode.GROUP_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_GROUP_ID),
        ("connect", ErrorCode.NON_EMPTY_GROUP),
    ):
        answer = delete(driver, ("t", [0]), ("nope", [0]), group=group)
        assert (answer.error_code, answer.topics) == (code, [])


@in_loop
async def test_another_brokers_group() -> None:
    driver = Driver()
    driver.broker.log.leaders = [2] * 4
    assert delete(driver, ("t", [0])).error_code == ErrorCode.NOT_COORDINATOR


@in_loop
async def test_a_deletion_that_cannot_be_written_deletes_nothing() -> None:
    driver = Driver()
    driver.commit({0: 1})
    driver.broker.log.fail = StorageError("no space")
    assert delete(driver, ("t", [0])).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.fetch() == {"t": {0: 1}}
