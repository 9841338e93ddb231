"""Compaction and transactions: aborted records go, markers stay for as long as somebody may need them."""

from __future__ import annotations

import pytest

from ottla.log.transactions import collect_aborted
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.records import decode_records
from tests.log.compaction.cleaning import CleanerRig, Seen

LATER_MS = 5_000


class TxnRig(CleanerRig):
    """`write` appends one batch of a producer's open transaction; sequences are counted."""

    def start(self) -> None:
        super().start()
        self.sequences: dict[int, int] = {}

    def write(self, producer_id: int, *keys: int) -> int:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(keys)
        pairs = [(b"%d" % key, b"v%d" % producer_id) for key in keys]
        return self.put(*pairs, producer=(producer_id, 0, sequence), transactional=True).base_offset

    def commit(self, producer_id: int) -> int:
        return self.end(producer_id, commit=True).base_offset

    def abort(self, producer_id: int) -> int:
        return self.end(producer_id, commit=False).base_offset

    def forget_producers(self) -> None:
        self.log.producers.expire(self.now_ms + 10**10, 1)

    def aborted(self) -> list[tuple[int, int, int]]:
        """Returns (producer, first offset, marker) of the aborted transactions that readers get."""
        found = collect_aborted(self.log, self.log.log_start_offset, self.log.log_end_offset)
        return [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in found]


def test_records_of_aborted_transactions_go_and_those_of_committed_ones_count() -> None:
    rig = TxnRig()
    rig.put_each([1, 2])
    rig.write(7, 1)
    rig.write(8, 2)
    rig.write(7, 3)
    rig.abort(7)
    rig.commit(8)
    rig.clean()
    assert rig.keys() == [1, 2]
    assert rig.offsets() == [0, 3]
    assert rig.markers() == [5, 6]


def test_markers_and_aborted_records_count_among_what_was_read() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    rig.write(8, 2, 3)
    rig.abort(7)
    rig.commit(8)
    rig.clean()
    last = rig.cleaner.last
    assert (last.map_records_read, last.records_read, last.records_written) == (5, 5, 4)


def test_a_log_with_a_marker_that_does_not_decode_is_left_alone() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    position = rig.log.segments.active.size
    rig.commit(7)
    rig.roll()
    path = rig.log.segments.first.path(".log")
    data = bytearray(rig.disk.read_bytes(path))
    data[position + HEADER_SIZE] ^= 0x7E  # the length of its record
    rig.disk.write_bytes(path, bytes(data))
    rig.log.segments.first.release_file()
    rig.clean()
    assert "the marker at offset 1 does not decode" in rig.cleaner.uncleanable["t", 0]
    assert not rig.names(".cleaned")


def test_an_aborted_record_is_nobodys_latest() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    rig.commit(7)
    rig.write(7, 1)
    rig.abort(7)
    rig.clean()
    assert rig.offsets() == [0]


def test_nothing_is_cleaned_from_the_first_open_transaction_on() -> None:
    rig = TxnRig()
    rig.put_each([1, 1])
    rig.roll()
    rig.put_each([2])
    rig.write(7, 1)
    rig.roll()
    rig.put_each([2, 2])
    rig.clean()
    assert rig.offsets() == [1, 2, 3, 4, 5]
    assert rig.cleaned_upto == 2, "the segment that the transaction begins in stays as it is"
    rig.commit(7)
    rig.clean()
    assert rig.offsets() == [3, 5]


def test_a_commit_marker_goes_when_nothing_is_left_of_its_transaction_and_its_time_is_over() -> None:
    rig = TxnRig()
    rig.write(7, 1, 2)
    marker = rig.commit(7)
    rig.put_each([2])
    rig.clean()
    assert rig.markers() == [marker], "key 1 is left"
    rig.put_each([1])
    rig.clean()
    assert rig.markers() == [marker], "its last record went only now"
    rig.forget_producers()
    for key, why in ((3, "the empty batch was still before it"), (4, "only now its time begins")):
        rig.put_each([key])
        rig.clean()
        assert rig.markers() == [marker], why
    rig.now_ms += LATER_MS
    rig.put_each([5])
    rig.clean()
    assert rig.markers() == []
    assert rig.keys() == [2, 1, 3, 4, 5]


def test_an_abort_marker_goes_likewise_and_with_it_its_place_in_the_index() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    marker = rig.abort(7)
    rig.put_each([2])
    rig.clean()
    assert rig.markers() == [marker]
    assert rig.aborted() == [(7, 0, 1)], "readers may be between the records and the marker"
    rig.forget_producers()
    rig.put_each([3])
    rig.clean()
    assert (rig.empty(), rig.aborted()) == ([], [(7, 0, 1)]), "the empty batch was there when the cleaning came by"
    rig.put_each([3])
    rig.clean()
    assert rig.markers() == [marker]
    assert rig.aborted() == [], "nothing is left that a reader would have to drop"
    rig.now_ms += LATER_MS
    rig.put_each([4])
    rig.clean()
    assert rig.markers() == []


def test_a_markers_horizon_changes_nothing_that_a_reader_sees() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    rig.commit(7)
    before = next(data for header, data in rig.batches() if header.is_control)
    rig.forget_producers()
    for _ in range(2):
        rig.put_each([1])
        rig.clean()
    (header,) = (header for header in rig.headers() if header.is_control)
    after = next(data for header, data in rig.batches() if header.is_control)
    assert header.has_delete_horizon
    assert decode_records(after) == decode_records(before)


def test_the_commit_marker_stays_with_the_empty_batch_of_its_producer() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    marker = rig.commit(7)
    rig.put_each([1])
    rig.clean()
    assert rig.empty() == [0]
    for _ in range(3):
        rig.now_ms += LATER_MS
        rig.put_each([2])
        rig.clean()
    assert (rig.empty(), rig.markers()) == ([0], [marker])
    rig.write(7, 3)
    rig.commit(7)
    rig.put_each([4])
    rig.clean()
    assert rig.empty() == [], "the producer has a later batch"
    rig.now_ms += LATER_MS
    rig.put_each([4])
    rig.clean()
    rig.now_ms += LATER_MS
    rig.put_each([4])
    rig.clean()
    assert marker not in rig.markers()


def test_the_abort_marker_stays_with_the_empty_batch_of_its_producer() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    marker = rig.abort(7)
    for key in range(2, 5):
        rig.put_each([key])
        rig.clean()
        rig.now_ms += LATER_MS
    assert (rig.empty(), rig.markers()) == ([0], [marker])
    assert rig.aborted() == [(7, 0, 1)]
    rig.restart(clean=False)
    again = rig.put((b"1", b"v7"), producer=(7, 0, 0), transactional=True)
    assert again.duplicate, "the last sequence is known although its records are gone"


def test_only_the_last_of_a_producers_empty_batches_stays() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    rig.abort(7)
    rig.write(7, 2)
    rig.abort(7)
    rig.put_each([3])
    rig.clean()
    assert rig.empty() == [2]
    assert rig.markers() == [1, 3]


def test_the_epoch_of_a_producer_that_only_has_a_marker() -> None:
    """It fences; so its last marker stays as long as the producer is known, without its record."""
    rig = TxnRig()
    rig.end(7, commit=False, epoch=5)
    for key in range(4):
        rig.put_each([key])
        rig.clean()
        rig.now_ms += LATER_MS
    (header,) = (header for header in rig.headers() if header.is_control)
    assert (header.producer_epoch, header.records_count) == (5, 0)
    rig.forget_producers()
    rig.put_each([9])
    rig.clean()
    assert not [header for header in rig.headers() if header.is_control], "an emptied marker tells nothing more"


def test_a_transaction_over_several_segments() -> None:
    for end, left in (("commit", [0, 2, 4]), ("abort", [])):
        rig = TxnRig(segment_bytes=100)
        rig.write(7, 1)
        rig.put_each([50])
        rig.write(7, 2)
        rig.put_each([50])
        rig.write(7, 3)
        (rig.commit if end == "commit" else rig.abort)(7)
        assert len(rig.bases) > 4
        rig.clean()
        assert [offset for offset in rig.offsets() if offset != 3] == left
        rig.put_each([1, 2, 3])
        rig.clean()
        assert rig.markers() == [5]


def test_an_abort_whose_marker_is_not_cleaned_yet() -> None:
    """Its records go all the same: below the last stable offset everything is decided."""
    rig = TxnRig()
    rig.put_each([1])
    rig.write(7, 1)
    rig.roll()
    rig.put_each([2])
    rig.abort(7)
    rig.cleaner.clean_pass()
    assert rig.offsets() == [0, 2]
    assert rig.aborted() == [(7, 1, 3)]


def test_an_abort_over_several_turns() -> None:
    """One turn ends between the records and their marker, the next begins there."""
    rig = TxnRig()
    rig.write(7, 1)
    rig.put_each([2])
    rig.roll()
    rig.write(7, 3)
    rig.put_each([2])
    rig.abort(7)
    rig.log.config = CleanerRig(min_compaction_lag_ms=1).config
    rig.now_ms += 10
    rig.clean()
    rig.put_each([4])
    rig.clean()
    assert rig.keys() == [2, 4]
    assert rig.markers() == [4]
    for _ in range(3):
        rig.forget_producers()
        rig.now_ms += LATER_MS
        rig.put_each([4])
        rig.now_ms += 10
        rig.clean()
    assert rig.markers() == []
    assert rig.aborted() == []


def test_a_producer_id_of_an_aborted_transaction_writes_without_one() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    rig.abort(7)
    rig.put((b"5", b"v"), producer=(7, 0, 1))
    rig.clean()
    assert rig.keys() == [5]


def test_the_transaction_index_is_written_anew() -> None:
    rig = TxnRig(segment_bytes=400)
    for key in range(12):
        rig.write(7 + key % 3, key)
        (rig.abort if key % 2 else rig.commit)(7 + key % 3)
    before = rig.aborted()
    assert len(rig.bases) > 3
    rig.clean()
    assert rig.aborted() == before
    assert rig.names(".txnindex")
    rig.restart(clean=False)
    assert rig.aborted() == before
    assert rig.keys() == list(range(0, 12, 2))


def test_a_sequence_that_is_used_again_after_the_producer_was_forgotten() -> None:
    rig = TxnRig()
    rig.write(7, 1)
    rig.commit(7)
    rig.forget_producers()
    rig.sequences.clear()
    rig.write(7, 2)
    rig.commit(7)
    rig.put_each([1, 2])
    rig.clean()
    assert rig.empty() == [2], "of equal sequences the one at the producer's last offset stays"


@pytest.mark.parametrize("is_removed", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_an_index_that_has_lost_an_abort_costs_no_committed_record(clean: bool, is_removed: bool) -> None:
    """Only the marker shows that an index is missing. One that is empty is rebuilt, and after an unclean stop any is."""
    rig = CleanerRig()
    rig.put((b"0", b"committed"))
    rig.put((b"0", b"aborted"), producer=(1, 0, 0), transactional=True)
    rig.end(1, commit=False)
    rig.roll()
    rig.manager.close(clean)
    (name,) = rig.names(".txnindex")
    if is_removed:
        rig.disk.remove(f"{rig.path}/{name}")
    else:
        rig.disk.write_bytes(f"{rig.path}/{name}", b"")
    rig.start()
    rig.clean()
    assert Seen(0, b"0", b"committed") in rig.seen()
    if clean and is_removed:
        assert "in no transaction index" in rig.cleaner.uncleanable["t", 0]
    else:
        assert rig.offsets() == [0]
