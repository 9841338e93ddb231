"""log/txn_index.py: entries, the search for aborted transactions, and files that hold anything."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.index import CorruptIndex
from ottla.log.txn_index import TXN_ENTRY_SIZE, AbortedTransaction, TxnIndex, load_txn_index
from tests.log.support import NOW_MS
from tests.memdisk import MemDisk

# Transactions of producers 1 and 2 in a segment that begins at 100. The second one was open when the first ended.
FIRST = AbortedTransaction(producer_id=1, first_offset=90, last_offset=110, last_stable_offset=105)
SECOND = AbortedTransaction(producer_id=2, first_offset=105, last_offset=120, last_stable_offset=121)
THIRD = AbortedTransaction(producer_id=1, first_offset=125, last_offset=130, last_stable_offset=131)


def index_of(*entries: AbortedTransaction, base_offset: int = 100) -> TxnIndex:
    index = TxnIndex(base_offset)
    for entry in entries:
        index.append(entry)
    return index


def raw(*fields: int, version: int = 0) -> bytes:
    return struct.pack(">hqqqq", version, *fields)


def collected(index: TxnIndex, fetch_offset: int, upto: int) -> tuple[list[AbortedTransaction], bool]:
    found: list[AbortedTransaction] = []
    complete = index.collect(fetch_offset, upto, found)
    return found, complete


def test_an_entry_has_kafkas_34_bytes() -> None:
    index = index_of(FIRST, SECOND)
    data = index.encode()
    assert data == raw(1, 90, 110, 105) + raw(2, 105, 120, 121)
    assert len(data) == 2 * TXN_ENTRY_SIZE
    again = TxnIndex(100)
    again.decode(data)
    assert list(again) == [FIRST, SECOND]
    assert len(again) == 2


@pytest.mark.parametrize(
    ("fetch_offset", "upto", "entries", "complete"),
    [
        (100, 200, [FIRST, SECOND, THIRD], False),
        (100, 131, [FIRST, SECOND, THIRD], True),
        (110, 121, [FIRST, SECOND], True),  # the marker itself still belongs to its transaction
        (111, 121, [SECOND], True),
        (100, 105, [FIRST], True),  # by then the second had not begun
        (100, 106, [FIRST, SECOND], True),
        (121, 125, [], True),
        (121, 126, [THIRD], True),
        (131, 140, [], False),
        (0, 50, [], True),
    ],
)
def test_search(fetch_offset: int, upto: int, entries: list[AbortedTransaction], complete: bool) -> None:
    assert collected(index_of(FIRST, SECOND, THIRD), fetch_offset, upto) == (entries, complete)


def test_an_empty_index_never_ends_the_search() -> None:
    assert collected(index_of(), 0, 10) == ([], False)


def test_truncation_goes_by_the_marker() -> None:
    index = index_of(FIRST, SECOND, THIRD)
    assert index.truncate_to(121)
    assert list(index) == [FIRST, SECOND]
    assert not index.truncate_to(121)
    assert index.truncate_to(120)
    assert list(index) == [FIRST]
    index.append(SECOND)
    index.clear()
    assert not index


def test_a_missing_file_means_no_entries() -> None:
    assert not load_txn_index(MemDisk(lambda: NOW_MS), "/nothing.txnindex", 0)


@pytest.mark.parametrize(
    "data",
    [
        raw(1, 90, 110, 105)[:-1],
        raw(1, 90, 110, 105) + b"\0",
        raw(1, 90, 110, 105, version=1),
        raw(1, 90, 99, 100),
        raw(1, 90, 110, 105) + raw(2, 105, 110, 111),
        raw(1, 90, 120, 105) + raw(2, 105, 110, 111),
        raw(-1, 90, 110, 105),
        raw(1, -1, 110, 105),
        raw(1, 110, 110, 111),
        raw(1, 90, 110, 112),
        bytes(TXN_ENTRY_SIZE),
    ],
    ids=[
        "short",
        "long",
        "version",
        "before-base",
        "twice",
        "falling",
        "no-producer",
        "no-offset",
        "no-record",
        "stable-beyond",
        "zeros",
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(data: bytes) -> None:
    disk = MemDisk(lambda: NOW_MS)
    disk.makedirs("/d")
    disk.write_bytes("/d/x.txnindex", data)
    with pytest.raises(CorruptIndex):
        load_txn_index(disk, "/d/x.txnindex", 100)
    index = index_of(FIRST)
    with pytest.raises(CorruptIndex):
        index.decode(data)
    assert list(index) == [FIRST]


@given(st.binary(max_size=200))
def test_any_bytes_are_entries_or_refused(data: bytes) -> None:
    index = TxnIndex(0)
    try:
        index.decode(data)
    except CorruptIndex:
        assert not index
    else:
        assert index.encode() == data


def test_a_file_is_written_for_the_first_entry_and_then_for_each_change() -> None:
    disk = MemDisk(lambda: NOW_MS)
    disk.makedirs("/p")
    index = TxnIndex(100)
    index.changed = True  # as whoever changes it says; it was emptied, before a rebuild
    assert (index.write(disk, "/p/i"), disk.exists("/p/i")) == (False, False)
    index.append(FIRST)
    index.changed = True
    assert [index.write(disk, "/p/i") for _ in range(2)] == [True, False]
    index.truncate_to(0)
    assert (index.write(disk, "/p/i"), disk.exists("/p/i")) == (False, False)
