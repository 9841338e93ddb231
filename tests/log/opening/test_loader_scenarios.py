"""The scenarios of Kafka's LogLoaderTest, restated: what a start finds in a partition's directory, and what it makes of it.

Each test names the cases it covers; test_torn_tail.py has testRecoveryOfSegmentWithOffsetOverflow,
testRecoveryAfterCrashDuringSplitPhase1 to 5 and the two testOverCompactedLogRecovery that apply. What does not apply, and why:

- testProducerSnapshotsRecoveryAfterUncleanShutdownV1, testSkipTruncateAndReloadIfOldMessageFormatAndNoCleanShutdown,
  testSkipTruncateAndReloadIfOldMessageFormatAndCleanShutdown, testRebuildTimeIndexForOldMessages,
  testLeaderEpochCacheClearedAfterStaticMessageFormatDowngrade, testOverCompactedLogRecoveryMultiRecordV1: record formats before
  version 2, which this broker neither writes nor reads;
- the half of testLogStartOffsetWhenRemoteStorageIsEnabled with tiered storage, which there is not.

Two things are made differently and asserted as ours: segments that recovery drops are removed at once instead of after
file.delete.delay.ms, since nobody reads yet; and no producer snapshot is taken after each recovered segment, since the state is
built in one pass.
"""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.errors import StorageError
from ottla.log.management.passes import retention_steps, run_pass
from ottla.log.timestamps import offset_for_timestamp
from ottla.log.transactions import append_marker, collect_aborted
from ottla.wire.batch import read_header, stamp
from tests.log.on_disk import SIZE, path, put, recovery_point, rig_of, sound
from tests.log.support import NOW_MS, Rig, batch, last_time_entry, marker, settings

# Clean and unclean stops


def test_the_marker_of_a_clean_stop_is_believed_once() -> None:
    """testCleanShutdownFile, testLogRecoveryIsCalledUponBrokerCrash"""
    rig = rig_of(100)
    rig.manager.close()
    marker_path = "/data/.kafka_cleanshutdown"
    assert rig.disk.exists(marker_path)
    rig.memory.trace.clear()
    rig.start()
    assert rig.memory.trace[0] == ("remove", marker_path)
    assert rig.log.recovery_point == rig.log.log_end_offset == 100  # nothing was read, all counts as flushed
    data = bytearray(rig.disk.read_bytes(path(rig, 95)))
    data[100] ^= 1
    put(rig, 95, bytes(data))
    recovery_point(rig, 0)
    rig.restart(clean=False)
    assert (rig.log.recovery_point, rig.log.log_end_offset) == (0, 95)


def test_a_start_that_fails_leaves_the_next_one_to_recover() -> None:
    """testLogRecoveryIsCalledUponBrokerCrash"""
    rig = rig_of(3)
    rig.manager.close()
    rig.memory.fail("pread", 5, path="00.log")
    with pytest.raises(StorageError):
        rig.start()
    assert rig.manager.directories[0].failed is not None
    assert not rig.disk.exists("/data/.kafka_cleanshutdown")
    rig.manager.close()
    rig.start()
    assert not rig.manager.previous_broker_epoch
    sound(rig, [0, 1, 2], 3)


@pytest.mark.parametrize("point", [100, 10])
def test_a_log_is_the_same_with_and_without_recovery(point: int) -> None:
    """testLogRecoversToCorrectOffset"""
    rig = Rig(settings(segment_bytes=7 * SIZE, index_interval_bytes=3 * SIZE, segment_index_bytes=4096))
    for number in range(100):
        rig.append(batch(timestamp_ms=NOW_MS + number * 10))
    before = rig.log.segments.active
    entries, times = before.offset_index.entries(), before.time_index.entries()
    rig.manager.close(clean=False)
    recovery_point(rig, point)
    rig.start()
    active = rig.log.segments.active
    assert (rig.log.recovery_point, rig.log.log_end_offset) == (point, 100)
    assert active.offset_index.entries() == entries
    assert active.time_index.entries()[: len(times)] == times
    assert last_time_entry(active) == (NOW_MS + 990, 99)
    rig.log.flush()
    assert rig.log.recovery_point == 100


def test_an_empty_active_segment_has_its_files() -> None:
    """testRecoverWithEmptyActiveSegment"""
    rig = rig_of(100, per_segment=7)
    rig.log.roll()
    rig.log.flush()
    rig.manager.checkpoint_pass()
    rig.manager.close(clean=False)
    for suffix in (".index", ".timeindex"):
        rig.disk.remove(path(rig, 100, suffix))
    rig.start()
    assert (rig.log.recovery_point, rig.log.log_end_offset, rig.log.segments.active.time_index.entries()) == (100, 100, [])
    assert {path(rig, 100, suffix).rpartition("/")[2] for suffix in (".log", ".index", ".timeindex")} <= set(rig.names())
    sound(rig, list(range(100)), 100)


# Indexes


@pytest.mark.parametrize("content", [None, b"  ", b"\0" * 24])
@pytest.mark.parametrize("clean", [True, False])
def test_lost_and_broken_indexes_are_built_anew(content: bytes | None, clean: bool) -> None:
    """testIndexRebuild, testCorruptIndexRebuild"""
    rig = rig_of(60)
    rig.manager.close(clean=clean)
    for name in rig.names("index"):
        if content is None:
            rig.disk.remove(f"{rig.path}/{name}")
        else:
            rig.disk.write_bytes(f"{rig.path}/{name}", content)
    rig.start()
    assert len(rig.log.segments.first.offset_index) > 0
    assert len(rig.log.segments.first.time_index) > 0
    for offset in range(60):
        found = rig.log.read(offset, SIZE, upto=60)
        assert found is not None
        assert read_header(found.read()).last_offset == offset
        answer = offset_for_timestamp(rig.log, NOW_MS + offset * 10)
        assert answer is not None
        assert answer.offset == offset


def test_an_index_without_its_log_goes() -> None:
    """testBogusIndexSegmentsAreRemoved"""
    rig = rig_of(0)
    rig.manager.close()
    for suffix in (".index", ".timeindex", ".txnindex"):
        put(rig, 5, b"", suffix=suffix)
    rig.start()
    assert not any(name.startswith(f"{5:020d}") for name in rig.names())
    sound(rig, [], 0)


def test_what_was_deleted_goes() -> None:
    """testOpenDeletesObsoleteFiles"""
    rig = Rig(settings(segment_bytes=5 * SIZE, retention_ms=999))
    rig.fill(100, timestamp_ms=NOW_MS - 1000)
    run_pass(retention_steps(rig.manager, rig.now_ms))
    assert rig.names(".deleted")
    rig.restart(clean=False)
    assert (len(rig.log.segments), rig.names(".deleted")) == (1, [])


# Torn tails


def test_nonsense_behind_the_end_is_cut() -> None:
    """testCorruptLog"""
    for seed in range(20):
        rng = Random(seed)
        rig = rig_of(50 + rng.randrange(50))
        end = rig.log.log_end_offset
        rig.manager.close(clean=False)
        active = rig.bases[-1]
        for suffix in (".log", ".index"):
            old = rig.disk.read_bytes(path(rig, active, suffix))
            put(rig, active, old + rng.randbytes(rng.randint(1, 1024)), suffix=suffix)
        recovery_point(rig, 50)
        rig.start()
        sound(rig, list(range(end)), end)


def test_a_log_can_be_cut_after_it_was_opened_again() -> None:
    """testReopenThenTruncate"""
    rig = rig_of(100)
    rig.restart(clean=False)
    rig.log.truncate_to(3)
    assert len(rig.log.segments) == 1
    sound(rig, [0, 1, 2], 3)


def test_a_log_that_ends_before_its_start_begins_anew() -> None:
    """testLogEndLessThanStartAfterReopen, testCorruptedLogRecoveryDoesNotDeleteProducerStateSnapshotsPostRecovery"""
    rig = rig_of(9, per_segment=1)
    rig.log.roll()
    rig.log.delete_records_before(4)
    rig.manager.checkpoint_pass()
    rig.manager.close(clean=False)
    put(rig, 1, b"corruptRecord")
    recovery_point(rig, 0)
    rig.start()
    assert (rig.bases, rig.log.log_start_offset, rig.log.log_end_offset) == ([4], 4, 4)
    assert {f"{4:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")} <= set(rig.names())
    assert rig.names(".snapshot") == []
    for _ in range(5):
        rig.append()
        rig.log.roll()
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (4, 9)
    assert rig.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in range(5, 10)]
    assert rig.names(".deleted") == []


def test_the_start_is_that_of_the_first_segment() -> None:
    """testLogStartOffsetWhenRemoteStorageIsEnabled, without it"""
    rig = rig_of(9, per_segment=1)
    rig.log.delete_records_before(5)
    run_pass(retention_steps(rig.manager, rig.now_ms))
    rig.manager.close()
    rig.disk.remove("/data/log-start-offset-checkpoint")
    rig.start()
    assert rig.log.log_start_offset == 5


def test_leader_epochs_are_found_in_the_batches() -> None:
    """testLogRecoversForLeaderEpoch"""
    rig = Rig(settings())
    for epoch in (1, 2, 2, 3):
        rig.append(leader_epoch=epoch)
    rig.manager.close(clean=False)
    rig.disk.write_bytes(f"{rig.path}/leader-epoch-checkpoint", b"0\n2\n1 0\n2 1\n")
    rig.start()
    assert [tuple(entry) for entry in rig.log.epochs.entries] == [(1, 0), (2, 1), (3, 3)]


# Producers


def producer(rig: Rig, producer_id: int) -> int | None:
    """The last sequence that the log knows of it."""
    state = rig.log.producers.get(producer_id)
    return None if state is None else state.last_sequence


@pytest.mark.parametrize("kept", [0, 2, 4, 100])
def test_producers_are_the_same_with_few_snapshots_and_many(kept: int) -> None:
    """testProducerSnapshotsRecoveryAfterUncleanShutdownCurrentMessageFormat"""
    rig = Rig(settings(segment_bytes=5 * SIZE))
    for number in range(50):
        rig.append(batch(producer=(number % 3, 0, number // 3)))
    rig.manager.close(clean=False)
    snapshots = rig.names(".snapshot")
    for name in snapshots[: max(len(snapshots) - kept, 0)]:
        rig.disk.remove(f"{rig.path}/{name}")
    point = rig.bases[-4] + 1
    recovery_point(rig, point)
    damaged = path(rig, 0)  # below the recovery point: only its headers are read, and only without a snapshot
    data = bytearray(rig.disk.read_bytes(damaged))
    data[100] ^= 1
    rig.disk.write_bytes(damaged, bytes(data))
    rig.start()
    assert [producer(rig, number) for number in range(3)] == [16, 16, 15]
    assert rig.log.log_end_offset == 50


def test_after_a_clean_stop_the_snapshot_is_enough() -> None:
    """testSkipTruncateAndReloadIfNewMessageFormatAndCleanShutdown"""
    rig = Rig(settings())
    rig.fill(5, producer=(-1, -1, -1))
    rig.append(batch(producer=(7, 0, 0)))
    rig.manager.close()
    put(rig, 6, rig.disk.read_bytes(path(rig, 6, ".snapshot")), suffix=".snapshot")
    rig.memory.fail("truncate", 5)  # nothing is cut, either
    rig.start()
    assert producer(rig, 7) == 0


def test_no_producers_are_no_work() -> None:
    """testSkipLoadingIfEmptyProducerStateBeforeTruncation"""
    rig = Rig(settings())
    rig.restart(clean=False)
    assert (len(rig.log.producers), rig.log.producers.end_offset) == (0, 0)
    rig.fill(2)
    assert rig.log.producers.end_offset == 2
    rig.log.truncate_to(1)
    assert (len(rig.log.producers), rig.log.producers.end_offset) == (0, 1)


def test_a_coordinator_epoch_that_goes_back_is_taken() -> None:
    """testRecoverAfterNonMonotonicCoordinatorEpochWrite"""
    rig = Rig(settings())
    first, second = (marker(1, 0, commit=False, coordinator_epoch=epoch) for epoch in (5, 4))
    put(rig, 0, first, stamp(read_header(second), 1, 0) + second[16:])
    rig.restart(clean=False)
    state = rig.log.producers.get(1)
    assert state is not None
    assert (state.coordinator_epoch, state.last_timestamp_ms, rig.log.log_end_offset) == (4, NOW_MS, 2)


@pytest.mark.parametrize("mid_segment", [True, False])
def test_producers_whose_records_were_deleted(mid_segment: bool) -> None:
    """testLoadProducersAfterDeleteRecordsMidSegment, testLoadProducersAfterDeleteRecordsOnSegment"""
    rig = Rig(settings())
    rig.append(batch(producer=(1, 0, 0)))
    if not mid_segment:
        rig.log.roll()
    rig.append(batch(producer=(2, 0, 0)))
    rig.log.delete_records_before(1)
    run_pass(retention_steps(rig.manager, rig.now_ms))
    assert (producer(rig, 1), producer(rig, 2)) == (0, 0)
    rig.manager.checkpoint_pass()
    rig.manager.close()
    rig.disk.remove("/data/.kafka_cleanshutdown")
    rig.start()
    assert producer(rig, 2) == 0
    assert producer(rig, 1) == 0  # the snapshot of the stop knows it


def test_of_stray_snapshots_the_newest_stays() -> None:
    """testLoadingLogKeepsLargestStrayProducerStateSnapshot"""
    rig = Rig(settings())
    for sequence in range(2):
        rig.append(batch(producer=(1, 0, sequence)))
        rig.log.roll()
    for sequence in (2, 3):
        rig.append(batch(producer=(1, 0, sequence)))
    rig.manager.close()
    put(rig, 3, suffix=".snapshot")
    assert rig.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in (1, 2, 3, 4)]
    rig.disk.remove("/data/.kafka_cleanshutdown")
    rig.start()
    assert rig.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in (1, 2, 4)]
    assert producer(rig, 1) == 3


# Transactions


def rig_of_transactions() -> Rig:
    """Four producers in transactions that overlap, over several segments; those of 1 and 2 are aborted."""
    rig = Rig(settings(segment_bytes=128 * 5))
    sequences = dict.fromkeys(range(1, 5), 0)

    def send(producer_id: int, count: int) -> None:
        rig.append(batch(count, value=b"v", producer=(producer_id, 0, sequences[producer_id]), transactional=True))
        sequences[producer_id] += count

    def plain(count: int) -> None:
        rig.append(batch(count, value=b"v"))

    def end(producer_id: int, *, commit: bool) -> None:
        append_marker(rig.log, producer_id=producer_id, producer_epoch=0, commit=commit, coordinator_epoch=0, leader_epoch=0)

    send(1, 5)
    plain(3)
    send(2, 2)
    send(1, 4)
    send(3, 3)
    plain(2)
    send(1, 10)
    end(1, commit=False)
    send(2, 6)
    send(4, 3)
    plain(10)
    send(3, 9)
    end(3, commit=True)
    send(4, 8)
    send(2, 7)
    end(2, commit=False)
    plain(10)
    send(4, 4)
    end(4, commit=True)
    assert rig.log.log_end_offset == 90
    assert len(rig.log.segments) > 2
    return rig


ABORTED = [(1, 0, 29, 8), (2, 8, 74, 36)]


@pytest.mark.parametrize("snapshots", [True, False], ids=["snapshots", "no snapshots"])
@pytest.mark.parametrize("which", ["all", "last"])
def test_the_transaction_index_is_built_anew(which: str, snapshots: bool) -> None:
    """testFullTransactionIndexRecovery, testRecoverOnlyLastSegment, testRecoverLastSegmentWithNoSnapshots"""
    rig = rig_of_transactions()
    rig.manager.close()
    rig.disk.remove("/data/.kafka_cleanshutdown")
    last = rig.bases[-1]
    recovery_point(rig, 0 if which == "all" else last)
    for name in rig.names():
        lost = name.endswith((".index", ".txnindex")) and (which == "all" or name.startswith(f"{last:020d}"))
        if lost or (name.endswith(".snapshot") and not snapshots):
            rig.disk.remove(f"{rig.path}/{name}")
    rig.config = settings(segment_bytes=1024 * 5)
    rig.start()
    assert [tuple(entry) for entry in collect_aborted(rig.log, 0, 1 << 40)] == ABORTED
    assert rig.log.last_stable_offset == 90
