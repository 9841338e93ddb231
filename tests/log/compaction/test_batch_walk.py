"""log/compaction/batch_walk.py, compiled and uncompiled: what a walk makes of plain batches is what comes of them one by one."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

from ottla.log.compaction import batch_walk
from ottla.log.compaction.cleaning_job import CleaningJob
from ottla.log.compaction.filtered_batch import Rules, filter_batch
from ottla.log.compaction.offset_map import SLOT_BYTES, OffsetMap
from ottla.log.compaction.record_loops import put_keys
from ottla.wire.batch import read_header, restamp, stamp
from ottla.wire.compression import GZIP
from ottla.wire.records import Record, build_batch, records_section
from tests.log.support import marker
from tests.uncompiled import both_ways

NOW, END = 10_000, 1_000


module = both_ways(batch_walk)


def batch(at: int, *records: tuple[bytes | None, bytes | None], **fields: Any) -> bytes:
    """The records, a millisecond apart from 1000 ms on, as a leader has stamped them."""
    made = [Record(0, 1000 + index, key, value, []) for index, (key, value) in enumerate(records)]
    return placed(build_batch(made, **fields), at)


def placed(data: bytes, at: int) -> bytes:
    return stamp(read_header(data), at, 2) + data[16:]


def rules(offsets: OffsetMap, producers: list[tuple[int, int, int]] | None = None) -> Rules:
    job = CleaningJob("t", 0, "/t-0", [], 0, END, NOW, 500, 1, 1, 1, producers or [], [], 1, 0.9, 1, 1.0, 1 << 20, 1)
    return Rules(offsets, job)


def offsets_of(*batches: bytes) -> OffsetMap:
    offsets = OffsetMap(100_000, 0.9, 1)
    for data in batches:
        header = read_header(data)
        put_keys(offsets, records_section(data, header), header.base_offset, 0)
        offsets.latest_offset = header.last_offset
    return offsets


PLAIN = batch(10, (b"a", b"1"), (b"b", b"2"))
NOT_PLAIN = {
    "compressed": batch(12, (b"a", b"1"), codec=GZIP),
    "transactional": batch(12, (b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
    "a marker": placed(marker(7, 0, commit=True), 12),
    "with a delete horizon": restamp(
        read_header(one := batch(12, (b"a", None))), one[61:], attributes=0x40, max_timestamp=1, base_offset=12
    )
    + one[61:],
    "of another magic": PLAIN[:16] + b"\1" + PLAIN[17:],
    "cut short": PLAIN[:-1],
    "less than a header": PLAIN[:60],
    "of a size that no batch has": PLAIN[:8] + b"\0\0\0\1" + PLAIN[12:],
    "at an impossible offset": b"\x80" + PLAIN[1:],
    "of an impossible size in offsets": PLAIN[:23] + b"\xff" + PLAIN[24:],
    "not decodable": restamp(read_header(PLAIN), b"\xff" * 9, attributes=0, max_timestamp=1, base_offset=12) + b"\xff" * 9,
    "nothing": b"",
}


@pytest.mark.parametrize("following", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_a_walk_ends_where_something_is_unusual(module: ModuleType, following: bytes) -> None:
    offsets = OffsetMap(10_000, 0.9, 1)
    assert module.note_batches(offsets, b"xyz" + PLAIN + following, 3, 0) == (3 + len(PLAIN), 2)
    assert offsets.latest_offset == 11
    passed = module.Passed(10)
    assert module.pass_batches(rules(offsets), b"xyz" + PLAIN + following, 3, passed) == 3 + len(PLAIN)
    assert b"".join(passed.parts) == PLAIN
    assert (passed.next_offset, passed.read, passed.batches) == (12, 2, [(len(PLAIN), 11, 1001)])


def test_keys_are_noted_from_an_offset_on(module: ModuleType) -> None:
    offsets = OffsetMap(10_000, 0.9, 1)
    block = PLAIN + batch(12, (b"c", b""), (b"d", b"")) + batch(14, (b"e", b""))
    assert module.note_batches(offsets, block, 0, 13) == (len(block), 3)
    assert [offsets.get(key, 0, 1) for key in (b"a", b"b", b"c", b"d", b"e")] == [-1, -1, -1, 13, 14]
    assert offsets.latest_offset == 14


def test_a_batch_that_does_not_fit_the_map_is_left(module: ModuleType) -> None:
    offsets = OffsetMap(5 * SLOT_BYTES, 0.6, 1)
    following = batch(12, (b"b", b"3"), (b"c", b"4"), (b"d", b"5"))
    assert module.note_batches(offsets, PLAIN + following, 0, 0) == (len(PLAIN), 2)
    assert (offsets.latest_offset, offsets.get(b"d", 0, 1)) == (11, -1)


@pytest.mark.parametrize(
    ("block", "next_offset"), [(PLAIN[:-1] + b"x", 0), (PLAIN, 11)], ids=["the CRC does not match", "the offset was there before"]
)
def test_damage_is_left_to_who_can_name_it(module: ModuleType, block: bytes, next_offset: int) -> None:
    passed = module.Passed(next_offset)
    assert module.pass_batches(rules(OffsetMap(10_000, 0.9, 1)), block, 0, passed) == 0
    assert (passed.parts, passed.batches, passed.read) == ([], [], 0)


@pytest.mark.parametrize("seed", range(30))
def test_what_stays_is_what_stays_of_each_batch(module: ModuleType, seed: int) -> None:
    """Batches of all kinds of keys and values, some larger than what is copied for its CRC."""
    rng = random.Random(seed)
    batches, at = [], 0
    while at < 300:
        records = [
            (rng.choice([None, *(b"%d" % key for key in range(60))]), rng.choice([None, b"v", bytes(9_000)]))
            for _ in range(rng.randint(1, 4))
        ]
        fields = rng.choice([{}, {"timestamp_type": 1}, {"producer_id": 7, "producer_epoch": 0, "base_sequence": at}])
        batches.append(batch(at, *records, **fields))
        at += len(records) + rng.choice([0, 0, 5])
    offsets = offsets_of(*batches[: rng.randint(1, len(batches))])
    last = [read_header(each).last_offset for each in batches if read_header(each).producer_id == 7][-1:]
    by = rules(offsets, [(7, offset, 0) for offset in last])
    expected = [(filter_batch(each, read_header(each), False, by), read_header(each)) for each in batches]
    block, passed = b"".join(batches), module.Passed(0)
    assert module.pass_batches(by, block, 0, passed) == len(block)
    assert b"".join(passed.parts) == b"".join(part for result, _ in expected for part in result.parts)
    assert passed.batches == [
        (sum(map(len, result.parts)), header.last_offset, result.max_timestamp) for result, header in expected if result.parts
    ]
    for name in ("read", "kept", "keyless"):
        assert getattr(passed, name) == sum(getattr(result, name) for result, _ in expected)
    assert passed.next_offset == read_header(batches[-1]).next_offset
    assert all(type(part) is bytes for part in passed.parts), "a view would keep the whole block until it is written"
