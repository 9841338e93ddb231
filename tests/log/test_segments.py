"""log/segments.py: the list as segments come and go. Reads are tested through log/partition.py."""

from __future__ import annotations

import pytest

from ottla.log.disk.files import OpenFiles
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from tests.memdisk import MemDisk


def segment(base: int, size: int = 0) -> Segment:
    return Segment(MemDisk(), "/", base, size=size, open_files=OpenFiles(1), index_bytes=80, index_interval_bytes=1, now_ms=0)


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


def test_the_size_is_known_however_segments_come_and_go() -> None:
    segments = Segments([segment(base, base) for base in (10, 20, 30)])

    def is_right() -> bool:
        return segments.size_bytes() == sum(one.size for one in segments)

    assert segments.size_bytes() == 60
    segments.active.size += 5
    segments.add(segment(40, 0))
    segments.active.size += 7
    assert (segments.size_bytes(), is_right()) == (72, True)
    segments.replace(segments.between(0, 30), segment(10, 4))
    assert (segments.size_bytes(), is_right()) == (46, True)
    segments.drop_first(1)
    assert (segments.size_bytes(), is_right()) == (42, True)
    segments.drop_after(0)
    segments.active.size = 3
    assert (segments.size_bytes(), is_right()) == (3, True)
    segments.replace_all(segment(50, 8))
    assert (segments.size_bytes(), is_right()) == (8, True)


def test_asking_for_the_size_looks_at_the_active_segment_alone() -> None:
    """However many there are: no other changes its size, and this one does it behind the list's back."""
    segments = Segments([segment(base, 10) for base in range(100)])
    segments[50].size = 1000
    segments.active.size = 15
    assert segments.size_bytes() == 1005


def test_what_may_not_be(segments: Segments) -> None:
    with pytest.raises(AssertionError):
        segments.add(segment(30))
    with pytest.raises(AssertionError):
        segments.drop_first(3)
    with pytest.raises(AssertionError):
        Segments([])
    with pytest.raises(AssertionError):
        Segments([segment(2), segment(1)])
