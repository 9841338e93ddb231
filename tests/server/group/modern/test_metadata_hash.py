"""These tests cover the metadata hash. The expected numbers come from hash4j 0.22, which Kafka 4.4 uses, fed as Kafka feeds it.

compat_tests/test_cold_swap_groups.py takes over groups that Kafka wrote.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace

from ottla.server.group.modern.metadata_hash import group_hash, topic_hash

ORDERS = struct.pack(">QQ", 0x0102030405060708, 0x90A0B0C0D0E0F001)


def topic(name: str, topic_id: bytes, *replicas: tuple[int, ...]) -> SimpleNamespace:
    parts = {index: SimpleNamespace(replicas=each) for index, each in enumerate(replicas)}
    return SimpleNamespace(name=name, topic_id=topic_id, partitions=parts)


def test_a_topic_with_racks() -> None:
    racks = {1: "rack1", 2: "rä"}
    assert topic_hash(topic("orders", ORDERS, (1,), (2,)), racks.get) == -6620759787300698580


def test_a_topic_without() -> None:
    assert topic_hash(topic("t", struct.pack(">QQ", 1, 2), (1,)), lambda _: None) == 677983168519007417


def test_racks_are_sorted() -> None:
    racks = {1: "a", 2: "b"}
    assert topic_hash(topic("t", ORDERS, (1, 2)), racks.get) == topic_hash(topic("t", ORDERS, (2, 1)), racks.get)


def test_a_group_goes_by_the_names_of_its_topics() -> None:
    assert group_hash({"b": 7, "a": -5}) == 4875440511356949002
    assert group_hash({}) == 0
