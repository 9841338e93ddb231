"""The compiled walk over records: the same as records.decode_records on any batch, and a code for any bytes."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

from ottla.wire import columns, kernel
from ottla.wire.batch import LOG_APPEND_TIME, read_header
from ottla.wire.records import Record, build_batch, decode_records, encode_records, records_section
from tests.uncompiled import uncompiled
from tests.wire.samples import foreign_batches, sample_records

ALL = columns.KEYS | columns.VALUES | columns.HEADERS | columns.OFFSETS | columns.TIMESTAMPS


BOTH = pytest.mark.parametrize("module", [columns, uncompiled(columns)], ids=["compiled", "interpreted"])


def ints(data: bytes, form: str) -> list[int]:
    return [value for (value,) in struct.iter_unpack(form, data)]


def rows(found: Any, buffer: bytes) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """The records that a walk wrote down with everything asked for."""
    bounds, flags = ints(found.bounds.getvalue(), "<i"), found.flags.getvalue()
    header_bounds, header_flags = ints(found.header_bounds.getvalue(), "<i"), found.header_flags.getvalue()
    headers = [
        (
            buffer[header_bounds[4 * at] : header_bounds[4 * at + 1]].decode("utf-8", "surrogateescape"),
            None if null else buffer[header_bounds[4 * at + 2] : header_bounds[4 * at + 3]],
        )
        for at, null in enumerate(header_flags)
    ]
    ends = [0, *ints(found.header_ends.getvalue(), "<i")]
    stamps = zip(ints(found.offsets.getvalue(), "<q"), ints(found.timestamps.getvalue(), "<q"), flags, strict=True)
    return [
        (
            offset,
            timestamp,
            None if flag & columns.KEY_NULL else buffer[bounds[4 * at] : bounds[4 * at + 1]],
            None if flag & columns.VALUE_NULL else buffer[bounds[4 * at + 2] : bounds[4 * at + 3]],
            headers[ends[at] : ends[at + 1]],
        )
        for at, (offset, timestamp, flag) in enumerate(stamps)
    ]


def walk_all(module: Any, batches: list[bytes]) -> tuple[Any, bytes]:
    """Several batches in one buffer, as they are read."""
    found, buffer = module.Columns(), b"".join(records_section(batch, read_header(batch)) for batch in batches)
    at = 0
    for batch in batches:
        header = read_header(batch)
        end = at + len(records_section(batch, header))
        appended = header.timestamp_type == LOG_APPEND_TIME
        base = header.max_timestamp if appended else header.base_timestamp
        assert found.walk(buffer, at, end, header.base_offset, base, appended, ALL) == header.records_count
        at = end
    return found, buffer


def as_rows(batches: list[bytes]) -> list[Any]:
    return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for batch in batches for r in decode_records(batch)]


def random_record(random: Random, at: int) -> Record:
    def some(limit: int) -> bytes | None:
        return None if random.random() < 0.2 else random.randbytes(random.choice([0, 1, 5, limit]))

    headers = [(random.choice(["", "a", "ключ", "\udcff"]), some(70)) for _ in range(random.choice([0, 0, 0, 1, 3]))]
    return Record(at, random.choice([-1, 0, 5, 1_700_000_000_000, 2**62]), some(200), some(300), headers)


@BOTH
def test_it_reads_what_decode_records_reads(module: Any) -> None:
    random = Random(8)
    for round_ in range(60):
        batches = [
            build_batch([random_record(random, at) for at in range(random.randrange(1, 30))], codec=random.randrange(5))
            for _ in range(random.randrange(1, 4))
        ]
        found, buffer = walk_all(module, batches)
        assert rows(found, buffer) == as_rows(batches), round_


@BOTH
def test_batches_of_other_producers(module: Any) -> None:
    batches = list(foreign_batches().values())
    found, buffer = walk_all(module, batches)
    assert rows(found, buffer) == as_rows(batches)


@BOTH
def test_log_append_time_counts_for_every_record(module: Any) -> None:
    section = encode_records(sample_records(5), 0)
    found = module.Columns()
    assert found.walk(section, 0, len(section), 10, 77, True, ALL) == 5
    assert ints(found.timestamps.getvalue(), "<q") == [77] * 5
    assert ints(found.offsets.getvalue(), "<q") == [10, 11, 12, 13, 14]


@BOTH
@pytest.mark.parametrize("wanted", range(32))
def test_only_what_is_asked_for_is_written(module: Any, wanted: int) -> None:
    section = encode_records(sample_records(7), 0)
    found = module.Columns()
    assert found.walk(section, 0, len(section), 0, 0, False, wanted) == 7
    fields = bool(wanted & columns.KEYS) + bool(wanted & columns.VALUES)
    assert len(found.bounds) == 8 * fields * 7
    assert len(found.flags) == (7 if fields else 0)
    assert len(found.offsets) == (56 if wanted & columns.OFFSETS else 0)
    assert len(found.timestamps) == (56 if wanted & columns.TIMESTAMPS else 0)
    assert len(found.header_ends) == (28 if wanted & columns.HEADERS else 0)
    assert len(found.header_bounds) == (32 if wanted & columns.HEADERS else 0)  # the first sample has two


@BOTH
def test_any_bytes_give_a_count_or_a_code(module: Any) -> None:
    """Whatever is refused by one is refused by the other, and nothing is read beyond the end."""
    random = Random(9)
    good = encode_records([random_record(random, at) for at in range(6)], 0)
    refused = 0
    for round_ in range(4000):
        data = bytearray(good if round_ % 2 else random.randbytes(random.randrange(60)))
        for _ in range(random.randrange(4)):
            if data:
                data[random.randrange(len(data))] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])
        section = bytes(data[: random.randrange(len(data) + 1)] if random.random() < 0.3 else data)
        found = module.Columns()
        count = found.walk(section, 0, len(section), 2**63 - 2, 2**63 - 2, False, ALL)
        try:
            spans = kernel.spans(section, 0, len(section))
        except ValueError:
            refused += 1
            assert -count in kernel.REASONS
            assert count < 0
        else:
            assert count == len(spans) == len(rows(found, section))
    assert refused > 1000


@BOTH
def test_places_outside_the_buffer_are_refused(module: Any) -> None:
    section = encode_records(sample_records(2), 0)
    for start, end in ((-1, len(section)), (0, len(section) + 1), (0, 2**40)):
        assert module.Columns().walk(section, start, end, 0, 0, False, ALL) == -kernel.BAD_LENGTH
    assert module.Columns().walk(section, 3, 2, 0, 0, False, ALL) == 0
