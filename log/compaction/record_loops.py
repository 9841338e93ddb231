"""The cleaner's loops over the uncompressed records of one batch (`wire.kernel` describes their layout), which fill and query its
map. Compiled by mypyc.

Records in the log were checked when they were appended; one that does not decode raises ValueError, never anything worse.
"""

from typing import Final

from mypy_extensions import i64

from ottla.log.compaction.offset_map import NOT_FOUND, OffsetMap
from ottla.wire.kernel import (
    BAD_FIELD,
    BAD_LENGTH,
    BAD_VARINT,
    NO_TIMESTAMP,
    REASONS,
    varint,
    varlong,
    wrapping_add,
)

_MASK: Final = 9223372036854775807


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


def put_keys(offsets: OffsetMap, buf: bytes, base_offset: i64, from_offset: i64, end: i64 = -1, at: i64 = 0) -> tuple[int, bool]:
    """Puts the keys of the records in buf[at:end], all of it by default, which are of one batch, into the map, from offset
    `from_offset` on.

    Returns (records read, whether all keys found room). Records without a key are passed over. Raises ValueError.
    """
    count: i64 = 0
    if end < 0:
        end = len(buf)
    if at < 0 or end > len(buf):
        raise ValueError(REASONS[BAD_LENGTH])
    while at < end:
        size, at = varint(buf, at, end)
        if at < 0 or size < 1 or size > end - at:
            raise ValueError(REASONS[BAD_LENGTH])
        stop: i64 = at + size
        _, delta, key_at, key_size, _ = fields(buf, at, stop)
        offset: i64 = base_offset + delta
        if key_size >= 0 and offset >= from_offset and not offsets.put(buf, key_at, key_size, offset):
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
        """The number of tombstones among the records that stay."""
        self.first_timestamp: i64 = NO_TIMESTAMP
        self.max_timestamp: i64 = NO_TIMESTAMP
        self.last_offset: i64 = NOT_FOUND
        self.runs: list[int] = []


def survivors(
    offsets: OffsetMap, buf: bytes, base_offset: i64, base_timestamp: i64, drop_tombstones: bool, end: i64 = -1, at: i64 = 0
) -> Survivors:
    """Returns which of the records in buf[at:end], all of it by default, which are of one batch, stay: those that are the latest
    of their key as far as the map knows, and those beyond what it knows. Records without a key go, and so do tombstones if
    `drop_tombstones`. Raises ValueError."""
    found = Survivors()
    latest: i64 = offsets.latest_offset
    if end < 0:
        end = len(buf)
    if at < 0 or end > len(buf):
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
                keep = offset >= offsets.get(buf, key_at, key_size)
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
