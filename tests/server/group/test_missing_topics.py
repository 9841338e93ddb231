"""Offsets of topics that were deleted while another broker coordinated their groups: who loads a partition removes them."""

from __future__ import annotations

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.errors import NotEnoughReplicas
from ottla.server.group.coordinator import GroupCoordinator
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.records import GroupRecord, OffsetRecord, decode, encode_batch
from ottla.server.group.shard import RETRY_SECONDS
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from ottla.wire.primitives import ZERO_UUID
from tests.server.coordination.memory import TOPICS, CoordinatorLog
from tests.server.group.fakes import Broker, Driver

FORMER = bytes(15) + b"\x99"
"""The id of a topic t that was deleted before the one that is there now was created."""


def committed(topic: str, partition: int, topic_id: bytes = ZERO_UUID, group: str = "g") -> OffsetRecord:
    return OffsetRecord(OffsetCommitKey(group, topic, partition), OffsetCommitValue(offset=7, topic_id=topic_id))


def log_of(*records: GroupRecord) -> CoordinatorLog:
    """A partition in which another broker wrote these records, each a batch."""
    log = CoordinatorLog(partitions=1)
    for record in records:
        log.append(0, encode_batch([record], 0))
    return log


def loaded(log: CoordinatorLog, *, others_coordinate: bool = True) -> Driver:
    """A coordinator that has taken over the partition."""
    broker = Broker(log)
    broker.groups = GroupCoordinator(
        log, broker.clock, GroupCoordinatorConfig(), broker.metadata, broker.random, others_coordinate=others_coordinate
    )
    broker.groups.refresh()
    return Driver(broker)


def left(driver: Driver, group: str = "g") -> list[tuple[str, int]]:
    return driver.broker.groups.shard(group).offsets.keys_of_group(group)


LEFT_BEHIND = [
    committed("gone", 0),
    committed("t", 0),
    committed("gone", 1),
    committed("t", 1, FORMER),
    committed("t", 2, TOPICS["t"][0]),
    committed("also gone", 0, group="h"),
]


def test_who_loads_a_partition_removes_the_offsets_of_topics_that_are_no_more(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = log_of(*LEFT_BEHIND)
    driver = loaded(log)
    assert left(driver) == [("t", 0), ("t", 2)]
    assert left(driver, "h") == []
    assert "partition 0 of __consumer_offsets: removed 4 committed offsets of topics that were deleted earlier" in caplog.messages

    decoded = [decode(key, value) for key, value in log.records()[len(LEFT_BEHIND) :] if key is not None]
    tombstones = [each for each in decoded if isinstance(each, OffsetRecord)]
    assert [(each.key.group, each.key.topic, each.key.partition, each.value) for each in tombstones] == [
        ("g", "gone", 0, None),
        ("g", "gone", 1, None),
        ("g", "t", 1, None),
        ("h", "also gone", 0, None),
    ]
    again = loaded(log)
    assert (left(again), left(again, "h")) == ([("t", 0), ("t", 2)], []), "by records, like every change"
    assert len(log.records()) == len(LEFT_BEHIND) + len(tombstones), "which are written once"


def test_a_broker_that_nobody_takes_over_from_looks_for_nothing() -> None:
    log = log_of(*LEFT_BEHIND)
    loaded(log, others_coordinate=False)
    assert len(log.records()) == len(LEFT_BEHIND)


def test_what_an_open_transaction_may_still_commit_goes_too() -> None:
    log = log_of(committed("t", 0))
    driver = loaded(log)
    shard = driver.broker.groups.shard("g")
    shard.replay(committed("gone", 0), 1, producer_id=9)
    shard.replay(committed("t", 1), 2, producer_id=9)
    shard.delete_missing_topics()
    driver.broker.groups.transaction_ended(0, 9, committed=True)
    assert left(driver) == [("t", 0), ("t", 1)]


def test_they_go_when_enough_replicas_are_in_sync_and_what_is_committed_meanwhile_stays() -> None:
    log = log_of(*LEFT_BEHIND)
    log.fail = NotEnoughReplicas("too few")  # type: ignore[assignment]  # which the real log raises as well
    driver = loaded(log)
    assert ("gone", 0) in left(driver)
    log.fail = None
    driver.broker.metadata.topics["gone"] = driver.broker.metadata.topics["u"]  # created anew
    driver.broker.groups.shard("g").replay(committed("gone", 5), 100)
    driver.clock.advance(RETRY_SECONDS)
    assert left(driver) == [("gone", 5), ("t", 0), ("t", 2)]
    assert left(driver, "h") == []


def test_a_partition_is_served_though_they_cannot_be_removed(caplog: pytest.LogCaptureFixture) -> None:
    log = log_of(*LEFT_BEHIND)
    log.fail = StorageError("no room")
    driver = loaded(log)
    assert ("t", 0) in left(driver)
    assert any("cannot remove the offsets of topics that were deleted earlier" in line for line in caplog.messages)
