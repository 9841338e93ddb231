"""log/partition.py: what becomes state is read by `iterate_batches`, which lets no wrong byte through."""

from __future__ import annotations

import pytest

from ottla.log.errors import CorruptRecord
from ottla.wire.batch import read_header
from tests.log.support import Rig, batch, settings

SIZE = len(batch())
NAME = "00000000000000000000.log"


@pytest.fixture
def rig() -> Rig:
    """A log of five batches of one record, in one segment."""
    rig = Rig()
    rig.fill(5)
    return rig


def change(rig: Rig, at: int, data: bytes, name: str = NAME) -> None:
    """Writes other bytes into a segment's file, behind the back of the log."""
    path = f"{rig.path}/{name}"
    was = rig.disk.read_bytes(path)
    rig.disk.write_bytes(path, was[:at] + data + was[at + len(data) :])
    for segment in rig.log.segments:
        segment.release_file()


def flip(rig: Rig, at: int) -> None:
    change(rig, at, bytes([rig.disk.read_bytes(f"{rig.path}/{NAME}")[at] ^ 1]))


def offsets(rig: Rig, start: int = 0) -> list[int]:
    return [read_header(data).base_offset for data in rig.log.iterate_batches(start)]


@pytest.mark.parametrize("at", [21, 30, 61, SIZE - 1])
def test_a_flipped_bit_under_the_crc_ends_the_reading_where_it_is(rig: Rig, at: int) -> None:
    flip(rig, 2 * SIZE + at)
    read: list[int] = []
    with pytest.raises(CorruptRecord) as caught:
        read.extend(read_header(data).base_offset for data in rig.log.iterate_batches(0))
    place = f"{rig.path}/{NAME} is damaged at position {2 * SIZE} (offset 2)"
    assert str(caught.value) == f"{place}: its CRC does not fit its bytes"
    assert offsets(rig, 3) == [3, 4], "what lies after it can be read"


@pytest.mark.parametrize("offset", [-1, 0, 1, 1 << 40])
def test_offsets_that_do_not_follow_are_damage_although_no_crc_covers_them(rig: Rig, offset: int) -> None:
    change(rig, 2 * SIZE, offset.to_bytes(8, "big", signed=True))
    with pytest.raises(CorruptRecord, match=rf"position {2 * SIZE} \(offset 2\): it says that it has the offsets {offset} to"):
        offsets(rig)


def test_a_first_batch_with_an_impossible_offset_is_not_read_over(rig: Rig) -> None:
    change(rig, 0, (-9).to_bytes(8, "big", signed=True))
    with pytest.raises(CorruptRecord, match="position 0"):
        offsets(rig)


def test_a_batch_that_leaves_a_gap_is_found_with_the_one_after_it(rig: Rig) -> None:
    change(rig, SIZE, (3).to_bytes(8, "big"))
    with pytest.raises(CorruptRecord, match=rf"position {2 * SIZE} \(offset 4\)"):
        offsets(rig)


def test_what_was_appended_meanwhile_is_left_to_the_next_reader(rig: Rig) -> None:
    reading = rig.log.iterate_batches(0)
    first = read_header(next(reading)).base_offset
    rig.fill(2)
    assert [first, *(read_header(data).base_offset for data in reading)] == [0, 1, 2, 3, 4]


@pytest.fixture
def several() -> Rig:
    """A log of eight batches in four segments."""
    rig = Rig(settings(segment_bytes=2 * SIZE))
    rig.fill(8)
    assert len(rig.log.segments) == 4
    return rig


def test_segments_that_are_dropped_during_the_reading_skip_no_other(several: Rig) -> None:
    reading = several.log.iterate_batches(0)
    read = [read_header(next(reading)).base_offset]
    several.log.delete_records_before(4)
    assert several.log.apply_retention(several.now_ms) == 2
    read += [read_header(data).base_offset for data in reading]
    assert read == [0, 1, 4, 5, 6, 7]


def test_segments_that_are_replaced_during_the_reading_skip_no_other(several: Rig) -> None:
    reading = several.log.iterate_batches(0)
    read = [read_header(next(reading)).base_offset]
    log = several.log
    old = [log.segments[0], log.segments[1]]
    merged = log.local.segment_of(0, 4 * SIZE)
    several.disk.write_bytes(merged.path(".log"), b"".join(several.disk.read_bytes(each.path(".log")) for each in old))
    log.segments.replace(old, merged)
    read += [read_header(data).base_offset for data in reading]
    assert read == list(range(8))
