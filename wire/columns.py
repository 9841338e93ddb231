"""Records to columns: the loop behind Arrow batches, compiled by mypyc as wire/kernel.py is (setup.py).

With millions of records there is no time to make an object of each. One call of `walk` goes over the records of one batch, in a
buffer that may hold many batches, and writes what Arrow needs, little-endian:

    bounds      int32, two for each field that is asked for, in the order key, value: where it starts and where it ends
    flags       a byte a record: KEY_NULL | VALUE_NULL
    offsets     int64, absolute
    timestamps  int64, ms, absolute
    headers     `header_bounds` int32, four a header: key start, key end, value start, value end; `header_flags` a byte a header,
                VALUE_NULL; `header_ends` int32, one a record: how many headers there are up to its end

The bounds follow the order of the fields in the buffer, so they never decrease. Therefore `bounds` with the buffer itself is an
Arrow binary array in which every second or fourth element is a key or a value: a `take` in C++ selects these
(ottla.pipeline.data_source.columns). Nothing is copied here.

The writers are librt's, to which compiled code appends without the interpreter: 60-100 ns a record. For any bytes the result is a
count or a code of wire.kernel, never an exception; what was written for a batch that is refused must not be used. If neither
keys, values nor headers are wanted, records are skipped by their length without a look inside.
"""

from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from ottla.wire.kernel import (
    BAD_FIELD,
    BAD_HEADER,
    BAD_LENGTH,
    BAD_VARINT,
    skip_headers,
    varint,
    varlong,
    wrapping_add,
)

# What the caller wants, as bits
KEYS: Final = 1
VALUES: Final = 2
HEADERS: Final = 4
OFFSETS: Final = 8
TIMESTAMPS: Final = 16

KEY_NULL: Final = 1
VALUE_NULL: Final = 2

MAX_BUFFER: Final = 2147483647  # bounds are int32


class Columns:
    """The arrays that `walk` writes, for any number of batches."""

    def __init__(self) -> None:
        self.bounds: BytesWriter = BytesWriter()
        self.flags: BytesWriter = BytesWriter()
        self.offsets: BytesWriter = BytesWriter()
        self.timestamps: BytesWriter = BytesWriter()
        self.header_bounds: BytesWriter = BytesWriter()
        self.header_flags: BytesWriter = BytesWriter()
        self.header_ends: BytesWriter = BytesWriter()
        self.header_count: i64 = 0

    def walk(self, buf: bytes, start: i64, end: i64, base_offset: i64, base_timestamp: i64, appended: bool, wanted: i64) -> i64:
        """Adds the records in buf[start:end]; returns how many, or minus the code of what is wrong (wire.kernel.REASONS).

        If `appended` (LogAppendTime), every record has `base_timestamp`, whatever its delta says.
        """
        bounds = self.bounds
        offsets = self.offsets
        timestamps = self.timestamps
        whole: bool = wanted & (KEYS | VALUES | HEADERS) != 0
        at: i64 = start
        count: i64 = 0
        if at < 0 or end > len(buf) or end > MAX_BUFFER:
            return -BAD_LENGTH
        while at < end:
            size, at = varint(buf, at, end)
            if at < 0 or size < 1 or size > end - at:
                return -BAD_LENGTH
            stop: i64 = at + size
            delta, at = varlong(buf, at + 1, stop)
            if at < 0:
                return -BAD_VARINT
            offset_delta, at = varint(buf, at, stop)
            if at < 0:
                return -BAD_VARINT
            if whole:
                key_size, key_at = varint(buf, at, stop)
                if key_at < 0 or key_size > stop - key_at:
                    return -BAD_FIELD
                flag: i64 = 0
                if key_size < 0:
                    key_size = 0
                    flag = KEY_NULL
                at = key_at + key_size
                value_size, value_at = varint(buf, at, stop)
                if value_at < 0 or value_size > stop - value_at:
                    return -BAD_FIELD
                if value_size < 0:
                    value_size = 0
                    flag |= VALUE_NULL
                if wanted & KEYS:
                    write_i32_le(bounds, i32(key_at))
                    write_i32_le(bounds, i32(at))
                at = value_at + value_size
                if wanted & VALUES:
                    write_i32_le(bounds, i32(value_at))
                    write_i32_le(bounds, i32(at))
                if wanted & (KEYS | VALUES):
                    self.flags.append(flag)
                if (at != stop - 1 or buf[at] != 0) and skip_headers(buf, at, stop) != stop:
                    return -BAD_HEADER
                if wanted & HEADERS:
                    self.take_headers(buf, at, stop)
            if wanted & OFFSETS:
                write_i64_le(offsets, wrapping_add(base_offset, offset_delta))
            if wanted & TIMESTAMPS:
                write_i64_le(timestamps, base_timestamp if appended else wrapping_add(base_timestamp, delta))
            at = stop
            count += 1
        return count

    def take_headers(self, buf: bytes, at: i64, stop: i64) -> None:
        """Adds the headers of a record, which `skip_headers` has checked; `at` is the position of their count."""
        bounds = self.header_bounds
        count, at = varint(buf, at, stop)
        while count > 0:
            key_size, key_at = varint(buf, at, stop)
            at = key_at + key_size
            write_i32_le(bounds, i32(key_at))
            write_i32_le(bounds, i32(at))
            value_size, value_at = varint(buf, at, stop)
            flag: i64 = 0
            if value_size < 0:
                value_size = 0
                flag = VALUE_NULL
            at = value_at + value_size
            write_i32_le(bounds, i32(value_at))
            write_i32_le(bounds, i32(at))
            self.header_flags.append(flag)
            self.header_count += 1
            count -= 1
        write_i32_le(self.header_ends, i32(self.header_count))
