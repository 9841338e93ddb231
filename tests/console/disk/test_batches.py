"""A part of a segment: where a page begins with and without an index, what is damaged, missing, pointed to, aborted."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ottla.commands.log.files import OFFSET_ENTRY
from ottla.console.disk.batches import Indexes, Part, aborted_in, earlier, mark_aborted, read_indexes, read_part
from ottla.console.disk.directory import open_file
from tests.console.disk.written import FIRST, append, append_aborted, flip, new_log, write_orders


def part_of(path: Path, at: int = 0, offset: int | None = None, count: int = 100) -> Part:
    return read_part(open_file(path), read_indexes(path, 0), at=at, offset=offset, count=count, clock=lambda: 0.0)


def offsets(part: Part) -> list[int]:
    return [row.header.base_offset for row in part.rows if row.header is not None]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A segment of 300 batches of one record."""
    log = new_log(tmp_path, "orders", index_interval_bytes="1000")
    for _ in range(300):
        append(log, 1)
    log.close()
    return tmp_path / "orders-0" / FIRST


def test_pages_follow_each_other_and_lead_back(many: Path) -> None:
    first = part_of(many)
    second = part_of(many, first.next or 0)
    third = part_of(many, second.next or 0)
    assert [offsets(one)[::99] for one in (first, second, third)] == [[0, 99], [100, 199], [200, 299]]
    assert third.next is None
    assert third.next_offset == 300
    back = part_of(many, earlier(third, read_indexes(many, 0)))
    assert 90 < offsets(back)[0] < 110
    assert offsets(back)[-1] >= 199
    assert earlier(first, read_indexes(many, 0)) == 0


@pytest.mark.parametrize("index", ["right", "none", "wrong"])
def test_a_page_begins_at_any_position_or_offset_whatever_the_index_says(many: Path, index: str) -> None:
    where = many.with_suffix(".index")
    if index == "none":
        where.unlink()
    elif index == "wrong":
        where.write_bytes(b"".join(OFFSET_ENTRY.pack(number, 7 + number) for number in range(1, 300)))
    size = part_of(many).rows[0].size
    assert offsets(part_of(many, 250 * size, count=2)) == [250, 251]
    assert offsets(part_of(many, 250 * size - 3, count=1)) == [250]
    assert offsets(part_of(many, offset=123, count=2)) == [123, 124]
    assert part_of(many, 10**9).rows == []
    assert part_of(many, offset=300).rows == []


def test_it_stops_looking_for_the_place_when_its_time_is_over(many: Path) -> None:
    many.with_suffix(".index").unlink()
    ticks = iter(range(1000))
    part = read_part(open_file(many), read_indexes(many, 0), at=10**6, clock=lambda: float(next(ticks)))
    assert (part.rows, part.is_cut) == ([], True)


def test_what_the_indexes_point_to(tmp_path: Path) -> None:
    path = write_orders(tmp_path)
    indexes = read_indexes(path, 0)
    part = part_of(path)
    assert {row.position for row in part.rows if row.is_indexed} == {entry[1] for entry in indexes.offsets}
    assert len(indexes.offsets) > 2
    timed = [row.header for row in part.rows if row.is_timed]
    assert len(timed) == len(indexes.times) > 0


def test_damage_is_what_it_is(tmp_path: Path) -> None:
    path = write_orders(tmp_path)
    sound = part_of(path).rows
    flip(path, sound[1].position + 61)
    flip(path, sound[3].position + 16)  # its magic
    path.write_bytes(path.read_bytes()[:-5])
    rows = part_of(path).rows
    assert [row.position for row in rows] == [row.position for row in sound]
    assert [bool(row.why) for row in rows] == [False, True, False, True, False, False, True]
    assert rows[1].why.startswith("CRC 0x")
    assert rows[1].header is not None
    assert rows[3].header is None
    assert rows[3].size == sound[3].size
    assert f"the next sound batch is at position {sound[4].position}" in rows[3].why
    assert "of which" in rows[6].why
    assert (rows[2].missing, rows[4].missing) == (2, 4)
    assert rows[4].notes.startswith("4 offsets missing before it")


def test_aborted_transactions_and_markers(tmp_path: Path) -> None:
    path = write_orders(tmp_path)
    part = part_of(path)
    aborted = aborted_in(path, [], 0, 17)
    mark_aborted(part.rows, aborted)
    assert [(one.producer_id, one.first_offset, one.last_offset) for one in aborted] == [(7, 15, 16)]
    assert [row.is_aborted for row in part.rows] == [False] * 5 + [True, False]
    assert (part.rows[5].notes.split(", ")[0], part.rows[6].notes.split(", ")[0]) == ("▲ aborted", "ABORT marker")


def test_an_abort_in_a_later_segment_counts(tmp_path: Path) -> None:
    log = new_log(tmp_path, "orders")
    append_aborted(log, 3)
    log.close()
    index = tmp_path / "orders-0" / f"{0:020d}.txnindex"
    later = tmp_path / "orders-0" / f"{2:020d}.log"
    index.rename(later.with_suffix(".txnindex"))
    assert aborted_in(tmp_path / "orders-0" / FIRST, [], 0, 1) == []
    assert len(aborted_in(tmp_path / "orders-0" / FIRST, [later], 0, 1)) == 1
    later.with_suffix(".txnindex").write_bytes(b"nonsense")
    assert aborted_in(tmp_path / "orders-0" / FIRST, [later], 0, 1) == []


def test_places_are_spread_over_the_file(many: Path) -> None:
    indexes: Indexes = read_indexes(many, 0)
    places = indexes.places(many.stat().st_size)
    assert len(places) > 10
    assert places == sorted(places)


def test_a_page_reads_no_longer_than_it_may_and_the_next_one_goes_on(many: Path) -> None:
    half_seconds = itertools.count()
    part = read_part(open_file(many), read_indexes(many, 0), clock=lambda: next(half_seconds) / 2)
    assert 1 < len(part.rows) < 20
    assert (part.next, part.is_cut) == (part.end, False)
    assert offsets(part_of(many, part.next or 0))[0] == len(part.rows)
