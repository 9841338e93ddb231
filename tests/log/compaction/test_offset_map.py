"""log/compaction/offset_map.py, each test compiled and uncompiled: the same source, loaded once as the extension and once as
text.
"""

from __future__ import annotations

from hashlib import md5
from types import ModuleType
from typing import Any

import pytest

from ottla.log.compaction import offset_map
from tests.uncompiled import both_ways

module = both_ways(offset_map)


def put(offsets: Any, key: bytes, offset: int) -> bool:
    return bool(offsets.put(b"-" + key + b"-", 1, len(key), offset))


def get(offsets: Any, key: bytes) -> int:
    return int(offsets.get(key + b"-", 0, len(key)))


# Kafka's OffsetMapTest


@pytest.mark.parametrize("items", [10, 100, 1_000, 5_000])
def test_what_was_put_is_found_and_nothing_else(module: ModuleType, items: int) -> None:
    offsets = module.OffsetMap(items * 2 * module.SLOT_BYTES, 1.0, 7)
    for key in range(items):
        assert put(offsets, b"%d" % key, key)
    assert [get(offsets, b"%d" % key) for key in range(items)] == list(range(items))
    assert all(get(offsets, b"x%d" % key) == module.NOT_FOUND for key in range(items))
    assert len(offsets) == items


def test_the_last_offset_put_is_the_one(module: ModuleType) -> None:
    offsets = module.OffsetMap(1000, 0.9, 7)
    for offset in (0, 7, 2**62):
        assert put(offsets, b"k", offset)
        assert get(offsets, b"k") == offset
    assert len(offsets) == 1


def test_cleared(module: ModuleType) -> None:
    offsets = module.OffsetMap(1000, 0.9, 7)
    put(offsets, b"k", 5)
    offsets.latest_offset = 9
    offsets.clear()
    assert (get(offsets, b"k"), len(offsets), offsets.latest_offset) == (-1, 0, -1)


def test_a_full_map_finds_what_is_in_it_and_ends_its_search_for_what_is_not(module: ModuleType) -> None:
    offsets = module.OffsetMap(50 * module.SLOT_BYTES, 1.0, 7)
    taken = [key for key in range(100) if put(offsets, b"%d" % key, key)]
    assert len(taken) == offsets.slots == 47, "a prime number of slots"
    assert offsets.utilization() == 1.0
    assert [get(offsets, b"%d" % key) for key in taken] == taken
    assert get(offsets, b"another") == -1
    assert put(offsets, b"3", 1000), "a key that is in finds its place again"
    assert not put(offsets, b"another", 1000)


def test_no_more_keys_than_the_load_factor_allows(module: ModuleType) -> None:
    offsets = module.OffsetMap(1000 * module.SLOT_BYTES, 0.5, 7)
    assert sum(put(offsets, b"%d" % key, key) for key in range(1000)) == offsets.limit == offsets.slots // 2


def test_primes(module: ModuleType) -> None:
    assert [module.largest_prime(upto) for upto in (2, 3, 4, 9, 10, 25, 100, 7926)] == [2, 3, 3, 7, 7, 23, 97, 7919]


# The two blocks of Wang, Feng, Lai and Yu (2004)
ONE = bytes.fromhex(
    "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5b"
    "d8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70"
)
OTHER = bytes(byte ^ 0x80 if at in {19, 45, 59, 83, 109, 123} else byte for at, byte in enumerate(ONE))


def test_keys_that_were_made_to_have_the_same_md5_are_two_keys(module: ModuleType) -> None:
    assert md5(ONE).digest() == md5(OTHER).digest()
    assert ONE != OTHER
    offsets = module.OffsetMap(1000, 0.9, 7)
    assert put(offsets, ONE, 1)
    assert put(offsets, OTHER, 2)
    assert (get(offsets, ONE), get(offsets, OTHER)) == (1, 2)
