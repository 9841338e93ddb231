"""Orders as Java gives them: the expected ones come from java.util.HashMap and HashSet of a JDK 17."""

from __future__ import annotations

from ottla.server.group.modern.java_order import (
    copied_capacity,
    hash_order,
    int_hash,
    partition_order,
    string_hash,
    string_key,
    uuid_hash,
    uuid_key,
)


def test_hashes_of_strings() -> None:
    assert string_hash("") == 0
    assert string_hash("hello") == 99162322
    assert string_hash("polygenelubricants") == 0x80000000
    assert string_hash("\U0001d11e") == 31 * 0xD834 + 0xDD1E, "two units"


def test_hashes_of_uuids() -> None:
    assert uuid_hash(bytes(16)) == 0
    assert uuid_hash(bytes(15) + b"\x01") == 1
    assert uuid_hash(b"\xff" * 8 + bytes(8)) == 0
    assert uuid_hash(b"\x80" + bytes(15)) == 0x80000000


def test_a_map_grows_when_three_quarters_are_used() -> None:
    assert hash_order([16, 1, 0], int_hash) == [16, 0, 1], "one slot of 16, in the order of insertion"
    assert hash_order([*range(16, 3, -1)], int_hash) == [*range(4, 17)], "13 keys have 32 slots"


def test_high_bits_of_a_hash_count() -> None:
    assert hash_order([0x10000, 0], int_hash) == [0, 0x10000]


def test_partitions_of_a_copied_set() -> None:
    assert partition_order({5, 3, 100}) == [3, 100, 5], "100 is in slot 4 of 16"
    assert partition_order(range(30)) == [*range(30)]
    assert copied_capacity(12) == 32
    assert copied_capacity(11) == 16


def test_comparisons() -> None:
    assert string_key("\uffff") > string_key("\U00010000"), "by units, not by code points"
    assert uuid_key(b"\xff" * 16) < uuid_key(bytes(16)), "signed"
