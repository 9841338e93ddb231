"""These tests cover the life of share partitions: initialized, read, written, fenced, loaded again, pruned and deleted."""

from __future__ import annotations

import pytest

from ottla.log.errors import StorageError
from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.coordinator import Summary
from ottla.server.share_state.shard import ShareStateShard
from ottla.server.share_state.state import SharePartition
from ottla.wire.errors import ErrorCode
from tests.server.coordination.memory import slow_ticks
from tests.server.share_state.fakes import NAME, TOPIC_ID, Driver, ShareLog, refused

OTHER = SharePartition("g", TOPIC_ID, 1)
UNKNOWN = SharePartition("g", bytes(16), 0)
MINUS = SharePartition("g", TOPIC_ID, -1)


# Beginning


def test_what_was_begun_can_be_read() -> None:
    driver = Driver()
    driver.begin(start_offset=17)
    assert driver.coordinator.read(*NAME, 0) == (1, 17, 0, ())
    driver.begin(OTHER, start_offset=-1)
    assert driver.coordinator.read(*OTHER, 0) == (1, -1, -1, ())


def test_what_was_not_begun_can_be_neither_read_nor_written() -> None:
    driver = Driver()
    assert refused(lambda: driver.coordinator.read(*NAME, 0)) is ErrorCode.INVALID_REQUEST
    assert refused(lambda: driver.write((0, 1, 1, 2))) is ErrorCode.INVALID_REQUEST
    assert driver.coordinator.read_summary(*NAME) == Summary(0, 0, -1, -1)


def test_names_that_cannot_be() -> None:
    driver = Driver()
    assert refused(lambda: driver.begin(UNKNOWN)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(lambda: driver.begin(SharePartition("g", TOPIC_ID, 3))) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(lambda: driver.coordinator.read_summary(*UNKNOWN)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    driver.begin()
    operations = (
        lambda: driver.begin(state_epoch=-1),
        lambda: driver.write(state_epoch=-1),
        lambda: driver.write(leader_epoch=-1),
        lambda: driver.coordinator.read(*NAME, -1),
        lambda: driver.begin(MINUS),
        lambda: driver.write(name=MINUS),
        lambda: driver.coordinator.read(*MINUS, 0),
        lambda: driver.coordinator.read_summary(*MINUS),
        lambda: driver.coordinator.delete(*MINUS),
    )
    assert refused(lambda: driver.coordinator.delete(*UNKNOWN)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for operation in operations:
        assert refused(operation) is ErrorCode.INVALID_REQUEST


def test_beginning_again_forgets_everything_and_needs_a_state_epoch_that_is_not_lower() -> None:
    driver = Driver()
    driver.begin(state_epoch=5)
    driver.write((0, 3, 1, 2), state_epoch=5)
    assert refused(lambda: driver.begin(state_epoch=4)) is ErrorCode.FENCED_STATE_EPOCH
    driver.begin(state_epoch=6, start_offset=40)
    assert driver.now()[:4] == (1, 6, 0, 40)
    assert driver.now().batches == ()
    assert refused(lambda: driver.write(state_epoch=5)) is ErrorCode.FENCED_STATE_EPOCH


# Writing


def test_writes_are_laid_over_each_other() -> None:
    driver = Driver()
    driver.begin()
    driver.write((0, 4, 1, 2), (5, 9, 1, 0), complete=5)
    driver.write((5, 6, 2, 2), start_offset=5, complete=2)
    assert driver.coordinator.read(*NAME, 1) == (1, 5, 2, (StateBatch(5, 6, 2, 2), StateBatch(7, 9, 1, 0)))
    assert driver.coordinator.read_summary(*NAME) == Summary(1, 1, 5, 2)
    driver.coordinator.read(*NAME, 2)
    assert driver.coordinator.read_summary(*NAME) == Summary(1, 2, 5, 2)


def test_a_write_that_is_late_takes_nothing_back() -> None:
    driver = Driver()
    driver.begin(start_offset=3)
    driver.write((4, 4, 1, 2), start_offset=-1, complete=7)
    assert driver.now()[3:6] == (3, 0, (StateBatch(4, 4, 1, 2),))
    driver.write(start_offset=1, complete=9)
    assert driver.now()[3:5] == (3, 0)
    driver.write(start_offset=3, complete=2)
    driver.write(start_offset=3, complete=1)
    assert driver.now().delivery_complete_count == 2
    driver.write(start_offset=5, complete=1)
    assert driver.now()[3:6] == (5, 1, ())


def test_a_batch_that_ends_before_it_begins() -> None:
    driver = Driver()
    driver.begin()
    assert refused(lambda: driver.write((0, 1, 1, 2), (9, 8, 1, 2))) is ErrorCode.INVALID_REQUEST
    assert driver.now().batches == ()


def test_leaders_fence_those_before_them() -> None:
    driver = Driver()
    driver.begin()
    driver.coordinator.read(*NAME, 4)
    assert refused(lambda: driver.coordinator.read(*NAME, 3)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(lambda: driver.write(leader_epoch=3)) is ErrorCode.FENCED_LEADER_EPOCH
    driver.write(leader_epoch=5)
    driver.write(leader_epoch=4)
    driver.coordinator.read(*NAME, 5)
    assert refused(lambda: driver.restarted().write(leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    written = driver.offsets()[1]
    driver.coordinator.read(*NAME, 5)
    assert driver.offsets()[1] == written, "nothing new, nothing to write"


def test_every_so_many_updates_a_snapshot() -> None:
    driver = Driver(updates_per_snapshot=2)
    driver.begin()
    epochs = []
    for offset in range(7):
        driver.write((offset, offset, 1, 2), start_offset=-1)
        epochs.append(driver.now().snapshot_epoch)
    assert epochs == [0, 0, 1, 1, 1, 2, 2]
    assert driver.now().batches == (StateBatch(0, 6, 1, 2),)


def test_what_cannot_be_written_changes_nothing() -> None:
    driver = Driver()
    driver.begin()
    driver.log.fail = StorageError("gone")
    before = driver.now()
    assert refused(lambda: driver.write((0, 1, 1, 2))) is ErrorCode.NOT_COORDINATOR
    assert refused(lambda: driver.coordinator.delete(*NAME)) is ErrorCode.NOT_COORDINATOR
    assert driver.now() == before


# Loading


@pytest.mark.parametrize("updates_per_snapshot", [0, 2, 500])
def test_a_restart_finds_everything(updates_per_snapshot: int) -> None:
    driver = Driver(updates_per_snapshot=updates_per_snapshot)
    for name in (NAME, OTHER):
        driver.begin(name)
        for offset in range(5):
            driver.write((offset, offset + 2, 1 + offset % 2, 2), name=name, start_offset=offset // 2, complete=offset)
            assert driver.restarted().now(name) == driver.now(name)
    driver.coordinator.delete(*OTHER)
    restarted = driver.restarted()
    assert restarted.coordinator.find(OTHER) is None
    assert restarted.now() == driver.now()


def test_compressed_records_are_found_as_well() -> None:
    driver = Driver(codec=1)
    driver.begin()
    driver.write((0, 9, 1, 2))
    assert driver.restarted().now() == driver.now()
    assert all(batch[22] & 7 == 1 for batches in driver.log.batches for batch in batches), "gzip"


def test_a_batch_that_nobody_can_read_is_left_out() -> None:
    driver = Driver()
    driver.begin()
    partition = driver.coordinator.partition_for(NAME)
    good = driver.log.batches[partition][0]
    driver.log.batches[partition].insert(0, good[:61] + b"\x7f" * (len(good) - 61))
    assert driver.restarted().now().start_offset == 0


def test_a_request_to_the_wrong_coordinator_is_refused() -> None:
    driver = Driver()
    driver.log.leaders = [99] * 4
    assert refused(driver.begin) is ErrorCode.NOT_COORDINATOR
    nowhere = Driver(ShareLog(partitions=0))
    assert refused(nowhere.begin) is ErrorCode.NOT_COORDINATOR
    assert not nowhere.coordinator.has_topic()
    assert nowhere.created == 1
    assert driver.coordinator.has_topic()
    assert driver.created == 0


# Forgetting


def test_what_is_deleted_can_begin_anew() -> None:
    driver = Driver()
    driver.begin(state_epoch=9)
    driver.coordinator.delete(*NAME)
    driver.coordinator.delete(*NAME)
    assert driver.coordinator.find(NAME) is None
    driver.begin(state_epoch=1)
    assert driver.now().snapshot_epoch == 0


def test_a_deleted_topic_takes_its_state_along() -> None:
    driver = Driver()
    driver.begin()
    driver.begin(OTHER)
    del driver.topics[TOPIC_ID]
    driver.coordinator.topic_deleted("t")
    driver.clock.advance(0)
    assert driver.coordinator.find(NAME) is None
    assert driver.restarted().coordinator.find(OTHER) is None


def test_many_topics_that_are_deleted_together_cost_one_look_at_each_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, looks = Driver(ShareLog(partitions=1)), list[object]()
    driver.begin()
    monkeypatch.setattr(ShareStateShard, "forget_missing", looks.append)
    for number in range(100):
        driver.coordinator.topic_deleted(f"t{number}")
    driver.clock.advance(0)
    assert len(looks) == 1
    driver.coordinator.topic_deleted("t")
    driver.clock.advance(0)
    assert len(looks) == 2


@pytest.mark.parametrize("loading", [False, True])
def test_what_is_left_of_a_topic_that_was_deleted_while_nobody_looked_goes_when_it_is_loaded(*, loading: bool) -> None:
    """The broker was killed after the deletion, or was loading the shard then."""
    driver = Driver()
    driver.begin()
    driver.begin(OTHER)
    topics = driver.topics
    if loading:
        driver.clock.ticks_ns = slow_ticks()  # type: ignore[method-assign]  # of this clock only
        driver = driver.restarted()
        assert refused(lambda: driver.coordinator.find(NAME)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        del topics[TOPIC_ID]
        driver.coordinator.topic_deleted("t")
        for _ in range(9):
            driver.clock.advance(0)
    else:
        del topics[TOPIC_ID]
        driver = driver.restarted()
    assert (driver.coordinator.find(NAME), driver.coordinator.find(OTHER)) == (None, None)
    written = len(driver.log.records())
    driver.restarted()
    assert len(driver.log.records()) == written, "they are gone by records, which are written once"


# Pruning


def test_the_log_begins_at_the_oldest_snapshot_that_counts() -> None:
    driver = Driver(ShareLog(partitions=1), updates_per_snapshot=1)
    driver.begin()
    driver.begin(OTHER)
    for _ in range(4):
        driver.write((0, 0, 1, 2), start_offset=-1)
    driver.coordinator.prune()
    assert driver.offsets()[0] == 1, "the other was not written again"
    pruned: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver.log, "delete_before", lambda _partition, offset: pruned.append(offset))
        driver.coordinator.prune()
    assert pruned == [], "nothing has come since"
    driver.begin(OTHER, state_epoch=2)
    driver.coordinator.prune()
    assert driver.offsets()[0] == 5
    assert driver.restarted().now() == driver.now()
    assert driver.restarted().now(OTHER) == driver.now(OTHER)
    driver.coordinator.delete(*NAME)
    driver.coordinator.delete(*OTHER)
    driver.coordinator.prune()
    assert driver.offsets() == (8, 9), "the last tombstone stays"
    driver.coordinator.prune()
    assert driver.offsets() == (8, 9)


def test_cold_share_partitions_are_written_anew_while_others_live() -> None:
    driver = Driver(ShareLog(partitions=1), updates_per_snapshot=0, cold_interval_ms=1000)
    driver.begin()
    driver.begin(OTHER)
    driver.clock.advance(2)
    driver.write((0, 0, 1, 2))
    driver.coordinator.snapshot_cold()
    assert driver.now(OTHER).snapshot_epoch == 1
    assert driver.now(OTHER).written_ms - driver.now(OTHER).created_ms == 2000
    assert driver.now().snapshot_epoch == 1, "not cold"
    driver.coordinator.prune()
    assert driver.offsets() == (2, 4)
    driver.clock.advance(2)
    driver.coordinator.snapshot_cold()
    assert driver.now().snapshot_epoch == 2
    written = driver.offsets()[1]
    driver.clock.advance(2)
    driver.coordinator.snapshot_cold()
    assert driver.offsets()[1] == written, "nobody writes any more: nothing is won"


def test_passes_outlive_a_log_that_refuses() -> None:
    driver = Driver(ShareLog(partitions=1), cold_interval_ms=0, updates_per_snapshot=0)
    driver.begin()
    driver.write((0, 0, 1, 2))
    driver.log.fail = StorageError("gone")
    driver.coordinator.snapshot_cold()
    driver.coordinator.prune()
    del driver.topics[TOPIC_ID]
    driver.coordinator.topic_deleted("t")
    driver.clock.advance(0)
    assert driver.now().snapshot_epoch == 1


def test_passes_take_a_shard_a_step() -> None:
    driver = Driver(ShareLog(partitions=20), cold_interval_ms=0, updates_per_snapshot=0)
    for number in range(3):
        driver.begin(SharePartition("g", TOPIC_ID, number))
    driver.clock.advance(1)
    places = {driver.coordinator.partition_for(SharePartition("g", TOPIC_ID, number)) for number in range(3)}
    assert len(places) > 1
    before = len(driver.log.records())
    driver.clock.ticks_ns = slow_ticks()  # type: ignore[method-assign]  # of this clock only
    driver.coordinator.snapshot_cold()
    assert len(driver.log.records()) - before < 3
    driver.clock.advance(0)
    assert len(driver.log.records()) - before == 3
