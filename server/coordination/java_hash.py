"""Java's hash of a string, by which every Kafka broker finds the partition of an internal topic that a name belongs to."""

from __future__ import annotations

import codecs
import functools
import struct

codecs.lookup("utf-16-le")  # an import, which fails for the first name that needs it when the process has no descriptors left


@functools.lru_cache(maxsize=10_000)
def java_hash_bucket(text: str, buckets: int) -> int:
    """`abs(text.hashCode()) % buckets` of Java, where the smallest int has the absolute value 0. Hashes UTF-16 units."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    if value >= 0x80000000:
        value = (0x100000000 - value) & 0x7FFFFFFF
    return value % buckets
