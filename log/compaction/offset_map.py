"""The cleaner's map of key -> offset of its latest record, and the loops over records that fill and query it. Compiled by mypyc.

A log may have more keys than fit into memory as objects, so the map keeps no objects: a key is represented by its MD5 (as in
Kafka's map; with 128 bits two keys of the same hash are not to be expected), a slot is 24 bytes in one block, and the caller
chooses the size of the block. Slots are probed by double hashing over a prime number of them, which visits every slot and stays
quick when nine tenths are taken. The kernel provides the block's memory as it is touched, so a map that is too large costs only
what is used of it.

Offsets of a log only grow, so the last one put for a key is the latest. Only `clear` takes anything out.

The functions walk the uncompressed records of one batch (`wire.kernel` describes their layout). Records in the log were checked
when they were appended; one that does not decode raises ValueError, never anything worse.
"""

from mmap import mmap
from typing import Final

from mypy_extensions import i64

from ottla.wire.kernel import BAD_FIELD, BAD_LENGTH, BAD_VARINT, NO_TIMESTAMP, REASONS, varint, varlong, wrapping_add

try:
    from _md5 import md5  # type: ignore[import-not-found]  # half the time of hashlib's, which goes through OpenSSL
except ImportError:
    from hashlib import md5

SLOT_BYTES: Final = 24
NOT_FOUND: Final = -1
_MASK: Final = 9223372036854775807


def int64_at(data: bytes, at: i64) -> i64:
    """Returns the big-endian signed integer in the 8 bytes at `at`, the same compiled and uncompiled."""
    value: i64 = ((data[at] ^ 128) - 128) << 56
    value |= (data[at + 1] << 48) | (data[at + 2] << 40) | (data[at + 3] << 32)
    value |= (data[at + 4] << 24) | (data[at + 5] << 16) | (data[at + 6] << 8) | data[at + 7]
    return value


def largest_prime(upto: i64) -> i64:
    """Returns the largest prime that is not above `upto`, which is at least 2."""
    while upto > 2:
        divisor: i64 = 2
        while divisor * divisor <= upto and upto % divisor != 0:
            divisor += 1
        if divisor * divisor > upto:
            break
        upto -= 1
    return upto


class OffsetMap:
    """Maps keys to offsets. Of the `slots` that fit `memory_bytes`, `limit` may be used; `latest_offset` is the offset up to
    which the log was put in, -1 if nothing was."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        assert memory_bytes >= 2 * SLOT_BYTES, "a map of no slots"
        self.slots: i64 = largest_prime(memory_bytes // SLOT_BYTES)
        self.limit: i64 = max(1, min(int(int(self.slots) * load_factor), int(self.slots)))
        self.clear()

    def clear(self) -> None:
        """Forgets all keys."""
        self._table: memoryview = memoryview(mmap(-1, int(self.slots) * SLOT_BYTES)).cast("q")
        self.entries: i64 = 0
        self.latest_offset: i64 = NOT_FOUND

    def __len__(self) -> int:
        return int(self.entries)

    def utilization(self) -> float:
        """Returns the share of the slots that is taken, from 0 to 1."""
        return int(self.entries) / int(self.slots)

    def find(self, digest: bytes) -> i64:
        """Returns where the slot of this hash begins, or else the empty slot that it would take; -1 if there is neither."""
        table = self._table
        high, low = int64_at(digest, 0), int64_at(digest, 8)
        slot: i64 = (high & _MASK) % self.slots
        step: i64 = 1 + (low & _MASK) % (self.slots - 1) if self.slots > 2 else 1
        probes: i64 = self.slots
        while probes > 0:
            at: i64 = slot * 3
            found: i64 = table[at]
            if found == high and table[at + 1] == low:
                return at
            if found == 0 and table[at + 2] == 0:  # an empty slot: offsets are stored plus one
                return at
            slot += step
            if slot >= self.slots:
                slot -= self.slots
            probes -= 1
        return -1

    def put(self, key: bytes, offset: i64) -> bool:
        """Stores the offset of a key. Returns False and stores nothing if the key is new and the map holds `limit` keys
        already."""
        digest = md5(key).digest()
        at = self.find(digest)
        if at < 0:
            return False
        table = self._table
        if table[at + 2] == 0:
            if self.entries >= self.limit:
                return False
            self.entries += 1
            table[at] = int64_at(digest, 0)
            table[at + 1] = int64_at(digest, 8)
        table[at + 2] = offset + 1
        return True

    def get(self, key: bytes) -> i64:
        """Returns the offset that was put last for the key, or NOT_FOUND."""
        at = self.find(md5(key).digest())
        if at < 0:
            return NOT_FOUND
        found: i64 = self._table[at + 2]
        return found - 1


def fields(buf: bytes, at: i64, stop: i64) -> tuple[i64, i64, i64, i64, i64]:
    """Decodes the record body buf[at:stop] up to its value. Returns (timestamp delta, offset delta, position of the key, size of
    the key, size of the value), where a negative size means null. Raises ValueError."""
    time_delta, at = varlong(buf, at + 1, stop)
    if at < 0:
        raise ValueError(REASONS[BAD_VARINT])
    offset_delta, at = varint(buf, at, stop)
    if at < 0:
        raise ValueError(REASONS[BAD_VARINT])
    key_size, key_at = varint(buf, at, stop)
    if key_at < 0 or key_size > stop - key_at:
        raise ValueError(REASONS[BAD_FIELD])
    value_size, at = varint(buf, key_at + max(key_size, 0), stop)
    if at < 0 or value_size > stop - at:
        raise ValueError(REASONS[BAD_FIELD])
    return time_delta, offset_delta, key_at, key_size, value_size


def put_keys(offsets: OffsetMap, buf: bytes, base_offset: i64, from_offset: i64, end: i64 = -1) -> tuple[int, bool]:
    """Puts the keys of the records in buf[:end], all of it by default, which are of one batch, into the map, from offset
    `from_offset` on.

    Returns (records read, whether all keys found room). Records without a key are passed over. Raises ValueError.
    """
    at: i64 = 0
    count: i64 = 0
    if end < 0:
        end = len(buf)
    elif end > len(buf):
        raise ValueError(REASONS[BAD_LENGTH])
    while at < end:
        size, at = varint(buf, at, end)
        if at < 0 or size < 1 or size > end - at:
            raise ValueError(REASONS[BAD_LENGTH])
        stop: i64 = at + size
        _, delta, key_at, key_size, _ = fields(buf, at, stop)
        offset: i64 = base_offset + delta
        if key_size >= 0 and offset >= from_offset and not offsets.put(buf[key_at : key_at + key_size], offset):
            return int(count), False
        count += 1
        at = stop
    return int(count), True


class Survivors:
    """Holds what `survivors` found in a batch. `runs` delimit the bytes that stay: start, end, start, end …"""

    def __init__(self) -> None:
        self.read: i64 = 0
        self.kept: i64 = 0
        self.keyless: i64 = 0
        self.tombstones: i64 = 0
        """How many of the records that stay are tombstones."""
        self.first_timestamp: i64 = NO_TIMESTAMP
        self.max_timestamp: i64 = NO_TIMESTAMP
        self.last_offset: i64 = NOT_FOUND
        self.runs: list[int] = []


def survivors(
    offsets: OffsetMap, buf: bytes, base_offset: i64, base_timestamp: i64, drop_tombstones: bool, end: i64 = -1
) -> Survivors:
    """Returns which of the records in buf[:end], all of it by default, which are of one batch, stay: those that are the latest of
    their key as far as the map knows, and those beyond what it knows. Records without a key go, and so do tombstones if
    `drop_tombstones`. Raises ValueError."""
    found = Survivors()
    latest: i64 = offsets.latest_offset
    at: i64 = 0
    if end < 0:
        end = len(buf)
    elif end > len(buf):
        raise ValueError(REASONS[BAD_LENGTH])
    begun: i64 = -1
    while at < end:
        start: i64 = at
        size, at = varint(buf, at, end)
        if at < 0 or size < 1 or size > end - at:
            raise ValueError(REASONS[BAD_LENGTH])
        stop: i64 = at + size
        time_delta, delta, key_at, key_size, value_size = fields(buf, at, stop)
        offset: i64 = base_offset + delta
        found.read += 1
        keep: bool = offset > latest
        if not keep:
            if key_size < 0:
                found.keyless += 1
            elif value_size >= 0 or not drop_tombstones:
                keep = offset >= offsets.get(buf[key_at : key_at + key_size])
        if keep:
            found.kept += 1
            if value_size < 0:
                found.tombstones += 1
            timestamp: i64 = wrapping_add(base_timestamp, time_delta)
            if found.kept == 1:
                found.first_timestamp = timestamp
            found.max_timestamp = max(found.max_timestamp, timestamp)
            found.last_offset = offset
            if begun < 0:
                begun = start
        elif begun >= 0:
            found.runs.append(int(begun))
            found.runs.append(int(start))
            begun = -1
        at = stop
    if begun >= 0:
        found.runs.append(int(begun))
        found.runs.append(int(end))
    return found


def encode_varint(value: i64) -> bytes:
    """Returns the zigzag varint of `value`."""
    if -64 <= value < 64:
        return bytes([int((value << 1) ^ (value >> 63))])
    out: list[int] = []
    left: i64 = (value ^ (value >> 63)) & _MASK  # 63 bits without the sign, which becomes the lowest bit of what is written
    group: i64 = ((left & 63) << 1) | ((value >> 63) & 1)
    left >>= 6
    while left > 0:
        out.append(int(group | 128))
        group = left & 127
        left >>= 7
    out.append(int(group))
    return bytes(out)


def join_runs(buf: bytes, runs: list[int]) -> bytes:
    """Returns the bytes of the runs, one after the other, unchanged."""
    return b"".join([buf[runs[at] : runs[at + 1]] for at in range(0, len(runs), 2)])


def rebase(buf: bytes, runs: list[int], shift: i64, fixed: bool) -> bytes:
    """Returns the records in the runs with new timestamp deltas: the old delta plus `shift`, or, if `fixed`, `shift` itself.
    Raises ValueError."""
    parts: list[bytes] = []
    for index in range(0, len(runs), 2):
        at: i64 = runs[index]
        end: i64 = runs[index + 1]
        while at < end:
            size, at = varint(buf, at, end)
            stop: i64 = at + size
            if at < 0 or size < 1 or stop > end:
                raise ValueError(REASONS[BAD_LENGTH])
            attributes: i64 = at
            delta, at = varlong(buf, at + 1, stop)
            if at < 0:
                raise ValueError(REASONS[BAD_VARINT])
            time = encode_varint(shift if fixed else wrapping_add(delta, shift))
            parts.append(encode_varint(1 + len(time) + (stop - at)))
            parts.append(buf[attributes : attributes + 1])
            parts.append(time)
            parts.append(buf[at:stop])
            at = stop
    return b"".join(parts)
