"""log/segments.py: the list as segments come and go. Reads are tested through log/partition.py."""

from __future__ import annotations

import pytest

from ottla.log.disk.files import OpenFiles
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from tests.memdisk import MemDisk


def segment(base: int) -> Segment:
    return Segment(MemDisk(), "/", base, size=0, open_files=OpenFiles(1), index_bytes=80, index_interval_bytes=1, now_ms=0)


@pytest.fixture
def segments() -> Segments:
    return Segments([segment(base) for base in (10, 20, 30)])


def bases(segments: Segments) -> list[int]:
    return [one.base_offset for one in segments]


def test_floor(segments: Segments) -> None:
    assert [segments.floor(offset) for offset in (0, 10, 19, 20, 29, 30, 99)] == [0, 0, 0, 1, 1, 2, 2]


def test_between(segments: Segments) -> None:
    assert [one.base_offset for one in segments.between(1, 30)] == [20]
    assert [one.base_offset for one in segments.between(0, 31)] == [10, 20, 30]
    assert segments.between(2, 30) == []


def test_coming_and_going(segments: Segments) -> None:
    segments.add(segment(40))
    assert (bases(segments), segments.active.base_offset, len(segments)) == ([10, 20, 30, 40], 40, 4)
    assert [one.base_offset for one in segments.drop_first(1)] == [10]
    assert (segments.first.base_offset, segments.floor(20)) == (20, 0)
    assert [one.base_offset for one in segments.drop_after(1)] == [40]
    assert (bases(segments), segments.active.base_offset) == ([20, 30], 30)
    assert [one.base_offset for one in segments.replace_all(segment(5))] == [20, 30]
    assert (bases(segments), segments.active.base_offset, segments.size_bytes()) == ([5], 5, 0)


def test_what_may_not_be(segments: Segments) -> None:
    with pytest.raises(AssertionError):
        segments.add(segment(30))
    with pytest.raises(AssertionError):
        segments.drop_first(3)
    with pytest.raises(AssertionError):
        Segments([])
    with pytest.raises(AssertionError):
        Segments([segment(2), segment(1)])
