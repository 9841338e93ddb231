"""One number that stands for all that a group's assignment depends on in the topics it reads (KIP-1101).

It is kept with the group's epoch: another number means that a topic came, went, grew or moved to other racks, and the group is
due for a new assignment. Kafka writes the same number, so a log that changes hands causes no rebalance. XXH3 with 64 bits over
what hash4j streams in Kafka: numbers little-endian, a string as UTF-16 units with their count behind them. Signed, as in the
record; 0 is no topic, and a group of none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, Protocol

from ottla.server.group.modern.java_order import string_key

_MAGIC: Final = b"\x00"
"""The version of all this, as Kafka counts it."""
_INT: Final = Struct("<i")
_LONG: Final = Struct("<q")


class Replicated(Protocol):
    """What counts of a partition."""

    @property
    def replicas(self) -> tuple[int, ...]: ...


class Topic(Protocol):
    """What counts of a topic (server/metadata/image.py has the real one)."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Mapping[int, Replicated]: ...


def topic_hash(topic: Topic, rack_of: Callable[[int], str | None]) -> int:
    """`rack_of` a broker by its id; None where it has none."""
    parts = [_MAGIC, topic.topic_id[7::-1], topic.topic_id[:7:-1], _string(topic.name), _INT.pack(len(topic.partitions))]
    for index in sorted(topic.partitions):
        parts.append(_INT.pack(index))
        racks = [rack for broker in topic.partitions[index].replicas if (rack := rack_of(broker)) is not None]
        for rack in sorted(racks, key=string_key):
            parts += [_INT.pack(len(rack.encode("utf-16-le")) // 2), _string(rack)]
    return _xxh3(b"".join(parts))


def group_hash(hashes: Mapping[str, int]) -> int:
    """Of a group whose topics have these hashes, by name; topics that do not exist are left out."""
    if not hashes:
        return 0
    return _xxh3(b"".join(_LONG.pack(hashes[name]) for name in sorted(hashes, key=string_key)))


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + _INT.pack(len(units) // 2)


def _xxh3(data: bytes) -> int:
    import xxhash  # with the first group that needs it: start-up is a promise

    (signed,) = _LONG.unpack(xxhash.xxh3_64_digest(data)[::-1])
    return int(signed)
