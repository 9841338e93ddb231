"""OffsetCommit at every version, through the codecs."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.wire.primitives import ZERO_UUID
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS
from tests.server.group.fakes import Broker, Driver
from tests.server.handlers.group_calls import call, versions

UNKNOWN_ID = b"\x01" * 16


def topic(version: int, name: str, topic_id: bytes, *partitions: int) -> OffsetCommitRequestTopic:
    committed = [OffsetCommitRequestPartition(index, 5, 3 if version >= 6 else -1, "m") for index in partitions]
    if version >= 10:
        return OffsetCommitRequestTopic(topic_id=topic_id, partitions=committed)
    return OffsetCommitRequestTopic(name, partitions=committed)


def codes(answer: Any) -> list[list[int]]:
    return [[partition.error_code for partition in each.partitions] for each in answer.topics]


@pytest.mark.parametrize("version", versions("offset_commit"))
@in_loop
async def test_oc7_oc10_oc11_oc13_committing_at_every_version(version: int) -> None:
    broker = Broker()
    topics = [topic(version, "t", TOPICS["t"][0], 0, 1, 7), topic(version, "nope", UNKNOWN_ID, 0)]
    answer = call(broker, "offset_commit", version, OffsetCommitRequest("g", topics=topics))
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == [[missing, 0, 0], [ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else missing]]
    assert [each.topic_id for each in answer.topics] == ([TOPICS["t"][0], UNKNOWN_ID] if version >= 10 else [ZERO_UUID] * 2)
    stored = broker.groups.shard("g").offsets.of_group("g")
    assert {(name, index, each.value.offset) for name, parts in stored.items() for index, each in parts.items()} == {
        ("t", 0, 5),
        ("t", 1, 5),
    }
    assert stored["t"][0].value.topic_id == TOPICS["t"][0], "by name or by id: the id is remembered"
    assert stored["t"][0].value.leader_epoch == (3 if version >= 6 else -1)


@in_loop
async def test_nothing_to_store_is_no_question_to_the_group() -> None:
    broker = Broker()
    request = OffsetCommitRequest("g", 3, "zzz", topics=[topic(9, "nope", UNKNOWN_ID, 0)])
    assert codes(call(broker, "offset_commit", 9, request)) == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]
    assert broker.groups.find("g") is None
    assert call(broker, "offset_commit", 9, OffsetCommitRequest("g")).topics == []


@in_loop
async def test_topics_named_twice_and_topics_without_partitions() -> None:
    broker = Broker()
    known, unknown, none = topic(9, "t", ZERO_UUID, 0), topic(9, "nope", ZERO_UUID), topic(9, "t", ZERO_UUID)
    for topics, wanted in (
        ([known, none, known], [("t", [0]), ("t", [0])]),
        ([none], []),
        ([unknown], [("nope", [])]),
        ([known, unknown, known], [("nope", []), ("t", [0, 0])]),
    ):
        answer = call(broker, "offset_commit", 9, OffsetCommitRequest("g", topics=topics))
        assert list(zip([each.name for each in answer.topics], codes(answer), strict=True)) == wanted


@in_loop
async def test_the_groups_verdict_covers_all_partitions_that_exist() -> None:
    driver = Driver()
    driver.stable()
    request = OffsetCommitRequest("g", 7, "zzz", topics=[topic(9, "t", ZERO_UUID, 0, 7), topic(9, "u", ZERO_UUID, 0)])
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    answer = call(driver.broker, "offset_commit", 9, request)
    assert codes(answer) == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown], [unknown]]
