"""The scenarios of Kafka 4.4's LogSegmentTest, as behaviour of one segment of ours, or of a log of one.

Kafka's 24 cases and where they are here (a name in brackets is a test of this file):

| case | here |
|---|---|
| testAppendForLogSegmentOffsetOverflowException | [which_offsets_a_segment_holds] |
| testReadOnEmptySegment, testReadBeforeFirstOffset, testReadAfterLast, testReadFromGap | [reads_between_and_around_batches] |
| testReadWhenNoMaxPosition | [a_reader_without_a_limit_to_read_to_gets_nothing] |
| testTruncate, shouldTruncateEvenIfOffsetPointsToAGapInTheLog | [one_by_one], [a_cut_into_a_gap] |
| testTruncateEmptySegment, testTruncateFull | [an_emptied_segment_is_as_new] |
| testReloadLargestTimestampAndNextOffsetAfterTruncation | [times_after_a_cut] |
| testFindOffsetByTimestamp | [offsets_by_timestamp] |
| testNextOffsetCalculation | [the_next_offset] |
| testChangeFileSuffixes, testDeleteIfExistsWithGetParentIsNull | [renaming_takes_what_is_there] |
| testRecoveryFixesCorruptIndex, testRecoveryFixesCorruptTimeIndex | [nonsense_in_an_index] |
| testRecoverTransactionIndex | [the_transaction_index_after_recovery] |
| testRecoveryRebuildsEpochCache | [epochs_after_recovery] |
| testRecoveryWithCorruptMessage | [nonsense_from_somewhere_on] |
| testCreateWithInitFileSizeAppendMessage, testCreateWithInitFileSizeClearShutdown | [a_preallocated_file] |
| testAppendFromFile | [offsets_that_one_segment_cannot_hold_are_split] |
| testGetFirstBatchTimestamp | [the_first_batchs_time] |

All 24 are covered; not of two of them what we have not: index files that come into being when they are first asked for (ours are
there from the start), and files whose parent is no directory.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.log.disk.files import OpenFiles
from ottla.log.names import DELETED_SUFFIX
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.timestamps import offset_for_timestamp
from ottla.log.transactions import collect_aborted
from ottla.log.txn_index import AbortedTransaction
from ottla.wire.batch import iter_batches, read_header, stamp
from tests.log.support import NOW_MS, Rig, batch, marker, settings
from tests.memdisk import MemDisk

BASE = 40
MOST = 2**31 - 1


def at(offset: int, count: int = 1, *, epoch: int = 0, data: bytes | None = None, **fields: Any) -> bytes:
    """A batch as it lies in a log from `offset` on."""
    data = data or batch(count, **fields)
    return stamp(read_header(data), offset, epoch) + data[16:]


class OneSegment:
    """A segment that begins at 40, and reading it as a log would."""

    def __init__(self, *, interval: int = 0, index_bytes: int = 1 << 20) -> None:
        self.disk = MemDisk(lambda: NOW_MS)
        self.disk.makedirs("/p")
        self.segment = Segment(
            self.disk,
            "/p",
            BASE,
            size=0,
            open_files=OpenFiles(8),
            index_bytes=index_bytes,
            index_interval_bytes=interval,
            now_ms=NOW_MS,
        )
        self.segment.create_files()
        self.segments = Segments([self.segment])

    def put(self, *batches: bytes) -> None:
        for data in batches:
            header = read_header(data)
            self.segment.append([data], len(data), header.last_offset, header.max_timestamp)

    def read(self, offset: int, max_bytes: int = 1 << 20, *, upto: int = 1 << 40, min_one: bool = True) -> list[int] | None:
        """The base offsets of the whole batches that a reader gets."""
        end = self.segment.next_offset()
        found = self.segments.read(offset, max_bytes, min(upto, end), end, min_one)
        return None if found is None else [header.base_offset for header, _ in iter_batches(found.read())]


@pytest.fixture
def one() -> OneSegment:
    return OneSegment()


@pytest.mark.parametrize(
    ("base", "offset", "fits"),
    [
        (0, -1, False),
        (0, MOST, True),
        (0, MOST + 1, False),
        (1, 0, False),
        (100, 10, False),
        (2**31, 0, False),
        (2**31, 2**31 + MOST, True),
        (2**31, 2**32, False),
    ],
)
def test_which_offsets_a_segment_holds(base: int, offset: int, fits: bool) -> None:
    disk = MemDisk(lambda: NOW_MS)
    held = Segment(disk, "/p", base, size=0, open_files=OpenFiles(1), index_bytes=1 << 10, index_interval_bytes=0, now_ms=NOW_MS)
    assert held.can_hold(offset) == fits


def test_reads_between_and_around_batches(one: OneSegment) -> None:
    assert one.read(BASE) is None
    one.put(at(50, 2), at(60, 2))
    assert one.read(41) == [50, 60]
    assert one.read(51) == [50, 60]
    assert one.read(52) == [60]
    assert one.read(55) == [60]
    assert one.read(62) is None
    assert one.read(99) is None


@pytest.mark.parametrize("min_one", [True, False])
def test_a_reader_without_a_limit_to_read_to_gets_nothing(one: OneSegment, min_one: bool) -> None:
    """The end of what it may read is not beyond where it begins."""
    one.put(at(50, 2))
    for offset in (48, 50, 51, 52, 53):
        assert one.read(offset, 1, upto=offset, min_one=min_one) is None
    assert one.read(50, 1, min_one=min_one) == ([50] if min_one else None)


def test_one_by_one(one: OneSegment) -> None:
    for offset in range(BASE, BASE + 30):
        one.put(at(offset), at(offset + 1))
        assert one.read(offset) == [offset, offset + 1]
        one.segment.truncate_to(offset + 1)
        one.segments.forget_hints()
        assert one.read(offset) == [offset]
    assert one.read(BASE) == list(range(BASE, BASE + 30))


def test_a_cut_into_a_gap(one: OneSegment) -> None:
    one.put(at(BASE), at(BASE + 3))
    one.segment.truncate_to(BASE + 1)
    one.segments.forget_hints()
    assert one.read(BASE) == [BASE]
    assert one.segment.next_offset() == BASE + 1


def test_an_emptied_segment_is_as_new() -> None:
    """Its indexes take entries again, and it waits for its roll from the cut on."""
    hour_ms = 3_600_000
    rig = Rig(settings(segment_index_bytes=24, index_interval_bytes=0, segment_ms=hour_ms))
    segment = rig.log.segments.active
    rig.fill(4, timestamp_ms=-1)
    assert segment.indexes.are_full
    rig.now_ms += hour_ms + 1
    rig.log.truncate_to(0)
    assert rig.log.segments.active is segment
    assert (segment.size, len(segment.offset_index), len(segment.time_index), segment.indexes.are_full) == (0, 0, 0, False)
    assert segment.waited_ms(rig.now_ms, -1) == 0
    assert rig.log.read(0, 1024, upto=0) is None
    rig.now_ms += hour_ms + 1
    rig.append(batch(timestamp_ms=-1))  # an empty segment does not roll, however long it waited
    assert rig.bases == [0]
    rig.append(batch(timestamp_ms=-1))
    assert rig.bases == [0, 1]


def test_times_after_a_cut() -> None:
    size = len(batch())
    one = OneSegment(interval=2 * size - 1)
    for offset in range(BASE, BASE + 30):
        one.put(at(offset, timestamp_ms=offset * 10))
    assert one.segment.next_offset() == BASE + 30
    assert len(one.segment.time_index) == 14
    one.segment.truncate_to(BASE + 1)
    assert len(one.segment.time_index) == 0
    assert one.segment.largest_timestamp() == BASE * 10
    assert one.segment.next_offset() == BASE + 1


def test_offsets_by_timestamp() -> None:
    rig = Rig(settings(index_interval_bytes=2 * len(batch()) - 1))
    rig.log.truncate_fully_and_start_at(40)
    for offset in range(40, 50):
        rig.append(batch(timestamp_ms=offset * 10))
    assert rig.log.segments.active.largest_timestamp() == 490
    assert len(rig.log.segments.active.time_index) > 2
    wanted = {420: 42, 421: 43, 430: 43, 431: 44, 491: None, 401: 41, 399: 40}
    found = {target: offset_for_timestamp(rig.log, target) for target in wanted}
    assert {target: each.offset if each else None for target, each in found.items()} == wanted


def test_the_next_offset(one: OneSegment) -> None:
    assert one.segment.next_offset() == BASE
    one.put(at(50, 3))
    assert one.segment.next_offset() == 53


def test_the_first_batchs_time(one: OneSegment) -> None:
    assert one.segment.waited_ms(NOW_MS + 7, 2000) == 7, "without records, since it was made"
    one.put(at(41, timestamp_ms=1000), at(42, timestamp_ms=5000))
    assert one.segment.waited_ms(NOW_MS + 7, 2000) == 1000


@pytest.mark.parametrize("aborts", [False, True])
def test_renaming_takes_what_is_there(one: OneSegment, aborts: bool) -> None:
    one.put(at(BASE))
    if aborts:
        one.segment.change_txn_index().append(AbortedTransaction(1, BASE, BASE + 1, BASE + 2))
    one.segment.write_indexes(final=True)
    before = one.disk.list("/p")
    assert len(before) == 3 + aborts
    one.segment.rename_deleted()
    assert one.disk.list("/p") == [name + DELETED_SUFFIX for name in before]


# Recovery


def recovered(*batches: bytes, **files: bytes) -> Rig:
    """A log whose first segment has these batches, found after a crash; `files` by suffix."""
    rig = Rig(settings(index_interval_bytes=0))
    rig.manager.close(False)
    base = read_header(batches[0]).base_offset
    for name in rig.names():
        if name.startswith("0"):
            rig.disk.remove(f"{rig.path}/{name}")
    rig.disk.write_bytes(f"{rig.path}/{base:020d}.log", b"".join(batches))
    for suffix, data in files.items():
        rig.disk.write_bytes(f"{rig.path}/{base:020d}.{suffix}", data)
    rig.start()
    return rig


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
def test_nonsense_in_an_index(suffix: str) -> None:
    batches = [at(offset, timestamp_ms=NOW_MS + offset * 10) for offset in range(100)]
    rig = recovered(*batches, **{suffix: b"12345" + Random(1).randbytes(700)})
    for offset in range(100):
        found = rig.log.read(offset, 1, upto=100)
        assert found is not None
        assert read_header(found.read()).base_offset == offset
        for target, wanted in ((offset * 10, offset), (offset * 10 - 1, offset)):
            by_time = offset_for_timestamp(rig.log, NOW_MS + target)
            assert by_time is not None
            assert by_time.offset == wanted
    assert collect_aborted(rig.log, 0, 100) == []


@pytest.mark.parametrize("before", [False, True])
def test_the_transaction_index_after_recovery(before: bool) -> None:
    """Two transactions, one of them aborted; with `before`, it began in the segment before this one."""
    own = [
        at(100, 2, producer=(5, 0, 100), transactional=True),
        at(102, 2, producer=(10, 0, 100), transactional=True),
        at(104, 2),
        at(106, data=marker(10, 0, commit=False)),
        at(107, data=marker(5, 0, commit=True)),
    ]
    rig = recovered(*own)
    if before:
        rig.manager.close(False)
        rig.disk.write_bytes(f"{rig.path}/{75:020d}.log", at(75, producer=(10, 0, 99), transactional=True))
        rig.disk.write_bytes(f"{rig.directory}/cleaner-offset-checkpoint", b"0\n1\nt 0 100\n")  # so the gap is one of compaction
        rig.start()
        assert rig.bases == [75, 100]
    assert rig.log.log_end_offset == 108
    aborted = AbortedTransaction(10, 75 if before else 102, 106, 100)  # the other one was open then, from 100 on
    assert collect_aborted(rig.log, 100, 108) == [aborted]
    assert list(rig.log.segments.active.txn_index) == [aborted]


def test_epochs_after_recovery() -> None:
    epochs = ((104, 0), (106, 1), (108, 1), (110, 2))
    rig = recovered(*(at(offset, 2, epoch=epoch) for offset, epoch in epochs))
    assert [(entry.epoch, entry.start_offset) for entry in rig.log.epochs.entries] == [(0, 104), (1, 106), (2, 110)]


@pytest.mark.parametrize("seed", range(10))
def test_nonsense_from_somewhere_on(seed: int) -> None:
    rng = Random(seed)
    batches = [at(offset) for offset in range(20)]
    first_bad = rng.randrange(1, 20)
    position = sum(map(len, batches[:first_bad])) + rng.randrange(15)
    data = b"".join(batches)
    rig = recovered(data[:position] + rng.randbytes(len(data) - position))
    assert rig.read() == list(range(first_bad))
    assert rig.log.log_end_offset == first_bad


def test_a_preallocated_file() -> None:
    rig = Rig(settings(preallocate=True, segment_bytes=512 * 1024))
    path = f"{rig.path}/{0:020d}.log"
    rig.fill(2)
    rig.fill(2)
    assert rig.disk.size(path) == 512 * 1024
    assert rig.read(1) == [1, 2, 3]
    size = rig.log.segments.active.size
    rig.manager.close()
    assert rig.disk.size(path) == size
    rig.start()
    assert (rig.read(1), rig.log.segments.active.size, rig.disk.size(path)) == ([1, 2, 3], size, size)


def test_offsets_that_one_segment_cannot_hold_are_split() -> None:
    """As a compaction of old left them: a file goes on as far as its base offset allows, and the rest is another segment."""
    offsets = [0, 500, MOST + 5]
    rig = Rig(settings())
    rig.manager.close(False)
    rig.disk.write_bytes(f"{rig.path}/{0:020d}.log", b"".join(at(offset) for offset in offsets))
    rig.start()
    assert rig.bases == [0, MOST + 5]
    assert rig.read() == offsets
