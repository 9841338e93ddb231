"""Computes Java's hash of a string, by which every Kafka broker finds the partition of an internal topic for a name."""

from __future__ import annotations

import codecs
import functools
import struct

codecs.lookup("utf-16-le")  # loads the codec now: at the first use its import would fail if no file descriptors were left


@functools.lru_cache(maxsize=10_000)
def java_hash_bucket(text: str, buckets: int) -> int:
    """Returns what Kafka computes as `Utils.abs(text.hashCode()) % buckets`; its `abs` of the smallest int is 0. The hash is
    taken over UTF-16 code units.
    """
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    if value >= 0x80000000:
        value = (0x100000000 - value) & 0x7FFFFFFF
    return value % buckets
