"""log/opening/search.py: the next sound batch is found wherever it stands, and nothing makes the search for it endless."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest

from ottla.log.disk.files import OsDisk
from ottla.log.opening.search import BatchSearch, SearchTooLong, Window
from ottla.wire.batch import HEADER_SIZE, read_header, restamp
from tests.log.support import batch


def search(path: Path, data: bytes, window_bytes: int = 4096) -> BatchSearch:
    path.write_bytes(data)
    return BatchSearch(Window(OsDisk().open(str(path)), window_bytes))


def lure(size: int) -> bytes:
    """A header that could be a batch's of `size` bytes, but for the CRC."""
    header = bytearray(batch()[:HEADER_SIZE])
    header[8:12] = struct.pack(">i", size - 12)
    return bytes(header)


@pytest.mark.parametrize("behind", [1, 60, 4080, 4081, 4085, 4096, 4097, 20_000, 70_001])
def test_it_is_found_wherever_it_stands(behind: int, tmp_path: Path) -> None:
    """Also where a header lies across two blocks that are read."""
    garbage = Random(behind).randbytes(behind)
    found = search(tmp_path / "a.log", garbage + batch() + batch())
    assert found.next_sound(0) == behind
    assert found.next_sound(behind + 1) == behind + len(batch())
    assert found.next_sound(behind + len(batch()) + 1) is None


def test_a_batch_without_records_is_one(tmp_path: Path) -> None:
    """A compaction leaves such batches, which are a header only, so that a producer's last sequence number is not lost."""
    old = read_header(batch())
    empty = restamp(old.replace(records_count=0), b"", attributes=0, max_timestamp=old.max_timestamp)
    assert len(empty) == HEADER_SIZE
    for behind in (b"", batch()):
        assert search(tmp_path / "a.log", bytes(range(1, 100)) + empty + behind).next_sound(0) == 99


def test_none_is_found_where_none_is(tmp_path: Path) -> None:
    damaged = batch()[:-1] + b"\1"
    for data in (b"", b"\2", bytes(10_000), Random(1).randbytes(100_000), damaged * 20, batch()[:-1]):
        assert search(tmp_path / "a.log", data).next_sound(0) is None


def test_one_behind_what_looks_like_a_larger_one(tmp_path: Path) -> None:
    data = lure(100_000) + batch() + bytes(100_000)
    assert search(tmp_path / "a.log", data).next_sound(0) == HEADER_SIZE


def test_a_file_full_of_lures(tmp_path: Path) -> None:
    """Each costs a CRC over all that follows: the square of the file's size, if nobody counts."""
    count = 20_000
    data = b"".join(lure((count - number) * HEADER_SIZE) for number in range(count))
    with pytest.raises(SearchTooLong):
        search(tmp_path / "a.log", data + batch()).next_sound(0)


def test_all_searches_share_one_budget(tmp_path: Path) -> None:
    size = 8 << 20
    data = lure(size) + bytes(size)
    found = search(tmp_path / "a.log", data, 1 << 20)
    searches = (found.next_sound(0) for _ in range(1000))
    with pytest.raises(SearchTooLong):
        any(searches)
