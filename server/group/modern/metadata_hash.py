"""The metadata hash (KIP-1101) is one number for everything that a group's assignment depends on in the topics it reads.

It is stored with the group's epoch: when the number changes, a topic was created or deleted, grew, or moved to other racks, and
the group needs a new assignment. Kafka writes the same number, so a log that changes hands causes no rebalance. It is XXH3 with
64 bits over the bytes that hash4j streams in Kafka: little-endian numbers, and strings as UTF-16 code units followed by their
count. It is signed, as in the record; 0 is the hash of a missing topic and of a group without topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, Protocol

from ottla.server.group.modern.java_order import string_key

_MAGIC: Final = b"\x00"
"""The version of the hash, as Kafka numbers it."""
_INT: Final = Struct("<i")
_LONG: Final = Struct("<q")


class Replicated(Protocol):
    """The part of a partition that is hashed."""

    @property
    def replicas(self) -> tuple[int, ...]: ...


class Topic(Protocol):
    """The part of a topic that is hashed (the real one is in server/metadata/image.py)."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Mapping[int, Replicated]: ...


def topic_hash(topic: Topic, rack_of: Callable[[int], str | None]) -> int:
    """Returns the hash of one topic. `rack_of` returns the rack of a broker by its id, or None if it has none."""
    parts = [_MAGIC, topic.topic_id[7::-1], topic.topic_id[:7:-1], _string(topic.name), _INT.pack(len(topic.partitions))]
    racks: dict[tuple[int, ...], bytes] = {}  # thousands of partitions are on the same few sets of brokers
    for index in sorted(topic.partitions):
        replicas = topic.partitions[index].replicas
        if replicas not in racks:
            racks[replicas] = _racks(replicas, rack_of)
        parts += (_INT.pack(index), racks[replicas])
    return _xxh3(b"".join(parts))


def _racks(replicas: tuple[int, ...], rack_of: Callable[[int], str | None]) -> bytes:
    racks = [rack for broker in replicas if (rack := rack_of(broker)) is not None]
    return b"".join(_INT.pack(len(rack.encode("utf-16-le")) // 2) + _string(rack) for rack in sorted(racks, key=string_key))


def group_hash(hashes: Mapping[str, int]) -> int:
    """Returns the hash of a group whose topics have these hashes, by name. Topics that do not exist must be left out."""
    if not hashes:
        return 0
    return _xxh3(b"".join(_LONG.pack(hashes[name]) for name in sorted(hashes, key=string_key)))


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + _INT.pack(len(units) // 2)


def _xxh3(data: bytes) -> int:
    import xxhash  # only with the first group that needs it, to keep the start-up short

    (signed,) = _LONG.unpack(xxhash.xxh3_64_digest(data)[::-1])
    return int(signed)
