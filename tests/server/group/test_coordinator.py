"""These tests cover the partition that a group belongs to, how it is loaded and lost, and appends that fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.log.errors import CorruptLog
from ottla.server.base.randomness import from_seed
from ottla.server.coordination.runtime import LOAD_SLICE_SECONDS
from ottla.server.group.coordinator_config import LEAST_INITIAL_DELAY_MS, GroupCoordinatorConfig
from ottla.server.group.errors import GroupError
from ottla.server.group.records import MetadataRecord, OffsetRecord, encode_batch
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.internal.group_metadata_value import GroupMetadataValue, MemberMetadata
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from tests.in_loop import in_loop
from tests.server.coordination.memory import CoordinatorClock, CoordinatorLog
from tests.server.group.consumer.beats import Beating
from tests.server.group.fakes import Broker, Driver, answer_of


def refused(broker: Broker, group_id: str = "g") -> ErrorCode:
    with pytest.raises(GroupError) as error:
        broker.groups.shard(group_id)
    return error.value.code


@in_loop
async def test_without_the_topic_there_is_no_coordinator() -> None:
    broker = Broker(CoordinatorLog(partitions=0))
    assert refused(broker) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.groups.refresh()
    assert list(broker.groups.all_groups()) == []


@in_loop
async def test_a_partition_of_another_broker() -> None:
    broker = Broker()
    broker.log.leaders = [2, 2, None, 2]
    assert {refused(broker, group_id) for group_id in "abcd"} == {ErrorCode.NOT_COORDINATOR}


@in_loop
async def test_who_loses_the_partition_sends_its_members_away() -> None:
    driver = Driver()
    _, parked = driver.enter()
    member, joined = driver.enter(group="h")
    assert member
    driver.clock.advance(0)
    follower = driver.enter()[1]
    driver.broker.log.leaders = [2] * 4
    driver.broker.groups.refresh()
    assert answer_of(parked).error_code == ErrorCode.NONE
    assert answer_of(joined).error_code == ErrorCode.NONE
    assert answer_of(follower).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.heartbeat(member, 1, group="h") == ErrorCode.NOT_COORDINATOR
    driver.broker.log.leaders = [1] * 4
    assert driver.heartbeat(member, 1, group="h") == ErrorCode.UNKNOWN_MEMBER_ID, "it had not synced, so it is not in the log"


@in_loop
async def test_partitions_are_loaded_one_by_one_as_their_leaders_become_known() -> None:
    driver = Driver()
    driver.commit({0: 1})
    broker = Broker(driver.broker.log)
    partition = broker.groups.partition_for("g")
    broker.groups.follow(partition)
    assert list(broker.groups._shards) == [partition]
    broker.log.leaders[partition] = 2
    broker.groups.follow(partition)
    assert list(broker.groups._shards) == []


@in_loop
async def test_groups_go_with_the_topic_they_are_kept_in() -> None:
    driver = Driver()
    _, parked = driver.enter()
    driver.broker.log.batches.clear()
    driver.broker.log.leaders.clear()
    driver.broker.groups.topic_deleted(CONSUMER_OFFSETS)
    assert answer_of(parked).error_code == ErrorCode.NOT_COORDINATOR
    assert refused(driver.broker) is ErrorCode.COORDINATOR_NOT_AVAILABLE


class SlowLog(CoordinatorLog):
    """A log in which reading a batch takes time."""

    def __init__(self, clock: CoordinatorClock) -> None:
        super().__init__(partitions=1)
        self.clock = clock

    def read(self, partition: int) -> Iterator[bytes]:
        for batch in super().read(partition):
            self.clock.advance(LOAD_SLICE_SECONDS)
            yield batch


def slowly_loaded() -> tuple[Driver, CoordinatorClock]:
    """Returns a coordinator over three commits, each of which takes a whole slice to read."""
    clock = CoordinatorClock()
    writer = Driver(Broker(CoordinatorLog(partitions=1), clock))
    for offset in range(3):
        writer.commit({0: offset})
    slow = SlowLog(clock)
    slow.batches = writer.broker.log.batches
    return Driver(Broker(slow, clock)), clock


@in_loop
async def test_a_long_load_goes_on_in_slices() -> None:
    driver, clock = slowly_loaded()
    assert driver.commit({0: 9}) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert driver.heartbeat("m", 1) == ErrorCode.NONE, "nobody gives up its place because we read"
    driver.broker.groups.topic_deleted("t")
    with pytest.raises(GroupError):
        list(driver.broker.groups.all_groups())
    clock.advance(10)
    assert driver.fetch() == {}, "deleted as soon as it was read"
    assert driver.commit({0: 9}) == [ErrorCode.NONE]


@in_loop
async def test_markers_are_for_partitions_that_are_loaded() -> None:
    """Markers also make the offsets count that their transaction committed."""
    driver, clock = slowly_loaded()
    groups = driver.broker.groups
    assert not groups.is_loaded(0)
    clock.advance(10)
    assert groups.is_loaded(0)
    pending = OffsetRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=7))
    for producer_id in (9, 10):
        groups.shard("g").replay(pending, producer_id, producer_id)
    groups.transaction_ended(0, 9, committed=False)
    assert driver.fetch() == {"t": {0: 2}}
    groups.transaction_ended(0, 10, committed=True)
    assert driver.fetch() == {"t": {0: 7}}
    driver.broker.log.leaders = [2]
    assert not groups.is_loaded(0)


class BrokenLog(CoordinatorLog):
    """A log that cannot be read from its start, or from some batch on."""

    def __init__(self, late: bool) -> None:
        super().__init__(partitions=1)
        self.broken = True
        self.late = late

    def read(self, partition: int) -> Iterator[bytes]:
        if self.broken and not self.late:
            raise CorruptLog("bad segment")
        return self.read_on(partition)

    def read_on(self, partition: int) -> Iterator[bytes]:
        if self.broken:
            raise CorruptLog("bad segment")
        yield from super().read(partition)


@pytest.mark.parametrize("late", [False, True])
@in_loop
async def test_a_partition_that_cannot_be_read_is_tried_again(late: bool) -> None:
    log = BrokenLog(late)
    broker = Broker(log)
    broker.groups.refresh()
    assert refused(broker) is ErrorCode.NOT_COORDINATOR
    log.broken = False
    assert broker.groups.find("g") is None


@in_loop
async def test_a_malformed_batch_is_left_out() -> None:
    driver = Driver(Broker(CoordinatorLog(partitions=1)))
    driver.commit({0: 1})
    driver.commit({0: 2}, group="other")
    batches = driver.broker.log.batches[0]
    batches[0] = batches[0][:-3] + b"\xff\xff\xff"
    again = Driver(driver.broker.restarted())
    assert again.fetch() == {}
    assert again.fetch(group="other") == {"t": {0: 2}}


@in_loop
async def test_a_record_that_no_group_is_like_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """The group is what an earlier record says, and no other group is affected."""
    driver = Driver(Broker(CoordinatorLog(partitions=1)))
    driver.stable()
    driver.commit({0: 2}, group="other")
    member = MemberMetadata("twice", None)
    value = GroupMetadataValue("consumer", 7, "range", "twice", 5, [member, member])
    driver.broker.log.append(0, encode_batch([MetadataRecord(GroupMetadataKey("g"), value)], 1))
    again = Driver(driver.broker.restarted())
    assert "skipped a malformed record at offset " in caplog.text
    assert "two members with the same id" in caplog.text
    assert "Traceback" not in caplog.text
    found = again.group()
    assert (found.generation, len(found.members)) == (1, 1)
    assert again.fetch(group="other") == {"t": {0: 2}}


def test_settings_come_from_the_brokers_by_name() -> None:
    settings = GroupCoordinatorConfig.from_broker(
        {"group.max.size": 3, "offsets.retention.minutes": 2, "offsets.topic.compression.codec": 4, "other": "x"}
    )
    assert settings == GroupCoordinatorConfig(max_size=3, offsets_retention_ms=120_000, offsets_codec=4)
    assert GroupCoordinatorConfig.from_broker({}) == GroupCoordinatorConfig()
    at_once = GroupCoordinatorConfig.from_broker({"group.initial.rebalance.delay.ms": 0})
    assert at_once.initial_rebalance_delay_ms == LEAST_INITIAL_DELAY_MS  # members that start together are one generation


@in_loop
async def test_an_id_that_no_record_can_hold() -> None:
    broker = Broker()
    assert refused(broker, "ä" * 16_384) is ErrorCode.INVALID_GROUP_ID
    assert broker.groups.shard("ä" * 16_383) is not None


@in_loop
async def test_one_seed_gives_the_same_member_ids() -> None:
    def drawn(seed: int) -> list[str]:
        driver = Beating(Broker(random=from_seed(seed)))
        dynamic, _ = driver.enter("classic")
        static = driver.join("static", instance="i")
        driver.clock.advance(1)
        by_consumer_protocol = driver.beat("", group="consumer", version=0)
        return [dynamic, answer_of(static).member_id, by_consumer_protocol.member_id]

    assert drawn(1) == drawn(1)
    assert not set(drawn(1)) & set(drawn(2))
    assert len(set(drawn(1))) == 3
