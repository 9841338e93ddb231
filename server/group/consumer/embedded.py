"""Reads and writes the metadata and assignments that consumers of the classic protocol exchange (ConsumerProtocol 0 to 3).

The coordinator needs it only for such members of a consumer group. An int16 version comes first; an unknown newer version is read
as the newest known one, since its fields come first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from ottla.server.group.cluster import Cluster
from ottla.server.group.consumer.member import Held
from ottla.server.group.modern.java_order import hash_order, partition_order, uuid_hash
from ottla.wire.messages.internal import consumer_protocol_assignment, consumer_protocol_subscription
from ottla.wire.messages.internal.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from ottla.wire.messages.internal.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.primitives import Buffer

_INT16 = struct.Struct(">h")


def version_of(data: bytes) -> int:
    """Returns the version to decode with. Raises struct.error or ValueError (wire.frame.MALFORMED) for malformed bytes, as all
    functions here do.
    """
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        raise ValueError(f"the consumer protocol has no version {version}")
    return min(int(version), consumer_protocol_subscription.MAX_VERSION)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    subscription, _ = consumer_protocol_subscription.DECODE[version_of(data)](data, 2)
    return subscription


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    assignment, _ = consumer_protocol_assignment.DECODE[version_of(data)](data, 2)
    return assignment


def write_assignment(assigned: Mapping[bytes, Iterable[int]], version: int, cluster: Cluster) -> bytes:
    """Encodes an assignment. Topics that no longer exist are left out."""
    topics = []
    for topic_id in hash_order(assigned, uuid_hash):
        topic = cluster.topics_by_id.get(topic_id)
        if topic is not None:
            topics.append(TopicPartition(topic.name, partition_order(assigned[topic_id])))
    out: list[Buffer] = [_INT16.pack(version)]
    consumer_protocol_assignment.ENCODE[version](ConsumerProtocolAssignment(topics), out)
    return b"".join(out)


def by_topic_id(parts: Iterable[tuple[str, Iterable[int]]], cluster: Cluster) -> dict[bytes, frozenset[int]]:
    """Returns partitions of topics by topic id instead of by name, without topics that do not exist."""
    found: dict[bytes, frozenset[int]] = {}
    for name, indexes in parts:
        topic = cluster.topics.get(name)
        if topic is not None and (given := frozenset(indexes)):
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | given
    return found


def held_since(assigned: Mapping[bytes, Iterable[int]], epoch: int) -> Held:
    return {topic_id: dict.fromkeys(sorted(indexes), epoch) for topic_id, indexes in assigned.items()}
