"""log/compaction/record_loops.py, each test compiled and uncompiled: the same source, loaded once as the extension and once as
text.
"""

from __future__ import annotations

import random
from functools import partial
from types import ModuleType

import pytest

from ottla.log.compaction import record_loops
from ottla.log.compaction.offset_map import OffsetMap
from ottla.wire import kernel
from ottla.wire.records import Record, encode_records, varint
from tests.uncompiled import both_ways

module = both_ways(record_loops)


def section(*records: tuple[bytes | None, bytes | None, int]) -> bytes:
    """Records of (key, value, timestamp) from base timestamp 0."""
    return encode_records([Record(0, at, key, value, []) for key, value, at in records], 0)


def test_keys_of_a_batch(module: ModuleType) -> None:
    offsets = OffsetMap(10_000, 0.9, 1)
    data = section((b"a", b"", 0), (None, b"", 0), (b"b", None, 0), (b"a", b"", 0))
    assert module.put_keys(offsets, data, 100, 0) == (4, True)
    assert [offsets.get(key, 0, 1) for key in (b"a", b"b", b"c")] == [103, 102, -1]


def test_keys_from_an_offset_on(module: ModuleType) -> None:
    offsets = OffsetMap(10_000, 0.9, 1)
    module.put_keys(offsets, section((b"a", b"", 0), (b"b", b"", 0)), 100, 101)
    assert (offsets.get(b"a", 0, 1), offsets.get(b"b", 0, 1)) == (-1, 101)


def test_survivors_of_a_batch(module: ModuleType) -> None:
    offsets = OffsetMap(10_000, 0.9, 1)
    data = section((b"a", b"1", 5), (b"b", None, 9), (b"a", b"2", 7), (None, b"", 8), (b"later", b"", 3))
    module.put_keys(offsets, data, 10, 0)
    offsets.latest_offset = 13
    found = module.survivors(offsets, data, 10, 0, False)
    assert (found.read, found.kept, found.keyless, found.tombstones) == (5, 3, 1, 1)
    assert (found.first_timestamp, found.max_timestamp, found.last_offset) == (9, 9, 14)
    kept = module.join_runs(data, found.runs)
    assert [delta for _, _, _, delta, *_ in kernel.spans(kept, 0, len(kept))] == [1, 2, 4]
    found = module.survivors(offsets, data, 10, 0, True)
    assert (found.kept, found.tombstones, found.first_timestamp, found.max_timestamp) == (2, 0, 7, 7)


def test_what_lies_beyond_the_map_stays_whatever_it_is(module: ModuleType) -> None:
    offsets = OffsetMap(10_000, 0.9, 1)
    offsets.put(b"a", 0, 1, 99)
    offsets.latest_offset = 10
    data = section((b"a", b"", 0), (None, b"", 0), (b"b", None, 0))
    found = module.survivors(offsets, data, 11, 0, True)
    assert (found.kept, module.join_runs(data, found.runs)) == (3, data)


@pytest.mark.parametrize("shift", [0, 1, -1, 1 << 40, -(1 << 40), 2**62, -(2**62)])
def test_other_deltas(module: ModuleType, shift: int) -> None:
    times = [0, 63, 64, -64, -65, 1 << 35]
    records = [Record(0, at, b"k", b"v", [("h", None)]) for at in times]
    data = encode_records(records, 0)
    assert module.rebase(data, [0, len(data)], shift, False) == encode_records(records, -shift)
    fixed = encode_records([Record(0, shift, b"k", b"v", [("h", None)]) for _ in times], 0)
    assert module.rebase(data, [0, len(data)], shift, True) == fixed


def test_varints(module: ModuleType) -> None:
    rng = random.Random(1)
    edges = [edge + near for bits in range(64) for edge in (1 << bits, -(1 << bits)) for near in (-1, 0, 1)]
    values = [value for value in edges if -(2**63) <= value < 2**63] + [rng.getrandbits(64) - 2**63 for _ in range(100)]
    assert [module.encode_varint(value) for value in values] == [varint(value) for value in values]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0", kernel.BAD_LENGTH),  # the length is 0
        (b"\1", kernel.BAD_LENGTH),  # -1
        (b"\x04\0", kernel.BAD_LENGTH),  # 2, and one byte is there
        (b"\xff\xff", kernel.BAD_LENGTH),
        (b"\x02\0", kernel.BAD_VARINT),  # nothing behind the attributes
        (b"\x04\0\0", kernel.BAD_VARINT),  # nothing behind the timestamp
        (b"\x06\0\0\0", kernel.BAD_FIELD),  # no key
        (b"\x08\0\0\0\2", kernel.BAD_FIELD),  # a key of one byte, which is not there
        (b"\x0a\0\0\0\2k", kernel.BAD_FIELD),  # no value
        (b"\x0c\0\0\0\2k\2", kernel.BAD_FIELD),
    ],
)
def test_a_broken_record_is_refused_with_its_reason(module: ModuleType, data: bytes, reason: int) -> None:
    offsets = OffsetMap(10_000, 0.9, 1)
    for call in (partial(module.put_keys, offsets, data, 0, 0), partial(module.survivors, offsets, data, 0, 0, False)):
        with pytest.raises(ValueError, match=kernel.REASONS[reason]):
            call()


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_give_an_answer_or_a_value_error(module: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    offsets = OffsetMap(10_000, 0.9, 1)
    offsets.latest_offset = 1 << 40
    whole = section(*((b"k%d" % key, b"v", key) for key in range(5)))
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(data[: rng.randint(0, len(data))])
        for call in (
            partial(module.put_keys, offsets, cut, 0, 0),
            partial(module.survivors, offsets, cut, 0, 0, False),
            partial(module.rebase, cut, [0, len(cut)], 3, False),
        ):
            try:
                call()
            except ValueError:
                continue
