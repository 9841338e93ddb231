"""Subscriptions and assignments of consumers, of known and of newer versions, and bytes that are neither."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.commands.clients.partition import Partition
from ottla.commands.consumer_protocol import ASSIGNMENT, SUBSCRIPTION, assigned_partitions, subscribed_topics, whole_message
from ottla.wire.messages.internal import consumer_protocol_assignment, consumer_protocol_subscription
from ottla.wire.messages.internal.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from ottla.wire.messages.internal.consumer_protocol_subscription import ConsumerProtocolSubscription

READS = ConsumerProtocolSubscription(["orders", "bills"])
HAS = ConsumerProtocolAssignment([TopicPartition("orders", [2, 0]), TopicPartition("bills", [1])])
NEWER = 9


def encoded(message: Any, version: int, says: int | None = None) -> bytes:
    """Returns the message in this version, which says that it is of the version `says`."""
    module = consumer_protocol_subscription if message is READS else consumer_protocol_assignment
    parts: list[Any] = [struct.pack(">h", version if says is None else says)]
    module.ENCODE[version](message, parts)
    return b"".join(parts)


@pytest.mark.parametrize("version", range(4))
def test_each_version_is_read(version: int) -> None:
    assert subscribed_topics(encoded(READS, version)) == ["orders", "bills"]
    assert whole_message(SUBSCRIPTION, encoded(READS, version)) == READS
    assert assigned_partitions(encoded(HAS, version)) == [Partition("orders", 2), Partition("orders", 0), Partition("bills", 1)]
    assert whole_message(ASSIGNMENT, encoded(HAS, version)) == HAS


def test_a_newer_version_is_read_as_far_as_it_is_known_and_is_whole_only_without_fields_of_its_own() -> None:
    assert whole_message(SUBSCRIPTION, encoded(READS, 3, NEWER)) == READS
    assert whole_message(ASSIGNMENT, encoded(HAS, 3, NEWER)) == HAS
    more, larger = encoded(READS, 3, NEWER) + b"new", encoded(HAS, 3, NEWER) + b"new"
    assert (subscribed_topics(more), len(assigned_partitions(larger))) == (["orders", "bills"], 3)
    assert (whole_message(SUBSCRIPTION, more), whole_message(ASSIGNMENT, larger)) == (None, None)


@pytest.mark.parametrize("cut", [lambda data: b"", lambda data: data[:1], lambda data: data[:9], lambda data: b"\xff" + data[1:]])
def test_bytes_that_are_neither_give_nothing(cut: Callable[[bytes], bytes]) -> None:
    """Nothing, half a version, half a message, and a version below zero."""
    reads, has = cut(encoded(READS, 1)), cut(encoded(HAS, 1))
    assert (subscribed_topics(reads), assigned_partitions(has)) == ([], [])
    assert (whole_message(SUBSCRIPTION, reads), whole_message(ASSIGNMENT, has)) == (None, None)
