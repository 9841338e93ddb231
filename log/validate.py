"""Checks a batch before a leader writes it, in Kafka's order and with Kafka's errors.

Kafka spreads this over three places (`ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`);
here it is one sequence, the cheapest checks first:

    framing    exactly one batch of magic 2; a partial one behind it is dropped        InvalidRecord, CorruptRecord
    codec      zstd only since Produce v7; a number without codec is refused          UnsupportedCompression, InvalidRecord
    header     base offset 0, size, CRC, counts, no control batch, sequence          InvalidRecord, RecordTooLarge, CorruptRecord
    records    decompressed within bounds, then wire/kernel.py                         InvalidRecord
    meaning    keys on compacted topics, timestamps                                    InvalidRecord, InvalidTimestamp
    result     LogAppendTime, right maximum timestamp, the topic's codec               RecordTooLarge, RecordListTooLarge

A batch that needs no change is written as it came, except for the first sixteen bytes (`ValidatedBatch.parts`). A changed maximum
timestamp or timestamp type needs a new header, another codec needs a new records section, too.

Where ottla differs from Kafka 4.4, on purpose:

- An undefined codec or a payload that does not decode is INVALID_RECORD, where Kafka answers UNKNOWN_SERVER_ERROR. Both are final
  for clients; CORRUPT_MESSAGE would be retried for minutes and never succeed.
- Null records are INVALID_RECORD; Kafka's handler dies and never answers.
- A producer id with epoch -1 is INVALID_PRODUCER_EPOCH also where the partition does not know the producer yet.
- Records of a compressed batch are checked as strictly as plain ones; Kafka only skims them, and consumers fail on them instead.
- Offset deltas that do not count up from 0 are INVALID_RECORD. Kafka stores them in a plain batch, on which consumers fail, and
  answers UNKNOWN_SERVER_ERROR for a compressed one (its repair fails there); only when it recompresses a batch it repairs them.
- The records of a compressed batch may not take more than `ottla.max.decompressed.batch.bytes` once decompressed; Kafka bounds
  only single records (`max.decompressed.message.bytes`). More is MESSAGE_TOO_LARGE, on which Java's producer splits the batch and
  sends it again.
- An answer names at most 1,000 bad records.

A compressed batch is checked piece by piece (wire/record_pieces.py), and what lies behind the first error is not decompressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, Protocol

from mypy_extensions import i64

from ottla.log.errors import (
    CorruptRecord,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    NotABatch,
    NotOneBatch,
    NotValidated,
    RecordListTooLarge,
    RecordTooLarge,
    UnsupportedCompression,
)
from ottla.wire import kernel
from ottla.wire.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    KNOWN_BITS,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
    restamp,
    stamp,
)
from ottla.wire.compression import NAMES, NONE, NUMBERS, ZSTD, CompressionError, TooLarge, compress, decompress
from ottla.wire.crc import crc32c
from ottla.wire.primitives import Buffer
from ottla.wire.record_pieces import RecordTooLarge as LargeRecord
from ottla.wire.record_pieces import record_pieces

_STAMPED: Final = 16  # bytes of a header that stamp() replaces
_SIZE_AND_MAGIC: Final = Struct(">8xi4xb")
_MIN_FRAMED: Final = 17  # up to and including the magic, the first byte that tells formats apart
_MIN_BATCH_LENGTH: Final = 14  # the least that any format ever had
QUICK_BYTES: Final = 64 * 1024
"""The most bytes to decompress or to compress where there is little time: 64 KiB of gzip take about 2 ms either way."""
QUICK_DECOMPRESSED_BYTES: Final = 1024 * 1024
"""The most bytes to come out where there is little time: for gzip about 4 ms."""
AS_PRODUCED: Final = -1
"""Stands for `compression.type` producer in BatchRules: whatever codec the batch has."""
_CODEC_NUMBERS: Final = NUMBERS | {"uncompressed": NONE}  # the values of compression.type


class Origin(IntEnum):
    """Says who appends a batch, on which depends how much of it is checked."""

    CLIENT = 0
    COORDINATOR = 1  # our own group and transaction coordinators, which may write control batches and gaps in sequences
    REPLICATION = 2  # a leader's batches, which the leader has checked
    RAFT_LEADER = 3  # cluster metadata


_CLIENT: Final = Origin.CLIENT  # looking a member up in its class costs as much as a struct.unpack
_REPLICATION: Final = Origin.REPLICATION
_RAFT_LEADER: Final = Origin.RAFT_LEADER


class ValidationConfig(Protocol):
    """The settings of a topic that count here; log.config.LogConfig has them all."""

    @property
    def max_message_bytes(self) -> int: ...
    @property
    def segment_bytes(self) -> int: ...
    @property
    def cleanup_policy(self) -> frozenset[str]: ...
    @property
    def message_timestamp_type(self) -> str: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...
    @property
    def compression_type(self) -> str: ...
    @property
    def compression_gzip_level(self) -> int: ...
    @property
    def compression_lz4_level(self) -> int: ...
    @property
    def compression_zstd_level(self) -> int: ...
    @property
    def max_decompressed_message_bytes(self) -> int: ...
    @property
    def max_decompressed_batch_bytes(self) -> int: ...


class BatchRules:
    """The demands that a topic's settings make on a batch, looked up once and not with every batch."""

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "codec",
        "keys_required",
        "level",
        "max_decompressed_batch_bytes",
        "max_decompressed_message_bytes",
        "max_message_bytes",
        "segment_bytes",
        "stamps_time",
    )

    def __init__(self, config: ValidationConfig) -> None:
        self.max_message_bytes: i64 = config.max_message_bytes
        self.segment_bytes: i64 = config.segment_bytes
        self.keys_required: bool = "compact" in config.cleanup_policy
        self.stamps_time: bool = config.message_timestamp_type == "LogAppendTime"
        """True if records get the broker's time."""
        self.before_max_ms: i64 = config.message_timestamp_before_max_ms
        self.after_max_ms: i64 = config.message_timestamp_after_max_ms
        codec = AS_PRODUCED if config.compression_type == "producer" else _CODEC_NUMBERS[config.compression_type]
        self.codec: i64 = codec
        self.level: int | None = None if codec == AS_PRODUCED else _level(codec, config)
        """The level of `codec`, if it has levels."""
        self.max_decompressed_message_bytes: i64 = config.max_decompressed_message_bytes
        self.max_decompressed_batch_bytes: i64 = config.max_decompressed_batch_bytes


class ValidatedBatch:
    """A batch that may be written. It holds views of the buffer it was read from, so it must be written before that is reused."""

    __slots__ = ("header", "log_append_time_ms", "tail")

    header: BatchHeader
    """The header as it will be written, except for base offset and leader epoch. Its `max_timestamp` is the true one."""
    tail: list[Buffer]
    """All bytes after the first sixteen."""
    log_append_time_ms: i64
    """The broker's time if the topic uses that, else -1; Produce answers with it."""

    def __init__(self, header: BatchHeader, tail: list[Buffer], log_append_time_ms: i64) -> None:
        self.header = header
        self.tail = tail
        self.log_append_time_ms = log_append_time_ms

    def parts(self, base_offset: int, leader_epoch: int) -> list[Buffer]:
        """Returns the batch as the leader writes it, in parts for one writev; a short one in one part, which takes less time."""
        tail = self.tail
        first = tail[0]
        if len(tail) == 1 and type(first) is bytes:
            return [stamp(self.header, base_offset, leader_epoch) + first]
        return [stamp(self.header, base_offset, leader_epoch), *tail]


def validate_for_append(
    buf: Buffer | None,
    rules: BatchRules,
    now_ms: int,
    origin: Origin = _CLIENT,
    *,
    zstd_allowed: bool = True,
    quickly: bool = False,
) -> ValidatedBatch:
    """Returns the one batch in `buf`, ready to be written. Raises the errors that the module's docstring names.

    `zstd_allowed` is False for Produce below v7. With `quickly` it raises NotValidated before it does anything that takes more
    than about 5 ms. The sequence is checked later, by ProducerStates.check.
    """
    assert origin is not _REPLICATION, "replicated batches are written as they are"
    header = _one_batch(buf)
    assert buf is not None
    codec: i64 = header.attributes & CODEC_MASK
    if codec == ZSTD and not zstd_allowed:
        raise UnsupportedCompression("zstd needs Produce version 7 or later")
    _check_header(buf, header, rules, origin)
    if codec > ZSTD:
        raise InvalidRecord(f"no codec has the number {codec}")
    size: i64 = header.batch_length + LENGTH_OVERHEAD
    target: i64 = codec if rules.codec == AS_PRODUCED or (header.is_control and codec == NONE) else rules.codec
    section = b""  # the uncompressed records, if another codec is to compress them
    max_timestamp: i64
    if codec != NONE:
        if quickly and size > QUICK_BYTES:
            raise NotValidated(f"{size} bytes are to be decompressed")
        packed, most = memoryview(buf)[HEADER_SIZE:size], _most_bytes(rules, quickly)
        if target == codec:
            pieces = record_pieces(codec, packed, most, rules.max_decompressed_message_bytes)
        else:
            section = _decompressed(codec, packed, most, rules)
            pieces = iter([(section, len(section))])
        max_timestamp = _check_pieces(pieces, header, rules, now_ms, most)
    else:
        # The kernel reads bytes only, and a copy is cheap.
        data = buf if type(buf) is bytes and len(buf) == size else bytes(memoryview(buf)[:size])
        max_timestamp = _check_records(data, header, rules, now_ms)
        if target != NONE:
            section = data[HEADER_SIZE:]

    attributes: i64 = header.attributes & ~LOG_APPEND_TIME_BIT
    if rules.stamps_time:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp = now_ms
    if target == codec:
        if attributes == header.attributes and max_timestamp == header.max_timestamp:
            batch = ValidatedBatch(header, [_behind(buf, _STAMPED, size)], -1)
        else:
            changed = header.replace(attributes=attributes, max_timestamp=max_timestamp)
            batch = _rewritten(changed, _behind(buf, HEADER_SIZE, size))
    else:
        if quickly and len(section) > QUICK_BYTES:
            raise NotValidated(f"{len(section)} bytes are to be compressed")
        wanted = header.replace(attributes=attributes & ~CODEC_MASK | target, max_timestamp=max_timestamp)
        batch = _recompressed(wanted, section, rules)
    if rules.stamps_time:
        batch.log_append_time_ms = now_ms
    if batch.header.batch_length + LENGTH_OVERHEAD > rules.segment_bytes:
        raise RecordListTooLarge(f"a batch of {batch.header.size} bytes does not fit into segments of {rules.segment_bytes}")
    return batch


def _behind(buf: Buffer, start: i64, end: i64) -> Buffer:
    """Returns buf[start:end]: a few bytes as a copy, which takes less time than a view."""
    if type(buf) is bytes and end < kernel.COPY_BELOW:
        return buf[start:end]
    return memoryview(buf)[start:end]


def _one_batch(buf: Buffer | None) -> BatchHeader:
    """Returns the header of the only batch in `buf`, which must be complete. Bytes behind it that could be the beginning of
    another batch are dropped, as Kafka does; another whole batch is refused."""
    if buf is None:
        raise NotOneBatch("no records")
    if type(buf) is bytes and len(buf) >= HEADER_SIZE:
        header = read_header(buf)
        if header.magic == MAGIC and header.batch_length + LENGTH_OVERHEAD == len(buf):  # nearly always
            return header
    size = _framed_size(buf, 0)
    if size is None:
        raise NotOneBatch("no complete record batch in the request")
    if size < HEADER_SIZE:
        raise CorruptRecord(f"a batch of {size} bytes is smaller than its header")
    if len(buf) != size and _framed_size(buf, size) is not None:
        raise NotOneBatch("more than one record batch for one partition")
    return read_header(buf)


def _framed_size(buf: Buffer, pos: int) -> int | None:
    """Returns the size of the batch at `pos`; None if it is not complete. Raises CorruptRecord or InvalidRecord if the bytes
    cannot be an acceptable batch."""
    left = len(buf) - pos
    if left < _MIN_FRAMED:
        return None
    length: int
    length, magic = _SIZE_AND_MAGIC.unpack_from(buf, pos)
    not_a_batch = NotABatch if pos == 0 else CorruptRecord
    if length < _MIN_BATCH_LENGTH:
        raise not_a_batch(f"a batch length of {length} bytes")
    if magic != MAGIC:
        if 0 <= magic < MAGIC:
            raise NotOneBatch(f"record format {magic} is no longer accepted, only {MAGIC}")
        raise not_a_batch(f"record format {magic} is not known, only {MAGIC}")
    size = length + LENGTH_OVERHEAD
    return size if size <= left else None


def _check_header(buf: Buffer, header: BatchHeader, rules: BatchRules, origin: Origin) -> None:
    size: i64 = header.batch_length + LENGTH_OVERHEAD
    client = origin is _CLIENT
    if client and header.base_offset != 0:
        raise InvalidRecord(f"the base offset of a produced batch is 0, not {header.base_offset}")
    if size > rules.max_message_bytes and origin is not _RAFT_LEADER:
        raise RecordTooLarge(f"a batch of {size} bytes, {rules.max_message_bytes} are allowed")
    if crc32c(_behind(buf, CRC_START, size)) != header.crc:
        raise CorruptRecord(f"the CRC {header.crc:#010x} does not match the batch")
    if not client:
        return
    count: i64 = header.records_count
    if count <= 0 or header.last_offset_delta != count - 1:
        raise InvalidRecord(f"a batch of {count} records whose last offset is {header.last_offset_delta}")
    if header.is_control:
        raise InvalidRecord("clients may not write control batches")
    if header.producer_id >= 0:
        if header.base_sequence < 0:
            raise InvalidRecord(f"sequence {header.base_sequence} of producer {header.producer_id}")
        if header.producer_epoch < 0:
            raise InvalidProducerEpoch(f"epoch {header.producer_epoch} of producer {header.producer_id}")


def _most_bytes(rules: BatchRules, quickly: bool) -> int:
    """Returns the most bytes that may come out of a batch here."""
    most = int(rules.max_decompressed_batch_bytes)
    return min(most, QUICK_DECOMPRESSED_BYTES) if quickly else most


def _decompressed(codec: int, packed: memoryview, most: int, rules: BatchRules) -> bytes:
    try:
        return decompress(codec, packed, most)
    except CompressionError as problem:
        raise _undecodable(problem, most, rules) from problem


def _undecodable(problem: CompressionError, most: int, rules: BatchRules) -> InvalidRecord | RecordTooLarge | NotValidated:
    """Returns the error for a batch whose records cannot be decompressed, or not within the bounds. `most` is the bound here; if
    it is not that of the settings, more may be right."""
    if isinstance(problem, LargeRecord):
        return InvalidRecord(kernel.REASONS[kernel.TOO_LARGE])
    if isinstance(problem, TooLarge):
        if most < rules.max_decompressed_batch_bytes:
            return NotValidated(f"the records take more than {most} bytes once decompressed")
        return RecordTooLarge(f"the records take more than {most} bytes once decompressed (ottla.max.decompressed.batch.bytes)")
    return InvalidRecord(f"the records cannot be decompressed: {problem}")


def _earliest_and_latest(header: BatchHeader, rules: BatchRules, now_ms: i64) -> tuple[i64, i64]:
    """Returns the bounds (ms) of the records' timestamps; those of a batch that the client stamped are not looked at."""
    if rules.stamps_time or header.attributes & LOG_APPEND_TIME_BIT:
        return kernel.MIN_INT64, kernel.MAX_INT64
    latest: i64 = kernel.MAX_INT64
    if rules.after_max_ms < latest - now_ms:
        latest = now_ms + rules.after_max_ms
    return now_ms - rules.before_max_ms, latest


def _check_records(data: bytes, header: BatchHeader, rules: BatchRules, now_ms: int) -> int:
    """Returns the true maximum timestamp of a plain batch, all of which is in `data`."""
    earliest, latest = _earliest_and_latest(header, rules, now_ms)
    code, max_timestamp, _, bad = kernel.check_records(
        data,
        HEADER_SIZE,
        len(data),
        header.records_count,
        header.base_timestamp,
        earliest,
        latest,
        rules.keys_required,
        kernel.MAX_INT64,
    )
    if code != kernel.OK:
        raise InvalidRecord(kernel.REASONS[code])
    return _judge(max_timestamp, bad, header, rules, now_ms)


def _check_pieces(pieces: Iterator[tuple[bytes, int]], header: BatchHeader, rules: BatchRules, now_ms: int, most: int) -> int:
    """Returns the true maximum timestamp of a compressed batch, whose records come in pieces of `most` bytes together."""
    earliest, latest = _earliest_and_latest(header, rules, now_ms)
    count, base_timestamp, max_record_bytes = header.records_count, header.base_timestamp, rules.max_decompressed_message_bytes
    keys_required = rules.keys_required
    code, seen, max_timestamp = kernel.FEWER_RECORDS, 0, NO_TIMESTAMP
    bad: list[tuple[int, int, int]] = []
    try:
        for piece, end in pieces:
            code, greatest, index, found = kernel.check_records(
                piece, 0, end, count, base_timestamp, earliest, latest, keys_required, max_record_bytes, seen
            )
            if code not in {kernel.OK, kernel.FEWER_RECORDS}:
                break
            seen = index if code == kernel.FEWER_RECORDS else count
            max_timestamp = max(max_timestamp, greatest)
            if found is not None and len(bad) < kernel.MAX_BAD_RECORDS:
                bad += found[: kernel.MAX_BAD_RECORDS - len(bad)]
    except CompressionError as problem:
        raise _undecodable(problem, most, rules) from problem
    if code != kernel.OK:
        raise InvalidRecord(kernel.REASONS[code])
    return _judge(max_timestamp, bad or None, header, rules, now_ms)


def _judge(
    max_timestamp: int, bad: list[tuple[int, int, int]] | None, header: BatchHeader, rules: BatchRules, now_ms: int
) -> int:
    """Returns the true maximum timestamp of a batch. Raises InvalidRecord or InvalidTimestamp if any of its records is bad."""
    if header.attributes & LOG_APPEND_TIME_BIT:
        max_timestamp = max(header.max_timestamp, NO_TIMESTAMP)  # it is that of each record; deltas do not count
        bad = _stamped_by_client(bad, header, rules, now_ms)
    if bad:
        _refuse(bad, rules, now_ms)
    return max_timestamp


def _stamped_by_client(
    bad: list[tuple[int, int, int]] | None, header: BatchHeader, rules: BatchRules, now_ms: int
) -> list[tuple[int, int, int]] | None:
    """Checks a batch that a client marked LogAppendTime, which only the broker may do. Kafka tolerates that if the topic keeps
    the producer's time and the one timestamp of such a batch is in bounds. Returns the bad records."""
    timestamp = int(header.max_timestamp)
    earliest = now_ms - int(rules.before_max_ms)
    latest = now_ms + int(rules.after_max_ms)
    if not rules.stamps_time and timestamp != NO_TIMESTAMP and earliest <= timestamp <= latest:
        return bad
    keyless = {index for index, what, _ in bad or () if what == kernel.KEY_MISSING}
    named = range(min(header.records_count, kernel.MAX_BAD_RECORDS))
    return [(index, kernel.KEY_MISSING if index in keyless else kernel.TIMESTAMP_OUT_OF_RANGE, timestamp) for index in named]


def _refuse(bad: list[tuple[int, int, int]], rules: BatchRules, now_ms: int) -> None:
    bounds = f"{now_ms - int(rules.before_max_ms)} to {now_ms + int(rules.after_max_ms)}"
    errors = [
        (index, "a compacted topic needs a key" if what == kernel.KEY_MISSING else f"timestamp {timestamp} is not in {bounds}")
        for index, what, timestamp in bad
    ]
    if any(what == kernel.TIMESTAMP_OUT_OF_RANGE for _, what, _ in bad):
        raise InvalidTimestamp("records of the batch have timestamps that the topic does not accept", errors)
    raise InvalidRecord(f"{len(errors)} records of the batch are refused, the first because {errors[0][1]}", errors)


def _level(codec: int, config: ValidationConfig) -> int | None:
    name = NAMES[codec]
    if name == "gzip":
        return config.compression_gzip_level
    if name == "lz4":
        return config.compression_lz4_level
    return config.compression_zstd_level if name == "zstd" else None


def _rewritten(wanted: BatchHeader, section: Buffer) -> ValidatedBatch:
    """Returns the batch with a new header, whose size and CRC follow from the wanted fields and the records section."""
    new = restamp(wanted, section, attributes=wanted.attributes & KNOWN_BITS, max_timestamp=wanted.max_timestamp)
    return ValidatedBatch(read_header(new), [memoryview(new)[_STAMPED:], section], -1)


def _recompressed(wanted: BatchHeader, section: bytes, rules: BatchRules) -> ValidatedBatch:
    batch = _rewritten(wanted, compress(wanted.codec, section, rules.level))
    if batch.header.size > rules.max_message_bytes:
        raise RecordTooLarge(f"the batch has {batch.header.size} bytes once recompressed, {rules.max_message_bytes} are allowed")
    return batch
