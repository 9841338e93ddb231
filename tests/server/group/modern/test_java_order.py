"""These tests cover the orders of Java's collections; the expected ones come from java.util.HashMap, HashSet and PriorityQueue of
a JDK 17.

What Kafka's assignors make of them is held against Kafka's own classes in the test_assignor*_oracle.py beside their tests.
"""

from __future__ import annotations

import random

from ottla.server.group.modern.java_order import (
    JavaTable,
    PriorityQueue,
    computed_map_order,
    copied_capacity,
    hash_order,
    int_hash,
    partition_order,
    string_hash,
    string_key,
    timeline_map_order,
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


def test_a_queue_gives_back_the_least_first() -> None:
    rng = random.Random(5)
    numbers = [float(rng.randrange(20)) for _ in range(200)]
    queue = PriorityQueue(lambda number: number, numbers)
    assert len(queue) == 200
    assert [queue.poll() for _ in numbers] == sorted(numbers)
    assert queue.poll() is None


def test_equals_leave_a_queue_in_the_order_of_javas_heap() -> None:
    """A real java.util.PriorityQueue returns five equal elements in this order: the first, the last, and then those that moved
    up.
    """
    queue = PriorityQueue(lambda name: 0.0, "abcde")
    assert [queue.poll() for _ in range(5)] == ["a", "e", "d", "c", "b"]


def test_an_element_may_come_back_with_another_key() -> None:
    load = {"a": 1.0, "b": 2.0}
    queue = PriorityQueue(load.__getitem__, load)
    assert queue.poll() == "a"
    load["a"] = 3.0
    queue.add("a")
    assert [queue.poll(), queue.poll()] == ["b", "a"]


def test_what_is_computed_comes_in_front() -> None:
    """ "Aa" and "BB" have the same hash: unlike after put, the one that was added later is listed first."""
    assert computed_map_order(["Aa", "BB", "Aa"], 16) == ["BB", "Aa"]


def test_a_computed_table_grows_with_the_call_after_it_is_full() -> None:
    """The hashes are 97 to 99. Two keys stay in a table of two slots, where "b" is first; the third call enlarges it to four
    slots.
    """
    assert computed_map_order(["a", "b"], 2) == ["b", "a"]
    assert computed_map_order(["a", "b", "c"], 2) == ["a", "b", "c"]


def test_kafkas_table_lists_the_later_of_a_slot_first() -> None:
    assert timeline_map_order(["Aa", "BB"]) == ["BB", "Aa"]
    keys = [f"member-{number}" for number in range(40)]
    assert sorted(timeline_map_order(keys)) == sorted(keys)


def test_a_table_that_keys_are_taken_out_of_stays_as_large() -> None:
    table: JavaTable[int, None] = JavaTable(int_hash)
    for number in range(13):
        table.put(number, None)
    for number in range(12):
        table.discard(number)
    table.put(16, None)
    table.put(0, None)
    assert list(table) == [0, 12, 16], "of 32 slots, where a new table would have 16"


def test_any_call_of_compute_if_absent_makes_a_full_table_larger() -> None:
    """This is true even of a call for a key that is there already."""
    table: JavaTable[int, None] = JavaTable(int_hash, 2)
    table.compute_if_absent(2, lambda: None)
    table.compute_if_absent(0, lambda: None)
    assert list(table) == [0, 2]
    table.compute_if_absent(1, lambda: None)
    assert list(table) == [0, 1, 2]
    other: JavaTable[int, None] = JavaTable(int_hash, 2)
    for key in (2, 1):
        other.compute_if_absent(key, lambda: None)
    assert list(other) == [2, 1]
    other.compute_if_absent(1, lambda: None)
    assert list(other) == [1, 2]
