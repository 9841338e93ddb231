"""`ottla log dump` of a segment: its batches, their records, and where it is damaged. It takes any bytes, in bounded memory.

../segment_walk.py finds the batches. Their records are read only if they are wanted and the CRC is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ottla.commands.log.dump.schemas import Decoder, Undecodable, control_fields, plain
from ottla.commands.log.segment_walk import MAX_READ_BYTES, Batch, Gap, SegmentWalk
from ottla.log.disk.files import File
from ottla.wire.batch import LOG_APPEND_TIME, MAX_INT32, BatchHeader
from ottla.wire.compression import CompressionError, TooLarge
from ottla.wire.frame import MALFORMED
from ottla.wire.records import Record, iter_records

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class Item(NamedTuple):
    """A line of the dump: its kind and its fields."""

    kind: str
    fields: dict[str, Any]


class Problem(NamedTuple):
    """Something that is wrong, and where in the file it is."""

    position: int
    text: str


Found = Item | Problem


class SegmentDump:
    """One walk over one segment. `base_offset` is the offset in its file name, None if there is none.

    `metadata`: show also where and when each record was written. `max_bytes`: show only batches that end within so many bytes.
    """

    def __init__(
        self,
        file: File,
        *,
        base_offset: int | None = None,
        records: bool = False,
        decoder: Decoder | None = None,
        advance: Callable[[int], object] = int,
        metadata: bool = True,
        max_bytes: int | None = None,
    ) -> None:
        self.walk = SegmentWalk(file, advance)
        self.window = self.walk.window
        self.next_offset = base_offset
        self.records = records
        self.decoder = decoder
        self.metadata = metadata
        self.max_bytes = file.size if max_bytes is None else max_bytes

    def __iter__(self) -> Iterator[Found]:
        for found in self.walk:
            if found.position >= self.max_bytes or (isinstance(found, Batch) and found.end > self.max_bytes):
                return
            if isinstance(found, Gap):
                kind = "torn" if found.following is None and not found.given_up else "corrupt"
                yield Problem(found.position, f"{kind}: {found.why}")
                continue
            position, header = found.position, found.header
            yield Item("batch", batch_fields(position, header, is_sound=found.is_sound))
            if found.is_sound:
                yield from self._sound(position, header)
            else:
                text = f"corrupt: offsets {header.base_offset} to {header.last_offset}: CRC {header.crc:#010x} does not match"
                yield Problem(position, f"{text} the bytes, which give {found.crc:#010x}")

    def _sound(self, position: int, header: BatchHeader) -> Iterator[Found]:
        """Yields what there is to say about a batch with the right CRC."""
        if self.next_offset is not None and header.base_offset < self.next_offset:
            yield Problem(position, f"offset {header.base_offset} where {self.next_offset} or more is expected")
        if header.last_offset_delta < 0:
            yield Problem(position, f"a last offset delta of {header.last_offset_delta}")
        self.next_offset = max(self.next_offset or 0, header.next_offset)
        if not self.records:
            return
        if header.size > MAX_READ_BYTES:
            yield Item("skipped", {"position": position, "reason": f"records of a batch of {header.size} bytes are not shown"})
            return
        upto = header.base_offset
        try:
            for record in iter_records(self.window.view(position, header.size), MAX_READ_BYTES, MAX_READ_BYTES):
                yield from self._record(position, header, record)
                upto = record.offset + 1
        except TooLarge as error:
            yield Item("skipped", {"position": position, "reason": f"records from offset {upto} on are not shown: {error}"})
        except CompressionError as error:
            yield Problem(position, f"the batch cannot be decompressed: {error}")
        except MALFORMED as error:
            yield Problem(position, f"the batch's records cannot be read: {error}")

    def _record(self, position: int, header: BatchHeader, record: Record) -> Iterator[Found]:
        fields: dict[str, Any] = {}
        if self.metadata:
            fields = {"offset": record.offset, "timestamp": None if record.timestamp_ms < 0 else record.timestamp_ms}
            if header.base_sequence >= 0:
                fields["sequence"] = (header.base_sequence + record.offset - header.base_offset) & MAX_INT32
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
        if record.headers and self.metadata:
            fields["headers"] = [[name, plain(value)] for name, value in record.headers]
        yield Item("record", fields)


def batch_fields(position: int, header: BatchHeader, *, is_sound: bool) -> dict[str, Any]:
    """Returns the fields of a batch header as they are shown."""
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
        "last_sequence": header.last_sequence if header.base_sequence >= 0 else -1,
        "flags": [name for name, is_set in flags.items() if is_set],
        "crc": "ok" if is_sound else "wrong",
    }
