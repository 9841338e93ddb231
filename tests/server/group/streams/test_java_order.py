"""Java's orders. What Kafka's assignor makes of them is held against Kafka's own class in test_assignor_oracle.py."""

from __future__ import annotations

import random

from ottla.server.group.streams.java_order import PriorityQueue, computed_map_order, timeline_map_order


def test_a_queue_gives_back_the_least_first() -> None:
    rng = random.Random(5)
    numbers = [float(rng.randrange(20)) for _ in range(200)]
    queue = PriorityQueue(lambda number: number, numbers)
    assert len(queue) == 200
    assert [queue.poll() for _ in numbers] == sorted(numbers)
    assert queue.poll() is None


def test_equals_leave_a_queue_in_the_order_of_javas_heap() -> None:
    """java.util.PriorityQueue, asked: five equal elements come out as first, last, and then those that moved up."""
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
    """ "Aa" and "BB" have the same hash: the one that came later is listed first, unlike after put."""
    assert computed_map_order(["Aa", "BB", "Aa"], 16) == ["BB", "Aa"]


def test_a_computed_table_grows_with_the_call_after_it_is_full() -> None:
    """Their hashes are 97 to 99. Two keys stay in a table for two, where "b" is first; the third call makes it one for four."""
    assert computed_map_order(["a", "b"], 2) == ["b", "a"]
    assert computed_map_order(["a", "b", "c"], 2) == ["a", "b", "c"]


def test_kafkas_table_lists_the_later_of_a_slot_first() -> None:
    assert timeline_map_order(["Aa", "BB"]) == ["BB", "Aa"]
    keys = [f"member-{number}" for number in range(40)]
    assert sorted(timeline_map_order(keys)) == sorted(keys)
