"""A copy of a log in another directory: it is the log's in everything that counts, whatever the log went through meanwhile."""

from __future__ import annotations

import errno
from random import Random

import pytest

from ottla.log.errors import StorageError
from ottla.log.management.manager import LogManager
from ottla.log.management.moving import FutureLog, create_future, open_future, remove_future
from ottla.log.management.passes import run_pass
from ottla.log.names import future_directory_name, future_name_fits, parse_future_name
from ottla.log.partition import PartitionLog
from ottla.log.transactions import append_marker, collect_aborted
from tests.log.support import NOW_MS, TOPIC_ID, batch, settings
from tests.memdisk import MemDisk

ONE, TWO = "/one", "/two"


class Move:
    """Partition t-0 in /one, and a copy in /two."""

    def __init__(self, **config: object) -> None:
        self.disk = MemDisk(lambda: NOW_MS)
        self.config = settings(**config)
        self.random = Random(1)
        self.open()
        assert self.log.directory.path == ONE

    def open(self) -> None:
        self.manager = LogManager(self.disk, [ONE, TWO], lambda: NOW_MS, self.config, random=self.random)
        self.manager.open_all()
        self.log: PartitionLog = self.manager.create("t", 0, TOPIC_ID, self.config)

    def begin(self) -> FutureLog:
        opening = self.manager.opening_of_future("t", 0, TOPIC_ID)
        self.future = self.manager.futures["t", 0] = create_future(self.manager.directories[1], self.log, opening)
        return self.future

    def step(self) -> bool:
        """Copies one read; False if there is nothing to copy."""
        found = self.future.next_read()
        if found is None:
            return False
        for _ in self.future.take(self.future.read(found)):
            pass
        return True

    def copy(self) -> None:
        """All that there is."""
        while self.step():
            pass

    def finish(self) -> PartitionLog:
        self.copy()
        self.future.settle()
        self.future.swap()
        self.manager.adopt(self.future.log)
        return self.future.log


def append(log: PartitionLog, records: bytes, epoch: int = 0) -> None:
    log.append_as_leader(records, leader_epoch=epoch)


def end(log: PartitionLog, producer_id: int, epoch: int, *, commit: bool) -> None:
    append_marker(
        log, producer_id=producer_id, producer_epoch=epoch, commit=commit, coordinator_epoch=0, leader_epoch=log.leader_epoch
    )


def contents(log: PartitionLog) -> list[bytes]:
    return list(log.iterate_batches(log.log_start_offset))


def test_names() -> None:
    name = future_directory_name("a-1.b", 7, Random(1))
    assert parse_future_name(name) == ("a-1.b", 7)
    assert [parse_future_name(other) for other in ("t-0", "t-0.abc-future", name.replace("-future", "-delete"))] == [None] * 3
    assert len(future_directory_name("x" * 213, 0, Random(1))) == 255
    assert future_name_fits("x" * 213, 0)
    assert not future_name_fits("x" * 214, 0)
    assert not future_name_fits("x" * 213, 10)


def test_segments_epochs_producers_and_aborted_transactions_come_along() -> None:
    move = Move(segment_bytes=2000)
    log = move.log
    for epoch in range(3):
        for number in range(8):
            append(log, batch(2, producer=(7, 0, (epoch * 8 + number) * 2)), epoch)
        append(log, batch(2, producer=(8, epoch, 0), transactional=True), epoch)
        end(log, 8, epoch, commit=epoch == 1)
    log.begin_epoch(5)  # a leader that has written nothing yet
    before, bases = contents(log), [segment.base_offset for segment in log.segments]
    aborted = collect_aborted(log, 0, log.log_end_offset)
    epochs = log.epochs.entries
    move.begin()
    new = move.finish()
    assert contents(new) == before
    assert [segment.base_offset for segment in new.segments] == bases
    assert collect_aborted(new, 0, new.log_end_offset) == aborted
    assert len(aborted) == 2
    assert new.epochs.entries == epochs
    assert new.leader_epoch == 5
    for clean in (False, True):
        move.manager.close(clean)
        move.open()
        again = move.log
        assert again.directory.path == TWO
        assert contents(again) == before
        assert collect_aborted(again, 0, again.log_end_offset) == aborted
        assert again.epochs.entries[:3] == epochs[:3]  # a crash takes an epoch without records
        state = again.producers.get(7)
        assert state is not None
        assert state.last_sequence == 47


def test_a_producer_whose_batches_are_gone_is_still_known() -> None:
    move = Move()
    append(move.log, batch(3, producer=(7, 0, 0)))
    move.log.roll()
    append(move.log, batch(1))
    move.log.delete_records_before(3)
    move.log.apply_retention(NOW_MS)
    move.begin()
    state = move.finish().producers.get(7)
    assert state is not None
    assert state.last_sequence == 2


def test_a_settled_copy_is_durable() -> None:
    move = Move()
    append(move.log, batch(3))
    append(move.log, batch(3), epoch=2)
    before = contents(move.log)
    move.begin()
    move.copy()
    move.future.settle()
    name = move.future.log.path.rpartition("/")[2]
    move.disk.crash()
    move.open()
    opening = move.manager.opening_of_future("t", 0, TOPIC_ID, name)
    found = open_future(move.manager.directories[1], opening, clean=False)
    assert contents(found) == before
    assert found.leader_epoch == 2


def test_what_was_to_be_flushed_before_its_acknowledgement_is_durable_with_the_copy() -> None:
    move = Move(flush_messages=2)
    for _ in range(3):
        append(move.log, batch())
    assert (move.log.high_watermark, move.log.awaits_flush(3)) == (1, True)
    move.begin()
    new = move.finish()
    assert (new.high_watermark, new.awaits_flush(3)) == (3, False)
    assert not move.log.awaits_flush(3), "who waits asks the log to which the record was appended"


def test_a_topic_whose_segments_became_smaller() -> None:
    move = Move()
    for _ in range(9):
        append(move.log, batch(3))
    move.begin().log.config = settings(segment_bytes=1000)
    before = contents(move.log)
    new = move.finish()
    assert len(new.segments) == 5
    assert contents(new) == before


def test_an_open_transaction_stays_open() -> None:
    move = Move()
    append(move.log, batch(2, producer=(8, 0, 0), transactional=True))
    append(move.log, batch(1))
    move.begin()
    new = move.finish()
    assert (new.last_stable_offset, new.high_watermark) == (0, 3)
    end(new, 8, 0, commit=False)
    assert new.last_stable_offset == 4
    assert len(collect_aborted(new, 0, 4)) == 1


def test_what_is_appended_between_two_reads_comes_along() -> None:
    move = Move()
    append(move.log, batch(3))
    move.begin()
    assert move.step()
    assert not move.step()
    assert move.future.log.high_watermark == 3, "as in a log with one replica"
    append(move.log, batch(3))
    assert move.future.lag == 3
    assert contents(move.finish()) == contents(move.future.log)
    assert move.future.log.log_end_offset == 6


@pytest.mark.parametrize("start", [4, 6, 9])
def test_a_log_whose_start_moved_beyond_the_copy(start: int) -> None:
    """Its first segments are gone before they were copied; at 9 everything is."""
    move = Move()
    append(move.log, batch(3))
    move.begin()
    move.step()
    for _ in range(2):
        move.log.roll()
        append(move.log, batch(3))
    if start == 9:
        move.log.roll()
    move.log.delete_records_before(start)
    move.log.apply_retention(NOW_MS)
    move.copy()
    assert move.future.log.high_watermark == 9
    new = move.finish()
    assert (new.log_start_offset, new.log_end_offset) == (start, 9)
    assert len(contents(new)) == (9 - start + 2) // 3
    append(new, batch(1))
    assert new.log_end_offset == 10
    move.manager.close()
    move.open()
    assert (move.log.log_start_offset, move.log.log_end_offset) == (start, 10)


def test_a_copy_that_begins_high_up() -> None:
    """Its first segment has the log's first offset, or the next could not hold the distance."""
    move = Move()
    append(move.log, batch(3))
    move.log.roll()
    append(move.log, batch(3))
    move.log.delete_records_before(3)
    move.log.apply_retention(NOW_MS)
    assert move.begin().log.first_base_offset == 3


def test_a_copy_that_is_longer_than_the_log_is_cut() -> None:
    move = Move()
    append(move.log, batch(3))
    append(move.log, batch(3))
    move.begin()
    move.copy()
    move.log.truncate_to(3)
    assert FutureLog(move.log, move.future.log).log.log_end_offset == 3


def test_a_start_finds_the_copy() -> None:
    move = Move()
    append(move.log, batch(3))
    append(move.log, batch(3))
    move.begin()
    move.copy()
    append(move.log, batch(3))
    move.manager.close()
    move.open()
    directory, name = move.manager.found_futures["t", 0]
    assert directory.path == TWO
    opening = move.manager.opening_of_future("t", 0, TOPIC_ID, name)
    move.future = FutureLog(move.log, open_future(directory, opening, clean=True))
    assert move.future.lag == 3
    assert move.finish().log_end_offset == 9
    assert sorted(name.rpartition("-")[2] for name in move.disk.list(ONE) if move.disk.is_dir(f"{ONE}/{name}")) == ["delete"]


def test_a_copy_is_taken_away() -> None:
    move = Move()
    append(move.log, batch(3))
    move.begin()
    move.manager.close()
    move.open()
    directory, name = move.manager.found_futures["t", 0]
    remove_future(directory, name, NOW_MS)
    assert not [left for left in move.disk.list(TWO) if left.endswith("-future")]
    assert run_pass(directory.removals(NOW_MS)) == 1


def test_a_deleted_partition_takes_its_copy_with_it() -> None:
    move = Move()
    append(move.log, batch(3))
    move.begin()
    move.manager.delete("t", 0)
    assert move.future.is_over()
    assert not [name for path in (ONE, TWO) for name in move.disk.list(path) if name == "t-0" or name.endswith("-future")]


def test_a_deleted_partition_goes_though_the_directory_of_its_copy_failed() -> None:
    move = Move()
    append(move.log, batch(3))
    move.begin()
    move.manager.directories[1].fail("testing", OSError("broken"))
    with pytest.raises(StorageError):
        move.manager.delete("t", 0)
    assert move.log.closed
    assert move.manager.create("t", 0, bytes(reversed(range(16))), move.config).log_end_offset == 0


def test_a_log_that_cannot_be_read_takes_its_directory_offline() -> None:
    move = Move()
    append(move.log, batch(3))
    move.begin()
    found = move.future.next_read()
    assert found is not None
    move.disk.fail("pread", path=ONE)
    with pytest.raises(StorageError):
        move.future.read(found)
    assert [directory.failed is not None for directory in move.manager.directories] == [True, False]


def swap_without_descriptors(path: str) -> Move:
    """A whole copy whose swap fails: the directory at `path` cannot be synced."""
    move = Move()
    append(move.log, batch(3))
    move.begin()
    move.copy()
    move.future.settle()
    move.disk.fail("sync_dir", errno.EMFILE, path=path)
    with pytest.raises(StorageError):
        move.future.swap()
    return move


def test_a_name_that_is_half_given_is_final() -> None:
    """Without descriptors the directory cannot be synced, and nobody knows which name a power cut leaves."""
    move = swap_without_descriptors(TWO)
    assert move.manager.directories[1].failed is not None


def test_a_log_is_not_written_on_under_the_name_of_a_deleted_one() -> None:
    """Without descriptors its new name cannot be synced; the next start would remove it with what came meanwhile."""
    move = swap_without_descriptors(ONE)
    assert move.manager.directories[0].failed is not None
    with pytest.raises(StorageError):
        append(move.log, batch(1))


@pytest.mark.parametrize("directory", [ONE, TWO])
def test_no_room_for_a_checkpoint_leaves_no_log_under_a_copys_name(directory: str) -> None:
    """The next start would take it for a copy, and perhaps another for the log."""
    move = Move()
    append(move.log, batch(3))
    move.manager.directories[0].set_cleaned(("t", 0), 3)
    move.begin()
    move.copy()
    move.future.settle()
    move.disk.fail("write_bytes", errno.ENOSPC, path=f"{directory}/cleaner-offset-checkpoint")
    with pytest.raises(StorageError, match="no room"):
        move.future.swap()
    assert move.log.closed == (directory == ONE)
    plain = [f"{path}/t-0" for path in (ONE, TWO) if move.disk.exists(f"{path}/t-0")]
    assert plain == [move.future.log.path if move.log.closed else move.log.path]


def test_a_disk_that_fails_leaves_the_log_as_it_was() -> None:
    move = Move()
    append(move.log, batch(3))
    move.begin()
    move.disk.fail("append", path=TWO)
    with pytest.raises(StorageError):
        move.finish()
    assert move.manager.directories[1].failed is not None
    append(move.log, batch(3))
    assert move.log.log_end_offset == 6


@pytest.mark.parametrize("seed", range(12))
def test_a_log_that_is_cut_while_it_is_copied(seed: int) -> None:
    """As a follower's log is whose leader was replaced: it loses its end, and goes on with the batches of another epoch."""
    draw = Random(seed)
    move = Move(segment_bytes=600)
    move.begin()
    for epoch in range(6):
        for _ in range(draw.randrange(6)):
            append(move.log, batch(value=b"%d" % epoch * 50), epoch)
        for _ in range(draw.randrange(3)):
            move.step()
        move.log.truncate_to(move.log.log_end_offset - draw.randrange(1 + move.log.log_end_offset))
    append(move.log, batch(), 6)
    expected = contents(move.log)
    copied = move.finish()
    assert contents(copied) == expected
    assert copied.epochs.entries == move.log.epochs.entries


def test_what_was_read_before_a_cut_is_not_copied_after_it() -> None:
    move = Move()
    future = move.begin()
    for _ in range(3):
        append(move.log, batch())
    found = future.next_read()
    assert found is not None
    data = future.read(found)
    move.log.truncate_to(1)
    assert list(future.take(data)) == []
    assert future.log.log_end_offset == 0
    append(move.log, batch(2), 1)
    expected = contents(move.log)
    assert contents(move.finish()) == expected


def test_a_log_that_begins_anew_while_it_is_copied() -> None:
    move = Move()
    move.begin()
    for _ in range(3):
        append(move.log, batch())
    move.copy()
    move.log.truncate_fully_and_start_at(9)
    copied = move.finish()
    assert (copied.log_start_offset, copied.log_end_offset, contents(copied)) == (9, 9, [])
