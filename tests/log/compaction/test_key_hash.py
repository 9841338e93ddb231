"""log/compaction/key_hash.py, compiled and uncompiled: it is the hash that its docstring defines, whatever the key."""

from __future__ import annotations

import random
from hashlib import blake2b
from types import ModuleType

import pytest

from ottla.log.compaction import key_hash
from tests.uncompiled import both_ways

PRIME = 2**31 - 1
SEED = random.Random(1).getrandbits(key_hash.SEED_BITS)


module = both_ways(key_hash)


def by_definition(key: bytes, seed: int) -> tuple[int, int]:
    """The hash in Python's unbounded integers."""
    if len(key) > 128:
        key = blake2b(key, digest_size=32, key=seed.to_bytes(32, "big")).digest()
    words = [len(key)] + [int.from_bytes(key[at : at + 3].ljust(3, b"\0"), "big") for at in range(0, len(key), 3)]
    points = [(seed >> shift) % 2**30 for shift in (0, 64, 128, 192)]
    values = [sum(word * point**power for power, word in enumerate(reversed(words))) % PRIME for point in points]
    return values[0] << 31 | values[1], values[2] << 31 | values[3]


@pytest.mark.parametrize("size", [*range(10), 12, 36, 127, 128, 129, 1000])
def test_the_hash_is_the_one_that_is_defined(module: ModuleType, size: int) -> None:
    rng = random.Random(size)
    for key in (bytes(size), b"\xff" * size, rng.randbytes(size)):
        for seed in (SEED, 0, 2**256 - 1, rng.getrandbits(256)):
            found = module.KeyHash(seed).hash_of(b"before" + key + b"behind", 6, size)
            assert found == by_definition(key, seed)
            assert all(0 <= half < 2**62 for half in found)


def test_zeros_at_the_end_count(module: ModuleType) -> None:
    keys = [b"a" + bytes(zeros) for zeros in range(10)] + [bytes(zeros) for zeros in range(10)]
    assert len({module.KeyHash(SEED).hash_of(key, 0, len(key)) for key in keys}) == len(keys)


@pytest.mark.parametrize("point", range(4))
def test_each_of_the_four_points_counts(module: ModuleType, point: int) -> None:
    other = SEED ^ 1 << 64 * point
    assert module.KeyHash(SEED).hash_of(b"key", 0, 3) != module.KeyHash(other).hash_of(b"key", 0, 3)


def test_keys_do_not_meet(module: ModuleType) -> None:
    hashed = module.KeyHash(SEED)
    keys = [b"%d" % number for number in range(5_000)]
    for half in (0, 1):
        assert len({hashed.hash_of(key, 0, len(key))[half] for key in keys}) == len(keys)
