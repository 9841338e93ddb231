"""The loops that run once a record: plain Python that mypyc compiles; without a compiler the same source runs uncompiled.

Kafka's broker looks at every record of every batch that it accepts, and so must ottla: a batch with a wrong count, length or
offset delta would stop each consumer that meets it. In CPython that takes several hundred nanoseconds a record, compiled about
ten. So the loops over record bytes live in this module, wire/columns.py and some modules of log/compaction, which are compiled
(`setup.py`).

A record of a v2 batch (KIP-98, `org.apache.kafka.common.record`), all integers zigzag varints:

    length of the rest | attributes (1 byte, unused) | timestamp delta (64 bit) | offset delta
    | key length (-1: null), key | value length (-1: null), value | header count
    | per header: key length, key (UTF-8, never null), value length (-1: null), value

Varints are accepted as in Kafka: up to five bytes (ten for the timestamp delta), even if that is longer than needed; bits beyond
32 (64) are dropped. Any negative key or value length means null; a negative header key length or header count is refused.

The input is always `bytes`. Compiled code reads a byte of a `bytes` object in a nanosecond; from a memoryview it would go through
the interpreter's general item access (30 times slower), while `bytes(view)` takes 0.02 s/GiB, which is nothing next to the disk.
Every read is checked against the end of its record or of the section: any bytes at all give a code, never an exception, a read
beyond the end or a loop without progress.

Results are codes and plain tuples because a call must be cheap from interpreted code; `REASONS` has a text for each code.
"""

from typing import Final

from mypy_extensions import i64

from ottla.wire.crc import crc32c
from ottla.wire.integers import int32_at, int64_at

OK: Final = 0
FEWER_RECORDS: Final = 1
MORE_RECORDS: Final = 2
BAD_LENGTH: Final = 3
BAD_VARINT: Final = 4
BAD_FIELD: Final = 5
BAD_HEADER: Final = 6
BAD_BODY: Final = 7
BAD_OFFSET_DELTA: Final = 8
TOO_LARGE: Final = 9

REASONS: Final = {
    OK: "well-formed",
    FEWER_RECORDS: "the batch declares more records than it holds",
    MORE_RECORDS: "bytes are left over after the declared number of records",
    BAD_LENGTH: "a record's length is negative or reaches beyond the batch",
    BAD_VARINT: "a variable-length integer is cut short or too long",
    BAD_FIELD: "a key or value reaches beyond its record",
    BAD_HEADER: "a record header is malformed",
    BAD_BODY: "a record's fields are shorter than its length",
    BAD_OFFSET_DELTA: "offset deltas do not count up from 0",
    TOO_LARGE: "a record is larger than max.decompressed.message.bytes",
}

# What can be wrong with single records of a well-formed batch.
KEY_MISSING: Final = 1
TIMESTAMP_OUT_OF_RANGE: Final = 2

NO_TIMESTAMP: Final = -1
MAX_INT64: Final = 9223372036854775807
MIN_INT64: Final = -9223372036854775808
LARGE: Final = 4611686018427387904  # half of it: two numbers below add up without overflow

# A response names at most so many bad records: a megabyte of zeros decompresses to millions of them.
MAX_BAD_RECORDS: Final = 1000


def varint(buf: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Returns (value as int32, position after it); the position is -1 if no varint of at most five bytes ends before `end`.

    `end` must lie inside `buf`; the functions that are called from outside check that once."""
    if at >= end:
        return 0, -1
    c: i64 = buf[at]
    at += 1
    if c < 128:
        return (c >> 1) ^ -(c & 1), at
    value: i64 = c & 127
    shift: i64 = 7
    while at < end and shift < 35:
        c = buf[at]
        at += 1
        value |= (c & 127) << shift
        if c < 128:
            value &= 0xFFFFFFFF
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return 0, -1


def varlong(buf: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Returns (value as int64, position after it); the position is -1 if no varint of at most ten bytes ends before `end`."""
    if at >= end:
        return 0, -1
    c: i64 = buf[at]
    at += 1
    if c < 128:
        return (c >> 1) ^ -(c & 1), at
    low: i64 = c & 127  # the lower 63 bits, which fit without a sign
    top: i64 = 0  # the 64th bit
    shift: i64 = 7
    while at < end and shift < 70:
        c = buf[at]
        at += 1
        if shift < 63:
            low |= (c & 127) << shift
        else:
            top = c & 1
        if c < 128:
            return ((low >> 1) | (top << 62)) ^ -(low & 1), at
        shift += 7
    return 0, -1


def wrapping_add(a: i64, b: i64) -> i64:
    """Returns a + b wrapped around to 64 bits, the same compiled and uncompiled, because a hostile delta must not overflow."""
    if b > 0 and a > MAX_INT64 - b:
        return (a - MAX_INT64 - 1) + (b - MAX_INT64 - 1)
    if b < 0 and a < MIN_INT64 - b:
        return (a - MIN_INT64) + (b - MIN_INT64)
    return a + b


def skip_headers(buf: bytes, at: i64, stop: i64) -> i64:
    """Returns the position after the header count and the headers, or minus the code of what is wrong with them."""
    count, at = varint(buf, at, stop)
    if at < 0:
        return -BAD_VARINT
    if count < 0 or count > stop - at:
        return -BAD_HEADER
    while count > 0:
        size, at = varint(buf, at, stop)
        if at < 0 or size < 0 or size > stop - at:
            return -BAD_HEADER
        at += size
        size, at = varint(buf, at, stop)
        if at < 0 or size > stop - at:
            return -BAD_HEADER
        if size > 0:
            at += size
        count -= 1
    return at


def record_fields(buf: bytes, at: i64, stop: i64) -> tuple[i64, i64, i64, i64]:
    """Walks over the body buf[at:stop] of one record; returns (code, timestamp delta, offset delta, key length)."""
    delta, at = varlong(buf, at + 1, stop)  # skips the byte of attributes, which have no meaning yet
    if at < 0:
        return BAD_VARINT, 0, 0, 0
    offset_delta, at = varint(buf, at, stop)
    if at < 0:
        return BAD_VARINT, 0, 0, 0
    key_size, at = varint(buf, at, stop)
    if at < 0:
        return BAD_VARINT, 0, 0, 0
    if key_size > stop - at:
        return BAD_FIELD, 0, 0, 0
    if key_size > 0:
        at += key_size
    value_size, at = varint(buf, at, stop)
    if at < 0:
        return BAD_VARINT, 0, 0, 0
    if value_size > stop - at:
        return BAD_FIELD, 0, 0, 0
    if value_size > 0:
        at += value_size
    if at == stop - 1 and buf[at] == 0:  # no headers, which is nearly always so
        return OK, delta, offset_delta, key_size
    at = skip_headers(buf, at, stop)
    if at != stop:
        return -at if at < 0 else BAD_BODY, 0, 0, 0
    return OK, delta, offset_delta, key_size


def check_records(
    buf: bytes,
    at: i64,
    end: i64,
    count: i64,
    base_timestamp: i64,
    earliest: i64,
    latest: i64,
    keys_required: bool,
    max_record_bytes: i64,
    first: i64 = 0,
) -> tuple[int, int, int, list[tuple[int, int, int]] | None]:
    """Checks the records in buf[at:end].

    `count` is how many the batch declares, and `first` how many of these come before buf[at:end]: a batch may be checked in
    pieces. `earliest` and `latest` (ms) bound a valid timestamp; -1 (none given) is always valid.
    `max_record_bytes` bounds the body of one record. Returns (code, max timestamp or -1, index of the first record that has it or
    -1, bad records or None). A bad record is (index, KEY_MISSING | TIMESTAMP_OUT_OF_RANGE, its timestamp); at most
    MAX_BAD_RECORDS are named. With FEWER_RECORDS, nothing was wrong so far, and the index is that of the record to follow.
    """
    room: i64 = LARGE if -LARGE < base_timestamp < LARGE else MIN_INT64  # the sum with a delta below this cannot overflow
    index: i64 = first
    max_timestamp: i64 = NO_TIMESTAMP
    index_of_max: i64 = -1
    bad: list[tuple[int, int, int]] | None = None
    if at < 0 or end > len(buf):
        return BAD_LENGTH, NO_TIMESTAMP, -1, None
    while at < end:
        if index >= count:
            return MORE_RECORDS, NO_TIMESTAMP, -1, None
        size, at = varint(buf, at, end)
        if at < 0:
            return BAD_VARINT, NO_TIMESTAMP, -1, None
        if size < 1 or size > end - at:
            return BAD_LENGTH, NO_TIMESTAMP, -1, None
        if size > max_record_bytes:
            return TOO_LARGE, NO_TIMESTAMP, -1, None
        code, delta, offset_delta, key_size = record_fields(buf, at, at + size)
        if code != OK:
            return int(code), NO_TIMESTAMP, -1, None
        at += size
        if offset_delta != index:
            return BAD_OFFSET_DELTA, NO_TIMESTAMP, -1, None
        timestamp: i64 = base_timestamp + delta if -LARGE < delta < room else wrapping_add(base_timestamp, delta)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
            index_of_max = index
        if keys_required and key_size < 0:
            bad = note_bad(bad, index, KEY_MISSING, timestamp)
        elif (timestamp < earliest or timestamp > latest) and timestamp != NO_TIMESTAMP:
            bad = note_bad(bad, index, TIMESTAMP_OUT_OF_RANGE, timestamp)
        index += 1
    if index != count:
        return FEWER_RECORDS, int(max_timestamp), int(index), bad
    return OK, int(max_timestamp), int(index_of_max), bad


def note_bad(bad: list[tuple[int, int, int]] | None, index: i64, what: i64, timestamp: i64) -> list[tuple[int, int, int]]:
    if bad is None:
        bad = []
    if len(bad) < MAX_BAD_RECORDS:
        bad.append((int(index), int(what), int(timestamp)))
    return bad


def whole_records(buf: bytes, at: i64, end: i64) -> tuple[int, int, int]:
    """Counts the whole records at the beginning of buf[at:end] by their lengths alone.

    Returns (how many, the position after the last, how many bytes the record there takes in all; 0 if not even its length is
    whole). Where no record can be, everything up to `end` counts as whole, and who reads it finds out.
    """
    count: i64 = 0
    if at < 0 or end > len(buf):
        return 0, int(end), 0
    while at < end:
        size, begin = varint(buf, at, end)
        if begin < 0:
            return int(count), int(at if end - at < 5 else end), 0
        if size < 1:
            return int(count), int(end), 0
        if size > end - begin:
            return int(count), int(at), int(begin - at + size)
        at = begin + size
        count += 1
    return int(count), int(at), 0


def first_at_or_after(buf: bytes, at: i64, end: i64, base_timestamp: i64, target: i64, least_delta: i64 = 0) -> tuple[int, int]:
    """Returns (offset delta, timestamp) of the first record in buf[at:end] whose timestamp is at least `target` and whose offset
    delta is at least `least_delta`; (-1, -1) if there is none.

    It is for batches of the log, which were checked when they were appended; in a damaged one the search just ends.
    """
    if at < 0 or end > len(buf):
        return -1, -1
    while at < end:
        size, at = varint(buf, at, end)
        if at < 0 or size < 1 or size > end - at:
            break
        stop: i64 = at + size
        delta, at = varlong(buf, at + 1, stop)
        if at < 0:
            break
        timestamp = wrapping_add(base_timestamp, delta)
        if timestamp >= target:
            offset_delta, at = varint(buf, at, stop)
            if at < 0:
                break
            if offset_delta >= least_delta:
                return int(offset_delta), int(timestamp)
        at = stop
    return -1, -1


def spans(buf: bytes, at: i64, end: i64) -> list[tuple[int, int, int, int, int, int, int, int]]:
    """Returns where the parts of each record in buf[at:end] lie, for decoding, compaction and columns.

    There is one tuple a record: (start, end, timestamp delta, offset delta, key position, key length, value position, value
    length), with the length -1 for null; the header count follows right after the value. Raises ValueError at the first malformed
    record.
    """
    found: list[tuple[int, int, int, int, int, int, int, int]] = []
    if at < 0 or end > len(buf):
        raise ValueError(REASONS[BAD_LENGTH])
    while at < end:
        start: i64 = at
        size, at = varint(buf, at, end)
        if at < 0 or size < 1 or size > end - at:
            raise ValueError(REASONS[BAD_LENGTH])
        stop: i64 = at + size
        delta, at = varlong(buf, at + 1, stop)
        if at < 0:
            raise ValueError(REASONS[BAD_VARINT])
        offset_delta, at = varint(buf, at, stop)
        if at < 0:
            raise ValueError(REASONS[BAD_VARINT])
        key_size, key_at = varint(buf, at, stop)
        if key_at < 0 or key_size > stop - key_at:
            raise ValueError(REASONS[BAD_FIELD])
        key_size = max(key_size, -1)
        value_size, value_at = varint(buf, key_at + max(key_size, 0), stop)
        if value_at < 0 or value_size > stop - value_at:
            raise ValueError(REASONS[BAD_FIELD])
        value_size = max(value_size, -1)
        at = skip_headers(buf, value_at + max(value_size, 0), stop)
        if at != stop:
            raise ValueError(REASONS[BAD_HEADER])
        found.append(
            (int(start), int(stop), int(delta), int(offset_delta), int(key_at), int(key_size), int(value_at), int(value_size))
        )
    return found


def header_spans(buf: bytes, at: i64, stop: i64) -> list[tuple[int, int, int, int]]:
    """Returns (key position, key length, value position, value length or -1) of each header of the record that ends at `stop`;
    `at` is the position of the header count. Raises ValueError where they are malformed."""
    found: list[tuple[int, int, int, int]] = []
    if skip_headers(buf, at, stop) != stop:
        raise ValueError(REASONS[BAD_HEADER])
    count, at = varint(buf, at, stop)
    while count > 0:
        key_size, key_at = varint(buf, at, stop)
        value_size, value_at = varint(buf, key_at + key_size, stop)
        value_size = max(value_size, -1)
        at = value_at + max(value_size, 0)
        found.append((int(key_at), int(key_size), int(value_at), int(value_size)))
        count -= 1
    return found


# What BatchScan.feed returns.
NEED_MORE: Final = 0
BAD_FRAME: Final = 20
BAD_CRC: Final = 21
BAD_OFFSETS: Final = 22
OFFSET_OVERFLOW: Final = 23

SCAN_REASONS: Final = {
    BAD_FRAME: "no complete batch of version 2",
    BAD_CRC: "a CRC does not match",
    BAD_OFFSETS: "offsets do not ascend",
    OFFSET_OVERFLOW: "offsets are too far from the segment's first",
}

BATCH_HEADER: Final = 61
COPY_BELOW: Final = 4096  # a copy of fewer bytes costs less than a view of them
PLAIN: Final = 0
TRANSACTIONAL: Final = 1
CONTROL: Final = 2
PRODUCER_BATCHES: Final = 5  # how many batches of a producer the log remembers


class BatchScan:
    """Checks the batches of a segment one after the other, as recovery must: framing, CRC, ascending offsets.

    What it learns on the way is in its attributes and outlives the buffers: `sound` is where the last good batch ends in the
    file, and `expected` the offset after it; `last_position`, `last_offset`, `last_epoch` and `last_crc` are that batch's start,
    base offset, leader epoch and CRC. `entries` are the entries that the offset index gets, as (last offset, position), and
    `times` those of the time index, as (greatest timestamp so far, its offset). `epochs` are the leader epochs above
    `latest_epoch`, as (epoch, first offset), and `producers` the batches that producer state must see, as (position, size,
    producer id, PLAIN | TRANSACTIONAL | CONTROL). `gaps` says that an offset is missing between two batches or in one, which only
    a compaction causes.
    """

    def __init__(self, base_offset: i64, interval_bytes: i64, latest_epoch: i64) -> None:
        self.base_offset: i64 = base_offset
        self.interval_bytes: i64 = interval_bytes
        self.expected: i64 = base_offset
        self.sound: i64 = 0
        self.last_position: i64 = -1
        self.last_offset: i64 = -1
        self.last_epoch: i64 = -1
        self.last_crc: i64 = 0
        self.since_index: i64 = 0
        self.max_timestamp: i64 = NO_TIMESTAMP
        self.offset_of_max: i64 = base_offset
        self.latest_epoch: i64 = latest_epoch
        self.gaps: bool = False
        self.entries: list[tuple[int, int]] = []
        self.times: list[tuple[int, int]] = []
        self.last_time: i64 = NO_TIMESTAMP
        self.epochs: list[tuple[int, int]] = []
        self.producers: list[tuple[int, int, int, int]] = []

    def feed(self, buf: bytes, end: i64) -> int:
        """Continues with the bytes at `sound` of a file that ends at `end`. Returns NEED_MORE if the caller is to feed again from
        the new `sound` on, unless that is the end (a batch that is not whole in the buffer is left for the next one), and
        otherwise the code of what is wrong with the batch at `sound`.
        """
        at: i64 = 0
        length: i64 = len(buf)
        rest: i64 = end - self.sound
        view = memoryview(buf)
        while at + BATCH_HEADER <= length:
            size: i64 = int32_at(buf, at + 8) + 12
            if size < BATCH_HEADER or size > rest - at or buf[at + 16] != 2:
                return BAD_FRAME
            stop: i64 = at + size
            if stop > length:
                return NEED_MORE
            crc = crc32c(buf[at + 21 : stop]) if size < COPY_BELOW else crc32c(view[at + 21 : stop])
            if crc != int32_at(buf, at + 17) & 0xFFFFFFFF:
                return BAD_CRC
            code = self.note(buf, at, size)
            if code != NEED_MORE:
                return code
            at = stop
        return NEED_MORE if length < rest or at == length else BAD_FRAME

    def note(self, buf: bytes, at: i64, size: i64) -> int:
        """Notes one batch, which is sound except perhaps for its offsets; returns the code for these."""
        first: i64 = int64_at(buf, at)
        delta: i64 = int32_at(buf, at + 23)
        if first < self.expected or delta < 0 or first > LARGE:
            return BAD_OFFSETS
        last: i64 = first + delta
        if last - self.base_offset > 2147483647:
            return OFFSET_OVERFLOW
        if first != self.expected or int32_at(buf, at + 57) <= delta:
            self.gaps = True
        timestamp: i64 = int64_at(buf, at + 35)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max = last
        if self.since_index > self.interval_bytes:
            self.entries.append((int(last), int(self.sound)))
            if self.max_timestamp > self.last_time:
                self.last_time = self.max_timestamp
                self.times.append((int(self.max_timestamp), int(self.offset_of_max)))
            self.since_index = 0
        self.since_index += size
        epoch: i64 = int32_at(buf, at + 12)
        if epoch > self.latest_epoch:
            self.latest_epoch = epoch
            self.epochs.append((int(epoch), int(first)))
        producer_id: i64 = int64_at(buf, at + 43)
        if producer_id >= 0:
            kind: i64 = buf[at + 22] & 0x30
            what: i64 = CONTROL if kind & 0x20 else TRANSACTIONAL if kind else PLAIN
            self.producers.append((int(self.sound), int(size), int(producer_id), int(what)))
        self.last_position, self.last_offset, self.last_epoch = self.sound, first, epoch
        self.last_crc = int32_at(buf, at + 17) & 0xFFFFFFFF
        self.sound += size
        self.expected = last + 1
        return NEED_MORE

    def thin(self) -> None:
        """Drops from `producers` the batches that later ones of the same producer make irrelevant. What stays is the first batch
        of each transaction, the first of each producer (the order of producers shows in a snapshot) and its last few, and all
        markers."""
        seen: dict[int, int] = {}
        late: set[int] = set()
        for entry in reversed(self.producers):
            count = seen.get(entry[2], 0)
            if count < PRODUCER_BATCHES and entry[3] != CONTROL:
                seen[entry[2]] = count + 1
                late.add(entry[0])
        opened: set[int] = set()
        met: set[int] = set()
        kept: list[tuple[int, int, int, int]] = []
        for entry in self.producers:
            keep = entry[0] in late or entry[2] not in met
            met.add(entry[2])
            if entry[3] == CONTROL:
                opened.discard(entry[2])
                keep = True
            elif entry[3] == TRANSACTIONAL and entry[2] not in opened:
                opened.add(entry[2])
                keep = True
            if keep:
                kept.append(entry)
        self.producers = kept
