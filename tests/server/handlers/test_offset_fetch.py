"""OffsetFetch at every version, through the codecs."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.group.records import OffsetRecord
from ottla.server.handlers import offset_fetch as handler
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.primitives import ZERO_UUID
from tests.in_loop import in_loop
from tests.noted import noted
from tests.server.coordination.memory import TOPICS, CoordinatorLog
from tests.server.group.fakes import Broker, Driver
from tests.server.handlers.group_calls import call, versions

UNKNOWN_ID = b"\x01" * 16


def fetch(broker: Broker, version: int, group: str, wanted: dict[str, list[int]] | None, *, stable: bool = False) -> Any:
    """The one group's answer, as [(topic, [(partition, offset, leader epoch, metadata, code)])], and its code."""
    if version >= 8:
        topics = None
        if wanted is not None:
            ids = {name: topic_id for name, (topic_id, _) in TOPICS.items()}
            topics = [
                OffsetFetchRequestTopics(topic_id=ids.get(name, UNKNOWN_ID), partition_indexes=indexes)
                if version >= 10
                else OffsetFetchRequestTopics(name, partition_indexes=indexes)
                for name, indexes in wanted.items()
            ]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=stable)
        (answer,) = call(broker, "offset_fetch", version, request).groups
    else:
        named = None if wanted is None else [OffsetFetchRequestTopic(name, indexes) for name, indexes in wanted.items()]
        request = OffsetFetchRequest(group, named, require_stable=stable and version >= 7)
        answer = call(broker, "offset_fetch", version, request)
    names = {topic_id: name for name, (topic_id, _) in TOPICS.items()}
    return [
        (
            names.get(topic.topic_id, "unknown id") if version >= 10 else topic.name,
            [
                (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code)
                for each in topic.partitions
            ],
        )
        for topic in answer.topics
    ], answer.error_code


@pytest.mark.parametrize("version", versions("offset_fetch"))
@in_loop
async def test_of2_of7_fetching_at_every_version(version: int) -> None:
    driver = Driver()
    driver.commit({0: 5}, metadata="m")
    answer = fetch(driver.broker, version, "g", {"t": [0, 1]})
    assert answer == ([("t", [(0, 5, -1, "m", 0), (1, -1, -1, "", 0)])], 0)
    assert fetch(driver.broker, version, "nog", {"t": [0]}) == ([("t", [(0, -1, -1, "", 0)])], 0)


@pytest.mark.parametrize("version", versions("offset_fetch")[1:])
@in_loop
async def test_of4_of6_all_topics_at_every_version(version: int) -> None:
    driver = Driver()
    driver.commit({0: 5})
    assert fetch(driver.broker, version, "g", None) == ([("t", [(0, 5, -1, "", 0)])], 0)
    assert fetch(driver.broker, version, "nog", None) == ([], 0)


@in_loop
async def test_of3_an_unknown_topic_by_name() -> None:
    assert fetch(Broker(), 8, "g", {"nope": [0]}) == ([("nope", [(0, -1, -1, "", 0)])], 0)


@in_loop
async def test_of8_an_unknown_topic_by_id() -> None:
    driver = Driver()
    driver.commit({0: 5})
    answer = fetch(driver.broker, 10, "g", {"nope": [0, 2], "t": [0]})
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert answer == ([("unknown id", [(0, -1, -1, "", unknown), (2, -1, -1, "", unknown)]), ("t", [(0, 5, -1, "", 0)])], 0)


@in_loop
async def test_a_topic_that_is_gone_has_no_id_to_be_named_by() -> None:
    driver = Driver()
    driver.commit({0: 5})
    image = driver.broker.metadata.topics.pop("t")
    del driver.broker.metadata.topics_by_id[image.topic_id]
    assert fetch(driver.broker, 10, "g", None) == ([], 0)
    assert fetch(driver.broker, 9, "g", None) == ([("t", [(0, 5, -1, "", 0)])], 0)


@pytest.mark.parametrize("version", versions("offset_fetch"))
@in_loop
async def test_no_coordinator_at_every_version(version: int) -> None:
    topics, code = fetch(Broker(CoordinatorLog(partitions=0)), version, "g", {"t": [0]})
    missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if version == 1:
        assert (topics, code) == ([("t", [(0, -1, -1, "", missing)])], 0), "it has no code of its own"
    else:
        assert (topics, code) == ([], missing)


@in_loop
async def test_several_groups() -> None:
    driver = Driver()
    driver.commit({0: 5})
    groups = [OffsetFetchRequestGroup(name, topics=None) for name in ("g", "nog", "")]
    answer = call(driver.broker, "offset_fetch", 9, OffsetFetchRequest(groups=groups))
    assert [(each.group_id, len(each.topics), each.error_code) for each in answer.groups] == [
        ("g", 1, 0),
        ("nog", 0, 0),
        ("", 0, 0),
    ]


@pytest.mark.parametrize("version", [7, 8, 9, 10])
@in_loop
async def test_t21_t22_an_open_transaction(version: int) -> None:
    driver = Driver()
    driver.commit({0: 5})
    pending = OffsetRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(9, -1, "", 0, -1, ZERO_UUID))
    driver.broker.groups.shard("g").replay(pending, 10, producer_id=4)
    unstable = (0, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetch(driver.broker, version, "g", {"t": [0, 1]}, stable=True)[0] == [("t", [unstable, (1, -1, -1, "", 0)])]
    assert fetch(driver.broker, version, "g", None, stable=True)[0] == [("t", [unstable])]
    assert fetch(driver.broker, version, "g", {"t": [0]})[0] == [("t", [(0, 5, -1, "", 0)])]


@pytest.mark.parametrize("version", [8, 9, 10])
@in_loop
async def test_all_offsets_of_a_group_that_is_named_again_are_looked_up_once(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered each time all the same, as by Kafka. A member that asks is another question."""
    looked: list[str] = []
    monkeypatch.setattr(handler, "_all_committed", noted(looked, handler._all_committed, 1))
    driver = Driver()
    driver.commit({0: 5})
    asked = [OffsetFetchRequestGroup(group, topics=None) for group in ("g", "nog", "g", "g")]
    if version >= 9:
        asked.append(OffsetFetchRequestGroup("g", "m", 3, topics=None))
    answer = call(driver.broker, "offset_fetch", version, OffsetFetchRequest(groups=asked))
    assert [each.group_id for each in answer.groups] == [each.group_id for each in asked]
    first, nothing, *again = answer.groups
    assert [each.committed_offset for topic in first.topics for each in topic.partitions] == [5]
    assert nothing.topics == []
    assert again == [first] * len(again)
    assert looked == ["g", "nog"] + ["g"] * (version >= 9)
