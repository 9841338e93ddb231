"""`ottla log dump` of a segment: its batches, their records, and where it is damaged. For any bytes, in bounded memory.

A segment is record batches back to back (wire/batch.py). They are walked header by header over a window of one MiB; the CRC of a
larger batch is computed piece by piece, and its records are read only where they are wanted and the CRC is right, so that no
length is believed before it is proven.

Where no whole batch stands, the next sound one is looked for. If there is one, what lies between is corrupt and the walk goes on
behind it; if there is none, the file is torn: that is how a crash leaves the tail of a segment, and recovery cuts it off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from ottla.log.files import File
from ottla.server.commands.dump_schemas import Decoder, Undecodable, control_fields, plain
from ottla.wire.batch import CRC_START, HEADER_SIZE, KNOWN_BITS, LOG_APPEND_TIME, MAGIC, BatchHeader, read_header
from ottla.wire.compression import CompressionError
from ottla.wire.frame import MALFORMED
from ottla.wire.records import Record, decode_records

WINDOW_BYTES: Final = 1024 * 1024
MAX_SHOWN_BYTES: Final = 128 * 1024 * 1024
"""Records of a larger batch, compressed or not, are not taken apart: as objects they would take many times that."""

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_MAGIC_AT: Final = 16
_SEEMS_BATCH: Final = re.compile(rb"\x02(?=.{4}\x00[\x00-\x7f])", re.DOTALL)  # magic, any CRC, attributes that are known
_CANDIDATE_COST: Final = 256  # in bytes of CRC: what a look at a header takes
_SEARCH_BYTES: Final = 64 * 1024 * 1024


class Item(NamedTuple):
    """A line of the dump: what it is, and its fields."""

    kind: str
    fields: dict[str, Any]


class Problem(NamedTuple):
    """Something that is not as it should be, and where in the file."""

    position: int
    text: str


Found = Item | Problem


class Window:
    """The bytes of a file through one block that moves along."""

    def __init__(self, file: File, window_bytes: int = WINDOW_BYTES) -> None:
        self.file = file
        self.size = file.size
        self.window_bytes = window_bytes
        self._start = 0
        self._block = memoryview(b"")

    def view(self, position: int, length: int) -> memoryview:
        """The bytes from `position`, fewer only at the file's end. Longer than the window is read as asked."""
        at = position - self._start
        if at < 0 or at + length > len(self._block):
            self._start, at = position, 0
            self._block = memoryview(self.file.pread(min(max(self.window_bytes, length), self.size - position), position))
        return self._block[at : at + length]

    def pieces(self, start: int, end: int) -> Iterator[memoryview]:
        """All bytes from `start` to `end`, a window at a time."""
        while start < end:
            piece = self.view(start, min(self.window_bytes, end - start))
            if not piece:
                return  # cut off while it is read
            yield piece
            start += len(piece)

    def crc(self, start: int, end: int) -> int:
        value = 0
        for piece in self.pieces(start, end):
            value = crc32c(piece, value)
        return value

    def is_zero(self, start: int) -> bool:
        """Nothing but zeros to the end?"""
        return all(bytes(piece).count(0) == len(piece) for piece in self.pieces(start, self.size))


class SegmentDump:
    """One walk over one segment. `base_offset` is what its name says, None if it says nothing."""

    def __init__(
        self,
        file: File,
        *,
        base_offset: int | None = None,
        records: bool = False,
        decoder: Decoder | None = None,
        advance: Callable[[int], object] = int,
    ) -> None:
        self.window = Window(file)
        self.next_offset = base_offset
        self.records = records
        self.decoder = decoder
        self.advance = advance

    def __iter__(self) -> Iterator[Found]:
        position, size = 0, self.window.size
        suspect: int | None = None  # start of the batch before, if its CRC was wrong: then its length may be, too
        while position < size:
            header = self._header(position)
            if isinstance(header, str):
                following = self._next_sound(1 + (position if suspect is None else suspect))
                yield Problem(position, self._verdict(position, following, header))
                if following is None:
                    return
                self.advance(following - position)
                position, suspect = following, None
                continue
            end = position + header.size
            crc = self.window.crc(position + CRC_START, end)
            yield Item("batch", batch_fields(position, header, is_sound=crc == header.crc))
            if crc == header.crc:
                yield from self._sound(position, header)
                suspect = None
            else:
                suspect = position
                text = f"corrupt: offsets {header.base_offset} to {header.last_offset}: CRC {header.crc:#010x} does not fit"
                yield Problem(position, f"{text}, the bytes give {crc:#010x}")
            self.advance(end - position)
            position = end

    def _header(self, position: int) -> BatchHeader | str:
        """The header at the position, or why there is no whole batch."""
        left = self.window.size - position
        if left < HEADER_SIZE:
            return f"{left} bytes are no batch header"
        data = self.window.view(position, HEADER_SIZE)
        if len(data) < HEADER_SIZE:
            return "the file was cut off while it was read"
        header = read_header(data)
        if header.magic != MAGIC:
            old = ", a message format of before Kafka 0.11" if header.magic in (0, 1) else ""
            return f"magic {header.magic}{old} where {MAGIC} is known"
        if header.size < HEADER_SIZE:
            return f"a batch length of {header.batch_length} is less than a header's"
        if header.size > left:
            return f"a batch of {header.size} bytes, of which {left} are there"
        return header

    def _verdict(self, position: int, following: int | None, why: str) -> str:
        if following is not None:
            return f"corrupt: {why}; the next sound batch is at position {following}"
        left = self.window.size - position
        if self.window.is_zero(position):
            return f"torn: {left} bytes of zeros to the end, never written or lost in a crash"
        return f"torn: {why}; nothing sound in the last {left} bytes"

    def _sound(self, position: int, header: BatchHeader) -> Iterator[Found]:
        """What is said of a batch with the right CRC."""
        if self.next_offset is not None and header.base_offset < self.next_offset:
            yield Problem(position, f"offset {header.base_offset} where {self.next_offset} or more must follow")
        if header.last_offset_delta < 0:
            yield Problem(position, f"a last offset delta of {header.last_offset_delta}")
        self.next_offset = max(self.next_offset or 0, header.next_offset)
        if not self.records:
            return
        if header.size > MAX_SHOWN_BYTES:
            yield Item("skipped", {"position": position, "reason": f"records of a batch of {header.size} bytes are not shown"})
            return
        try:
            records = decode_records(self.window.view(position, header.size), MAX_SHOWN_BYTES)
        except CompressionError as error:
            yield Problem(position, f"the batch does not decompress: {error}")
        except MALFORMED as error:
            yield Problem(position, f"the batch's records cannot be read: {error}")
        else:
            for record in records:
                yield from self._record(position, header, record)

    def _record(self, position: int, header: BatchHeader, record: Record) -> Iterator[Found]:
        fields: dict[str, Any] = {"offset": record.offset, "timestamp": None if record.timestamp_ms < 0 else record.timestamp_ms}
        try:
            if header.is_control:
                fields |= control_fields(record)
            elif self.decoder is not None:
                fields |= self.decoder(record)
            else:
                fields |= {"key": plain(record.key), "value": plain(record.value)}
        except Undecodable as error:
            fields |= {"key": plain(record.key), "value": plain(record.value)}
            yield Problem(position, f"record {record.offset}: {error}")
        if record.headers:
            fields["headers"] = [[name, plain(value)] for name, value in record.headers]
        yield Item("record", fields)

    def _next_sound(self, start: int) -> int | None:
        """Position of the first whole batch with a right CRC from `start` on. Gives up when it has looked for long."""
        size = self.window.size
        budget = 4 * (size - start) + _SEARCH_BYTES
        at = start + _MAGIC_AT
        while at < size:
            block = bytes(self.window.view(at, min(self.window.window_bytes, size - at)))
            if not block:
                return None
            for found in _SEEMS_BATCH.finditer(block):
                begin = at + found.start() - _MAGIC_AT
                header = self._header(begin)
                budget -= _CANDIDATE_COST
                if isinstance(header, BatchHeader) and is_plausible(header):
                    budget -= header.size
                    if self.window.crc(begin + CRC_START, begin + header.size) == header.crc:
                        return begin
                if budget < 0:
                    return None
            at += max(1, len(block) - 6) if at + len(block) < size else len(block)  # six bytes are looked at behind a magic
        return None


def is_plausible(header: BatchHeader) -> bool:
    """Could these 61 bytes be a header at all? Saves a CRC over whatever they say is theirs."""
    return (
        header.base_offset >= 0
        and header.last_offset_delta >= 0
        and header.attributes & ~KNOWN_BITS == 0
        and 0 <= header.records_count <= header.last_offset_delta + 1
    )


def batch_fields(position: int, header: BatchHeader, *, is_sound: bool) -> dict[str, Any]:
    """A header for the reader."""
    codec = header.codec
    flags = {
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon": header.has_delete_horizon,
    }
    return {
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.records_count,
        "codec": CODECS[codec] if codec < len(CODECS) else f"unknown ({codec})",
        "timestamp_type": "LogAppendTime" if header.timestamp_type == LOG_APPEND_TIME else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "flags": [name for name, is_set in flags.items() if is_set],
        "crc": "ok" if is_sound else "wrong",
    }
