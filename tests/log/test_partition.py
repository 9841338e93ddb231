"""log/partition.py: appends, reads and their limits, rolling, cutting at both ends, flushing.
Ids are rows of docs/kafka-behaviour.md.
"""

from __future__ import annotations

import errno
from random import Random

import pytest

from ottla.log.errors import (
    InvalidRecord,
    NotValidated,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordListTooLarge,
    StorageError,
)
from ottla.log.management.passes import delete_steps, run_pass
from ottla.log.timestamps import max_timestamp_offset, offset_for_timestamp
from ottla.log.validate import QUICK_BYTES, BatchRules, Origin, validate_for_append
from ottla.wire.batch import iter_batches, read_header
from tests.log.support import NOW_MS, Rig, batch, marker, settings

SIZE = len(batch())


@pytest.fixture
def rig() -> Rig:
    return Rig()


# Appending


def test_offsets_and_epochs_are_stamped_and_nothing_else(rig: Rig) -> None:
    sent = [batch(3), batch(1), batch(2, codec=4)]
    infos = [rig.append(memoryview(bytearray(data)), leader_epoch=7) for data in sent]
    assert [(i.base_offset, i.last_offset, i.log_append_time_ms, i.log_start_offset, i.duplicate) for i in infos] == [
        (0, 2, -1, 0, False),
        (3, 3, -1, 0, False),
        (4, 5, -1, 0, False),
    ]
    stored = list(rig.log.iterate_batches(0))
    assert [read_header(data).base_offset for data in stored] == [0, 3, 4]
    assert {read_header(data).partition_leader_epoch for data in stored} == {7}
    assert [data[16:] for data in stored] == [data[16:] for data in sent]
    assert (rig.log.log_end_offset, rig.log.high_watermark, rig.log.last_stable_offset, rig.log.leader_epoch) == (6, 6, 6, 7)
    assert rig.log.size_bytes == sum(map(len, sent))


def test_the_buffer_is_only_borrowed(rig: Rig) -> None:
    shared = bytearray(1000)
    for value in (b"a" * 50, b"b" * 90):
        data = batch(value=value)
        shared[: len(data)] = data
        rig.append(memoryview(shared)[: len(data)])
        shared[:] = b"\xee" * len(shared)
    assert rig.read() == [0, 1]


def test_a_refused_batch_changes_nothing(rig: Rig) -> None:
    rig.fill(2)
    with pytest.raises(InvalidRecord):
        rig.append(batch(2)[:-1])
    with pytest.raises(InvalidRecord):
        rig.append(b"")
    assert (rig.log.log_end_offset, rig.log.size_bytes) == (2, 2 * SIZE)


def test_a_batch_that_takes_long_is_validated_first_and_appended_then(rig: Rig) -> None:
    large = batch(2, value=Random(1).randbytes(QUICK_BYTES), codec=1)
    with pytest.raises(NotValidated):
        rig.log.append_as_leader(large, leader_epoch=0, quickly=True)
    validated = validate_for_append(large, BatchRules(rig.log.config), NOW_MS)
    rig.log.append_as_leader(batch(3), leader_epoch=0, quickly=True)
    assert (rig.log.log_end_offset, rig.log.size_bytes) == (3, len(batch(3)))
    info = rig.log.append_as_leader(large, leader_epoch=0, quickly=True, validated=validated)
    assert (info.base_offset, info.last_offset, rig.read()) == (3, 4, [0, 1, 2, 3, 4])


def test_a_batch_that_no_segment_holds() -> None:
    rig = Rig(settings(segment_bytes=SIZE))
    rig.append(batch())
    with pytest.raises(RecordListTooLarge):
        rig.append(batch(2))


def test_log_append_time_is_the_brokers() -> None:
    rig = Rig(settings(message_timestamp_type="LogAppendTime"))
    rig.now_ms = NOW_MS + 77
    assert rig.append(batch(timestamp_ms=5)).log_append_time_ms == NOW_MS + 77
    (stored,) = rig.log.iterate_batches(0)
    assert (read_header(stored).base_timestamp, read_header(stored).max_timestamp) == (5, NOW_MS + 77)


def test_a_duplicate_is_answered_with_its_first_offset(rig: Rig) -> None:
    rig.append()
    rig.append(batch(3, producer=(9, 0, 0)))
    again = rig.append(batch(3, producer=(9, 0, 0)))  # I3
    assert (again.base_offset, again.last_offset, again.log_append_time_ms, again.duplicate) == (1, 3, NOW_MS, True)
    with pytest.raises(OutOfOrderSequence):  # I4
        rig.append(batch(producer=(9, 0, 5)))
    assert rig.log.log_end_offset == 4


def test_a_failed_append_leaves_the_producers_as_they_were(rig: Rig) -> None:
    rig.append(batch(producer=(9, 0, 0)))
    rig.memory.fail("append")
    with pytest.raises(StorageError):
        rig.append(batch(producer=(9, 0, 1)))
    state = rig.log.producers.get(9)
    assert state is not None
    assert (state.last_sequence, rig.log.log_end_offset) == (0, 1)


def test_transactions_hold_the_last_stable_offset(rig: Rig) -> None:
    rig.append()
    rig.append(batch(2, producer=(9, 0, 0), transactional=True))
    rig.append()
    assert (rig.log.last_stable_offset, rig.log.high_watermark) == (1, 4)
    rig.log.append_as_leader(marker(9, 0, commit=True), leader_epoch=0, origin=Origin.COORDINATOR)
    assert rig.log.last_stable_offset == rig.log.high_watermark == 5


# A disk that fails


@pytest.mark.parametrize("written", [0, 17, SIZE - 1])
def test_a_write_that_fails_is_cut_back_and_the_directory_stays_offline(rig: Rig, written: int) -> None:
    rig.fill(3)
    rig.memory.fail("append", errno.EIO, path=".log", written=written)
    with pytest.raises(StorageError):
        rig.append()
    assert rig.disk.size(f"{rig.path}/{0:020d}.log") == 3 * SIZE
    for action in (rig.append, lambda: rig.log.read(0, 1, upto=3), rig.log.flush, lambda: offset_for_timestamp(rig.log, 0)):
        with pytest.raises(StorageError, match="offline"):  # never again, although the disk would work now
            action()
    rig.restart(clean=True)  # which it cannot be
    assert rig.manager.previous_broker_epoch is None
    assert rig.read() == [0, 1, 2]
    assert rig.append().base_offset == 3


def test_a_failed_cut_back_is_recovered(rig: Rig) -> None:
    rig.fill(3)
    rig.memory.fail("append", written=50)
    rig.memory.fail("truncate")
    with pytest.raises(StorageError):
        rig.append()
    assert rig.disk.size(f"{rig.path}/{0:020d}.log") == 3 * SIZE + 50
    rig.restart(clean=False)
    assert rig.disk.size(f"{rig.path}/{0:020d}.log") == 3 * SIZE
    assert rig.append().base_offset == 3


def test_a_failed_sync_is_never_retried(rig: Rig) -> None:
    rig.fill(3)
    rig.memory.fail("sync")
    with pytest.raises(StorageError):
        rig.log.flush()
    with pytest.raises(StorageError):
        rig.log.flush()
    assert rig.log.recovery_point == 0


def test_running_out_of_descriptors_is_not_the_disks_fault(rig: Rig) -> None:
    rig.fill(1)
    rig.restart(clean=True)
    rig.log.segments.active.release_file()
    rig.memory.fail("open", errno.EMFILE)
    with pytest.raises(StorageError):
        rig.log.read(0, 1, upto=1)
    assert rig.read() == [0]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_an_append_that_cannot_even_ask_how_old_its_segment_is(rig: Rig, code: int) -> None:
    """Found by the simulated broker: after a restart the age of a segment is read from its file."""
    rig.fill(1)
    rig.restart(clean=True)
    rig.log.segments.active.release_file()
    rig.memory.fail("open", code, path=".log")
    with pytest.raises(StorageError):
        rig.append()
    assert (rig.log.directory.failed is None) == (code == errno.EMFILE)
    if code == errno.EMFILE:
        assert rig.append().base_offset == 1


# Reading


def test_read_gives_from_the_batch_that_holds_the_offset(rig: Rig) -> None:
    rig.fill(3, count=3)
    for offset, base in ((0, 0), (2, 0), (3, 3), (8, 6)):
        found = rig.log.read(offset, 1 << 20, upto=9)
        assert found is not None
        assert [header.base_offset for header, _ in iter_batches(found.read())] == list(range(base, 9, 3))


def test_limits(rig: Rig) -> None:
    rig.fill(4)
    log = rig.log

    def size(offset: int, max_bytes: int, upto: int = 4, *, min_one: bool = True) -> int | None:
        found = log.read(offset, max_bytes, upto=upto, min_one_batch=min_one)
        return len(found) if found is not None else None

    assert size(0, 1 << 30) == 4 * SIZE
    assert size(0, 0) == SIZE  # F12: the first batch comes whole
    assert size(0, SIZE + 62) == SIZE + 62  # F13: cut inside the second
    assert size(0, SIZE - 1, min_one=False) is None  # F15
    assert size(0, SIZE, min_one=False) == SIZE
    assert size(3, 0) == SIZE
    assert size(0, 1 << 30, upto=2) == 2 * SIZE
    assert size(1, 1 << 30, upto=2) == SIZE
    assert size(2, 1 << 30, upto=2) is None
    assert size(3, 1 << 30, upto=2) is None
    assert size(4, 1 << 30) is None  # F29: at the end
    assert size(0, 1 << 30, upto=99) == 4 * SIZE
    for offset in (-1, 5):  # F6, F7
        with pytest.raises(OffsetOutOfRange):
            size(offset, 1)


def test_a_bound_inside_a_batch_leaves_that_batch_out(rig: Rig) -> None:
    rig.fill(2, count=3)
    found = rig.log.read(0, 1 << 20, upto=4)
    assert found is not None
    assert [header.base_offset for header, _ in iter_batches(found.read())] == [0]
    assert rig.log.read(0, 1 << 20, upto=2) is None


def test_an_empty_log(rig: Rig) -> None:
    assert rig.log.read(0, 1, upto=0) is None  # F27
    assert list(rig.log.iterate_batches(0)) == []
    assert max_timestamp_offset(rig.log) is None


def test_tail_reads_from_where_the_last_one_ended(rig: Rig) -> None:
    offset, headers = 0, []
    for _ in range(200):
        rig.append(batch(rig.random.randint(1, 3)))
        end = rig.log.log_end_offset
        if rig.random.random() < 0.6:
            found = rig.log.read(offset, 1 << 20, upto=end)
            assert found is not None
            headers = [header for header, _ in iter_batches(found.read())]
            assert (headers[0].base_offset, headers[-1].next_offset) == (offset, end)
            offset = end
    rig.log.truncate_to(headers[-1].base_offset)
    rig.append(batch(5))
    assert rig.read() == list(range(rig.log.log_end_offset))


def test_a_tail_read_after_a_roll_starts_in_the_new_segment(rig: Rig) -> None:
    rig.fill(3)
    assert rig.log.read(0, 1 << 20, upto=3) is not None  # remembers where offset 3 will be, if nothing rolls
    rig.log.roll()
    rig.fill(2)
    assert rig.read(3) == [3, 4]


def test_reads_go_over_segments() -> None:
    rig = Rig(settings(segment_bytes=3 * SIZE))
    rig.fill(10)
    assert len(rig.log.segments) == 4
    assert rig.read() == list(range(10))
    assert rig.read(max_bytes=0) == list(range(10))
    found = rig.log.read(1, 1 << 20, upto=10)
    assert found is not None
    assert len(found) == 2 * SIZE  # all from one segment
    assert [read_header(data).base_offset for data in rig.log.iterate_batches(4)] == list(range(4, 10))


def test_a_slice_in_flight_survives_deletion_and_rolling() -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(2)
    found = rig.log.read(0, 1 << 20, upto=2)
    assert found is not None
    rig.fill(4)
    rig.log.delete_records_before(4)
    assert rig.log.apply_retention(rig.now_ms) == 2
    run_pass(delete_steps(rig.manager, rig.now_ms + 60_000))
    rig.manager.delete("t", 0)
    run_pass(delete_steps(rig.manager, rig.now_ms + 120_000))
    assert [header.base_offset for header, _ in iter_batches(found.read())] == [0, 1]


# Cutting


def test_delete_records(rig: Rig) -> None:
    rig.fill(10)
    log = rig.log
    assert log.delete_records_before(4) == 4
    assert log.delete_records_before(2) == 4  # DR2
    for offset in (11, -1, -5):  # DR3, DR6
        with pytest.raises(OffsetOutOfRange):
            log.delete_records_before(offset)
    with pytest.raises(OffsetOutOfRange):  # DR7
        log.read(3, 1, upto=10)
    assert log.end_offset_for_epoch(0) == (0, 10)
    assert rig.read(4) == list(range(4, 10))
    assert log.delete_records_before(10) == 10
    assert log.read(10, 1, upto=10) is None


def test_truncation_to_every_offset() -> None:
    for offset in range(12):
        rig = Rig(settings(segment_bytes=3 * SIZE, index_interval_bytes=0))
        for at in range(10):
            rig.append(batch(producer=(9, 0, at)), leader_epoch=at // 4)
        rig.log.flush()
        assert rig.log.truncate_to(offset) == (offset < 10)
        end = min(offset, 10)
        assert (rig.log.log_end_offset, rig.log.high_watermark, rig.log.recovery_point) == (end, end, end)
        assert rig.read() == list(range(end))
        assert rig.log.leader_epoch == ((end - 1) // 4 if end else -1)
        state = rig.log.producers.get(9)
        assert (state.last_sequence if state else -1) == end - 1
        assert rig.append(batch(2, producer=(9, 0, end)), leader_epoch=9).base_offset == end
        rig.restart(clean=offset % 2 == 0)
        assert rig.read() == list(range(end + 2))


def test_truncation_is_durable_when_it_returns() -> None:
    rig = Rig(settings(segment_bytes=3 * SIZE))
    rig.fill(10)
    rig.log.flush()
    rig.memory.trace.clear()
    rig.log.truncate_to(4)
    done = [(what, path.removeprefix(f"{rig.path}/")) for what, path in rig.memory.trace if ".snapshot" not in path]
    assert done[-3:] == [("truncate", f"{3:020d}.log"), ("sync", f"{3:020d}.log"), ("sync_dir", rig.path)]
    assert done.index(("rename", "/data/recovery-point-offset-checkpoint.tmp")) < done.index(("truncate", f"{3:020d}.log"))
    rig.memory.crash()
    rig.start()
    assert rig.read() == [0, 1, 2, 3]


def test_truncation_below_the_start_begins_anew() -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(6)
    rig.log.delete_records_before(5)
    rig.log.apply_retention(rig.now_ms)
    assert rig.bases == [4]
    rig.log.truncate_to(2)
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.bases) == (2, 2, [2])
    rig.fill(1)
    assert rig.read(2) == [2]


# Leader epochs


def test_epochs(rig: Rig) -> None:
    assert rig.log.leader_epoch == -1
    rig.append(leader_epoch=0)
    rig.append(leader_epoch=0)
    rig.log.begin_epoch(3)
    rig.append(leader_epoch=3)
    assert [tuple(entry) for entry in rig.log.epochs.entries] == [(0, 0), (3, 2)]
    assert [rig.log.end_offset_for_epoch(epoch) for epoch in (0, 1, 3, 4)] == [(0, 2), (0, 2), (3, 3), (-1, -1)]
    rig.restart(clean=True)
    assert [tuple(entry) for entry in rig.log.epochs.entries] == [(0, 0), (3, 2)]


# Flushing


def test_flush_moves_the_recovery_point(rig: Rig) -> None:
    rig.fill(5)
    assert (rig.log.unflushed, rig.log.last_flush_ms) == (5, NOW_MS)
    rig.log.flush(3)
    assert (rig.log.recovery_point, rig.log.unflushed) == (3, 2)
    rig.now_ms += 10
    rig.log.flush()
    assert (rig.log.unflushed, rig.log.last_flush_ms) == (0, NOW_MS + 10)
    changes = rig.memory.changes
    rig.log.flush()
    assert rig.memory.changes == changes  # nothing to do


def test_no_append_waits_for_a_flush_of_a_log_that_is_durable_elsewhere() -> None:
    rig = Rig(settings(flush_messages=1))
    rig.append()
    assert rig.log.awaits_flush(1)
    rig.log.assume_flushed()
    assert not rig.log.awaits_flush(1)
    assert rig.log.unflushed == 0


def test_what_was_flushed_survives_power_cuts() -> None:
    for seed in range(20):
        rig = Rig(settings(segment_bytes=3 * SIZE))
        rig.fill(7, producer=None)
        rig.log.flush()
        rig.fill(3)
        rig.memory.crash(Random(seed))
        rig.start()
        assert rig.log.log_end_offset >= 7
        assert rig.read() == list(range(rig.log.log_end_offset))


@pytest.mark.parametrize("flushed", [0, 3])
def test_a_log_that_began_anew_survives_a_power_cut_before_its_flush(flushed: int) -> None:
    """Found by the simulated cluster: the recovery point named what was not durable, so a lost partition.metadata was damage, and
    so was a lost segment."""
    for seed in range(40):
        rig = Rig()
        rig.fill(flushed, producer=None)
        rig.log.flush()
        rig.fill(2)
        rig.log.truncate_fully_and_start_at(9)
        rig.log.directory.save_recovery_points()
        rig.memory.crash(Random(seed))
        rig.start()
        end_offset = rig.log.log_end_offset
        assert end_offset in (0, 9) or flushed <= end_offset <= 5, "it is as it was going to be, empty, or as it was"


def test_flush_messages_leaves_the_flush_to_the_caller() -> None:
    rig = Rig(settings(flush_messages=3))
    rig.fill(2)
    assert (rig.log.awaits_flush(2), rig.log.flush_due(NOW_MS)) == (False, None)
    rig.fill(1)
    assert (rig.log.awaits_flush(3), rig.log.flush_due(NOW_MS)) == (True, 3)
    rig.log.flush()
    assert (rig.log.awaits_flush(3), rig.log.recovery_point) == (False, 3)
    rig.fill(4)
    assert (rig.log.recovery_point, rig.log.flush_due(NOW_MS)) == (3, 7)


def test_flush_ms() -> None:
    rig = Rig(settings(flush_ms=1000))
    assert rig.log.flush_due(NOW_MS + 5000) is None
    rig.fill(1)
    assert rig.log.flush_due(NOW_MS + 999) is None
    assert rig.log.flush_due(NOW_MS + 1000) == 1


def test_a_roll_makes_the_old_segment_due() -> None:
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(5)
    assert rig.log.flush_due(NOW_MS) == 4
    rig.log.flush(4)
    assert (rig.log.flush_due(NOW_MS), rig.log.recovery_point) == (None, 4)


def test_a_job_covers_what_was_there_when_it_started(rig: Rig) -> None:
    rig.fill(2)
    job = rig.log.start_flush()
    assert job is not None
    rig.fill(2)
    job.run()
    job.finish()
    assert rig.log.recovery_point == 2


def test_a_cut_makes_a_running_flush_worthless(rig: Rig) -> None:
    rig.fill(4)
    job = rig.log.start_flush()
    assert job is not None
    job.run()
    rig.log.truncate_to(1)
    rig.fill(5)
    job.finish()
    assert rig.log.recovery_point == 0


def test_a_closed_log_needs_no_recovery(rig: Rig) -> None:
    rig.fill(3)
    log = rig.log
    rig.manager.close()
    assert log.closed
    log.close()
    rig.memory.crash()
    rig.start()
    assert rig.manager.previous_broker_epoch == -1
    assert (rig.log.log_end_offset, rig.log.recovery_point) == (3, 3)


@pytest.mark.parametrize("ending", ["close", "delete", "set_aside"])
def test_nobody_appends_to_a_log_that_is_gone_or_reads_it(rig: Rig, ending: str) -> None:
    rig.fill(3)
    log = rig.log
    getattr(log, ending)()
    before = rig.memory.changes
    with pytest.raises(StorageError, match="t-0 is closed"):
        log.append_as_leader(batch(), leader_epoch=0)
    with pytest.raises(StorageError, match="t-0 is closed"):
        log.read(0, 1000, upto=3)
    assert rig.memory.changes == before
    assert log.directory.failed is None, "the directory is in order"


@pytest.fixture
def batches_with_gap(rig: Rig) -> Rig:
    """A log whose batch 2 is gone, as compaction leaves it."""
    rig.fill(2)
    rig.log.log_end_offset = rig.log.high_watermark = 3
    rig.fill(2)
    return rig


def test_a_gap_is_read_over(batches_with_gap: Rig) -> None:
    found = batches_with_gap.log.read(2, 1 << 20, upto=5)
    assert found is not None
    assert [header.base_offset for header, _ in iter_batches(found.read())] == [3, 4]
