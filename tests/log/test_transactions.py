"""log/transactions.py: aborted transactions through a whole log: append, roll, truncate, restart, crash, and bad index files."""

from __future__ import annotations

import errno
from random import Random

import pytest

from ottla.log.disk.files import FileSlice
from ottla.log.errors import InvalidProducerEpoch, StorageError
from ottla.log.transactions import aborted_in_read, append_marker, collect_aborted
from ottla.log.txn_index import TXN_ENTRY_SIZE, AbortedTransaction, load_txn_index
from ottla.log.validate import Origin
from tests.log.support import Rig, batch, marker, settings


class Transactions(Rig):
    """Producers by number; each sends batches of one record and ends its transaction."""

    def begin(self) -> None:
        self.sequences: dict[int, int] = {}

    def send(self, producer_id: int, count: int = 1, *, value: bytes = b"v" * 100, transactional: bool = True) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + count
        self.append(batch(count, producer=(producer_id, 0, sequence), transactional=transactional, value=value))

    def end(self, producer_id: int, *, commit: bool = False) -> None:
        append_marker(self.log, producer_id=producer_id, producer_epoch=0, commit=commit, coordinator_epoch=3, leader_epoch=0)

    def aborted(self, fetch_offset: int = 0, upto: int = 1 << 40) -> list[AbortedTransaction]:
        return collect_aborted(self.log, fetch_offset, upto)

    def file_entries(self, base_offset: int) -> list[AbortedTransaction]:
        return list(load_txn_index(self.disk, f"{self.path}/{base_offset:020d}.txnindex", base_offset))


def rig(**changes: object) -> Transactions:
    made = Transactions(settings(**changes))
    made.begin()
    return made


def three_segments() -> Transactions:
    """1 begins in the first segment and is aborted in the second, where 2 begins; 2 is aborted in the third. 3 commits."""
    made = rig()
    made.send(1)  # 0
    made.send(3)  # 1
    made.log.roll()
    made.send(2)  # 2
    made.end(1)  # 3
    made.end(3, commit=True)  # 4
    made.log.roll()
    made.end(2)  # 5
    made.send(4, transactional=False)  # 6
    return made


OF_1 = AbortedTransaction(1, 0, 3, 1)  # 3 was open then, from offset 1 on
OF_2 = AbortedTransaction(2, 2, 5, 6)


def test_an_aborted_transaction_is_found_by_who_reads_its_records() -> None:
    log = three_segments()
    assert log.aborted() == [OF_1, OF_2]
    assert log.aborted(0, 1) == [OF_1]
    assert log.aborted(1, 2) == [OF_1]
    assert log.aborted(4, 6) == [OF_2]
    assert log.aborted(6, 7) == []
    assert log.log.last_stable_offset == 7


def test_the_search_stops_where_everything_below_was_decided() -> None:
    log = rig()
    log.send(1)
    log.end(1)
    log.log.roll()
    log.send(2)
    log.end(2)
    log.disk.write_bytes(f"{log.path}/{2:020d}.txnindex", b"read this and fail")
    log.log.segments[1].reset_txn_index()
    assert log.aborted(0, 2) == [AbortedTransaction(1, 0, 1, 2)]


def test_the_file_comes_with_the_first_abort_and_goes_with_the_last() -> None:
    log = rig()
    log.send(1)
    log.end(1, commit=True)
    log.log.roll()
    assert not log.names(".txnindex")
    log.send(1)
    log.end(1)
    log.log.roll()
    assert log.names(".txnindex") == [f"{2:020d}.txnindex"]
    assert log.disk.size(f"{log.path}/{2:020d}.txnindex") == TXN_ENTRY_SIZE
    log.log.truncate_to(3)
    log.restart(clean=True)
    assert not log.names(".txnindex")
    log.send(1)
    log.end(1)
    log.restart(clean=True)
    assert log.names(".txnindex") == [f"{2:020d}.txnindex"]


def test_an_empty_file_as_kafka_leaves_it_is_rebuilt_once(caplog: pytest.LogCaptureFixture) -> None:
    log = rig()
    log.send(1)
    log.end(1, commit=True)
    log.log.roll()
    log.manager.close()
    log.disk.write_bytes(f"{log.path}/{0:020d}.txnindex", b"")
    log.start()
    for _ in range(3):
        assert log.aborted(0) == []
        log.restart(clean=True)
    assert caplog.text.count("the file is empty") == 1


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_keeps_them(clean: bool) -> None:
    log = three_segments()
    log.restart(clean=clean)
    assert log.aborted() == [OF_1, OF_2]
    log.log.close()
    assert log.file_entries(2) == [OF_1]
    assert log.file_entries(5) == [OF_2]


def test_recovery_builds_the_index_of_every_segment_that_it_reads() -> None:
    """Also of those that a crash left with the entries of a tail that is gone, and of those whose transaction began earlier."""
    log = three_segments()
    log.log.flush(2)
    log.manager.close(False)
    for base in (0, 2, 5):
        log.disk.write_bytes(f"{log.path}/{base:020d}.txnindex", b"\0\0" + b"\0" * 31 + b"\7")
    log.start()
    assert log.aborted(2) == [OF_1, OF_2]
    log.log.flush()
    assert log.file_entries(2) == [OF_1], "an inactive segment's index is on disk before the recovery point passes it"


@pytest.mark.parametrize("garbage", [b"x", b"\xff" * 34, bytes(68), Random(5).randbytes(340)])
def test_a_bad_file_is_rebuilt_when_it_is_needed(garbage: bytes) -> None:
    log = three_segments()
    log.manager.close()
    log.disk.write_bytes(f"{log.path}/{2:020d}.txnindex", garbage)
    log.disk.write_bytes(f"{log.path}/{5:020d}.txnindex", garbage)
    log.start()
    assert log.aborted() == [OF_1, OF_2]
    log.restart(clean=True)
    assert log.file_entries(2) == [OF_1]


def test_a_marker_that_meets_a_bad_file_is_in_the_rebuilt_one_once() -> None:
    log = three_segments()
    log.send(2)  # 7
    log.manager.close()
    log.disk.write_bytes(f"{log.path}/{5:020d}.txnindex", b"?")
    log.start()
    log.end(2)
    assert log.aborted() == [OF_1, OF_2, AbortedTransaction(2, 7, 8, 9)]


def test_a_bad_file_is_rebuilt_without_any_snapshot() -> None:
    log = three_segments()
    log.manager.close()
    for name in log.names(".snapshot"):
        log.disk.remove(f"{log.path}/{name}")
    log.disk.write_bytes(f"{log.path}/{5:020d}.txnindex", b"?")
    log.start()
    assert log.aborted() == [OF_1, OF_2]


def test_truncation_takes_entries_back_and_opens_the_transaction_again() -> None:
    log = three_segments()
    log.log.truncate_to(3)
    assert log.aborted() == []
    assert log.log.last_stable_offset == 0
    log.end(3, commit=True)
    log.end(1)
    assert log.aborted() == [AbortedTransaction(1, 0, 4, 2)]
    log.restart(clean=False)
    assert log.aborted() == [AbortedTransaction(1, 0, 4, 2)]


def test_retention_takes_the_index_with_its_segment() -> None:
    log = three_segments()
    log.log.delete_records_before(5)
    log.log.apply_retention(log.now_ms)
    assert not [name for name in log.names(".txnindex") if name.startswith(f"{2:020d}")]
    assert log.aborted(5) == [OF_2]
    log.restart(clean=True)
    assert log.aborted(5) == [OF_2]
    log.restart(clean=False)
    assert log.aborted(5) == [], "as in Kafka: nobody can read the records, and the log cannot tell of them"


def test_deleted_records_do_not_hold_the_last_stable_offset_back() -> None:
    log = rig()
    log.send(1, 10)
    log.send(2, transactional=False)
    assert log.log.last_stable_offset == 0
    log.log.delete_records_before(5)
    assert log.log.last_stable_offset == 5
    log.end(1)
    assert log.log.last_stable_offset == 12
    assert log.aborted(5) == [AbortedTransaction(1, 0, 11, 12)]


def test_a_decided_transaction_is_unstable_until_its_marker_is_everywhere() -> None:
    log = rig()
    log.log.replicate_by(lambda end_offset: True)  # other replicas count
    log.send(1)  # 0
    log.send(2)  # 1
    log.end(2)  # 2
    log.end(1, commit=True)  # 3
    stable = []
    for high_watermark in range(5):
        log.log.raise_high_watermark(high_watermark)
        stable.append(log.log.last_stable_offset)
    assert stable == [0, 0, 0, 0, 4]


def test_what_was_stable_is_not_remembered() -> None:
    """Nobody reads this log; still nothing piles up."""
    log = rig()
    for _ in range(10):
        log.send(1)
        log.end(1)
    assert len(log.log.producers._unreplicated) <= 1


def read(log: Transactions, fetch_offset: int, max_bytes: int) -> FileSlice:
    found = log.log.read(fetch_offset, max_bytes, upto=log.log.last_stable_offset)
    assert found is not None
    return found


def test_a_read_lists_the_transactions_that_overlap_its_records() -> None:
    """Up to the next entry of the offset index, as in Kafka: there is one a batch here."""
    log = rig(index_interval_bytes=1)
    for producer_id in (1, 2, 3):
        log.send(producer_id)
        log.end(producer_id)
    heard = [[entry.producer_id for entry in aborted_in_read(log.log, offset, read(log, offset, 1))] for offset in range(6)]
    assert heard == [[1], [1], [2], [2], [3], [3]]
    everything = aborted_in_read(log.log, 0, read(log, 0, 1 << 20))
    assert [entry.producer_id for entry in everything] == [1, 2, 3]


def test_a_read_that_ends_with_its_segment_goes_up_to_the_next_one() -> None:
    log = three_segments()
    assert aborted_in_read(log.log, 0, read(log, 0, 1 << 20)) == [OF_1]
    assert aborted_in_read(log.log, 2, read(log, 2, 1 << 20)) == [OF_1, OF_2]
    assert aborted_in_read(log.log, 5, read(log, 5, 1 << 20)) == [OF_2]


def test_a_marker_of_transactions_version_2_needs_a_larger_epoch() -> None:
    """KIP-890: the coordinator bumps the epoch with every transaction; what it sends again finds nothing open."""
    log = rig()
    log.send(1)

    def end(epoch: int) -> int:
        return append_marker(
            log.log,
            producer_id=1,
            producer_epoch=epoch,
            commit=False,
            coordinator_epoch=0,
            leader_epoch=0,
            transaction_version=2,
        ).base_offset

    with pytest.raises(InvalidProducerEpoch):
        end(0)
    assert end(1) == 1
    assert end(1) == 2, "the same marker again"
    with pytest.raises(InvalidProducerEpoch):
        end(0)
    assert log.aborted() == [AbortedTransaction(1, 0, 1, 2)]


def test_transactions_version_2_at_the_last_epoch() -> None:
    log = rig()
    log.append(batch(producer=(1, 2**15 - 1, 0), transactional=True))
    append_marker(
        log.log,
        producer_id=1,
        producer_epoch=2**15 - 1,
        commit=False,
        coordinator_epoch=0,
        leader_epoch=0,
        transaction_version=2,
    )
    assert len(log.aborted()) == 1


def test_a_marker_that_another_way_brings_meets_a_bad_file() -> None:
    log = three_segments()
    log.send(2)  # 7
    log.manager.close()
    log.disk.write_bytes(f"{log.path}/{5:020d}.txnindex", b"?")
    log.start()
    log.log.append_as_leader(marker(2, 0, commit=False, coordinator_epoch=9), leader_epoch=0, origin=Origin.COORDINATOR)
    assert log.aborted() == [OF_1, OF_2, AbortedTransaction(2, 7, 8, 9)]


def test_recovery_leaves_the_indexes_of_what_was_flushed() -> None:
    """Also where it replays from before them, because snapshots are gone."""
    log = three_segments()
    log.log.flush(5)
    log.manager.checkpoint_pass()
    log.manager.close(False)
    for name in log.names(".snapshot"):
        log.disk.remove(f"{log.path}/{name}")
    log.start()
    assert log.aborted() == [OF_1, OF_2]


def test_truncation_forgets_what_was_not_replicated() -> None:
    log = rig()
    log.log.replicate_by(lambda end_offset: True)  # other replicas count
    log.send(3, transactional=False)  # 0
    log.send(1)  # 1
    log.end(1)  # 2
    log.log.raise_high_watermark(1)
    assert log.log.last_stable_offset == 1
    log.log.truncate_to(1)
    for _ in range(3):
        log.send(3, transactional=False)
    log.log.high_watermark = 2
    assert log.log.last_stable_offset == 2


# Faults


def test_an_index_that_cannot_be_read_refuses_the_marker_before_it_is_written() -> None:
    log = three_segments()
    log.send(2)  # 7
    log.restart(clean=True)
    log.memory.fail("read_bytes", errno.EMFILE, path=".txnindex")
    with pytest.raises(StorageError):
        log.end(2)
    assert log.log.log_end_offset == 8
    log.end(2)  # there are descriptors again
    assert log.aborted(7) == [AbortedTransaction(2, 7, 8, 9)]


def test_a_disk_that_fails_takes_readers_of_committed_records_offline() -> None:
    log = three_segments()
    log.restart(clean=True)
    log.memory.fail("read_bytes", path=".txnindex")
    with pytest.raises(StorageError):
        log.aborted()
    assert log.log.directory.failed is not None


def test_no_descriptor_for_the_file_is_no_failure_of_the_marker(caplog: pytest.LogCaptureFixture) -> None:
    log = rig()
    log.send(1)
    log.memory.fail("open", errno.EMFILE, path=".txnindex")
    log.end(1)
    assert "could not be made and is missing until its segment is full" in caplog.text
    assert log.aborted() == [AbortedTransaction(1, 0, 1, 2)]
    log.restart(clean=True)
    assert log.file_entries(0) == [AbortedTransaction(1, 0, 1, 2)]


def test_a_disk_on_which_the_file_cannot_be_made_is_offline() -> None:
    """The marker is in the log all the same, so the coordinator gets no error."""
    log = rig()
    log.send(1)
    log.memory.fail("open", errno.EIO, path=".txnindex")
    log.end(1)
    assert log.log.directory.failed is not None
    log.memory.crash()
    log.start()
    assert log.log.log_end_offset == 0, "nothing of it was synced"


def test_a_marker_that_could_not_be_written_ends_nothing() -> None:
    log = rig()
    log.send(1)
    log.memory.fail("append", errno.ENOSPC)
    with pytest.raises(StorageError):
        log.end(1)
    assert (log.log.last_stable_offset, log.aborted()) == (0, [])
    log.end(1)
    assert (log.log.last_stable_offset, log.aborted()) == (2, [AbortedTransaction(1, 0, 1, 2)])


@pytest.mark.parametrize("operation", ["open", "sync_dir"])
def test_a_roll_that_cannot_sync_the_indexes_syncs_them_when_it_is_tried_again(operation: str) -> None:
    """Found by the simulated broker: the second attempt had nothing left to write, and a power cut took the index of a segment
    that was durable itself, so readers of committed records got what was aborted.
    """
    log = rig()
    log.send(1)
    log.end(1)
    log.send(2)
    log.log.flush()
    log.memory.fail(operation, errno.EMFILE, path=".txnindex" if operation == "open" else log.path)
    with pytest.raises(StorageError):
        log.log.roll()
    log.log.roll()
    log.send(1)
    log.log.flush()
    log.manager.checkpoint_pass()
    log.memory.crash()
    log.start()
    assert log.aborted() == [AbortedTransaction(1, 0, 1, 2)]
