"""The records of batches on disk, for a page: decoded where they are Kafka's own, else as bytes to be shown; bounded.

They are read by `wire.records` and decoded by `commands/log/dump/schemas.py`, as `ottla log dump` does it. What is secret in the
metadata log stays so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ottla.commands.log.dump.schemas import TOPICS, IsSecret, Schema, Undecodable, control_fields, decoder_of
from ottla.console.disk.batches import Row
from ottla.console.rendering.text import beginning
from ottla.log.disk.files import OsFile
from ottla.log.opening.search import Window
from ottla.wire.batch import HEADER_SIZE, MAX_INT32, BatchHeader
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES, NONE, CompressionError, TooLarge, decompressed_pieces
from ottla.wire.frame import MALFORMED
from ottla.wire.records import Record, iter_records

MAX_BATCH_BYTES: Final = 64 << 20
"""Of a larger batch, no record is read."""
MAX_LOOKED_AT: Final = 1_000_000
_MAX_HEADERS: Final = 3


class DiskRecord(NamedTuple):
    """A record. `kind` names what was decoded, and `fields` is that as JSON; without `kind`, key and value are bytes, but for the
    metadata log's, where both are None. `position` is that of its batch."""

    offset: int
    time_ms: int
    sequence: int | None
    position: int
    kind: str
    fields: str
    key: bytes | None
    value: bytes | None
    headers: int


class DiskRecords:
    """Reads the records of batches in one file. `problems` is what could not be read."""

    def __init__(self, file: OsFile, topic: str, is_secret: IsSecret, *, is_snapshot: bool = False) -> None:
        self._window = Window(file)
        self._decoder = decoder_of(Schema.METADATA if is_snapshot else Schema.AUTO, topic, is_secret)
        self._has_secrets = is_snapshot or TOPICS.get(topic) is Schema.METADATA
        self.problems: list[str] = []

    def of_batches(self, rows: Sequence[Row], count: int) -> tuple[list[DiskRecord], int]:
        """Returns the records of sound batches one after the other until there are `count` or more of whole batches, and how many
        batches that took. Of a batch with more records than `count`, only the first are returned."""
        found: list[DiskRecord] = []
        for at, row in enumerate(rows):
            if row.header is None or row.why:
                self.problems.append(f"position {row.position}: {row.why}")
                continue
            if found and len(found) + row.header.records_count > count:
                return found, at
            found += self.of_batch(row.position, row.header, 0, count)
        return found, len(rows)

    def of_batch(self, position: int, header: BatchHeader, begin: int, count: int) -> list[DiskRecord]:
        """Returns up to `count` records of a batch whose CRC is right, from the one with the number `begin` on."""
        if header.size > MAX_BATCH_BYTES:
            self.problems.append(f"position {position}: the records of a batch of {header.size:,} bytes are not read here")
            return []
        found: list[DiskRecord] = []
        try:
            for at, record in enumerate(self._records(position, header)):
                if at >= begin + count or at > MAX_LOOKED_AT:
                    break
                if at >= begin:
                    found.append(self._shown(position, header, record))
        except TooLarge as error:
            self.problems.append(f"position {position}: the records are not all read: {error}")
        except MALFORMED as error:
            self.problems.append(f"position {position}: the records cannot be read: {error}")
        return found

    def _records(self, position: int, header: BatchHeader) -> Iterator[Record]:
        return iter_records(self._window.view(position, header.size), MAX_DECOMPRESSED_BYTES, MAX_DECOMPRESSED_BYTES)

    def _shown(self, position: int, header: BatchHeader, record: Record) -> DiskRecord:
        kind, fields = "", ""
        try:
            if header.is_control:
                decoded = control_fields(record)
                kind, fields = str(decoded["control"]), _json(decoded["value"])
            elif self._decoder is not None:
                kind, fields = _named(self._decoder(record))
        except Undecodable as error:
            kind = "not shown" if self._has_secrets else ""
            self.problems.append(f"record {record.offset}: {error}")
        sequence = (header.base_sequence + record.offset - header.base_offset) & MAX_INT32 if header.base_sequence >= 0 else None
        # what cannot be decoded of the metadata log may be a password of a kind or version that is newer than this code
        is_hidden = bool(kind) or self._has_secrets
        key, value = (None, None) if is_hidden else (beginning(record.key), beginning(record.value))
        return DiskRecord(record.offset, record.timestamp_ms, sequence, position, kind, fields, key, value, len(record.headers))


def _named(decoded: dict[str, Any]) -> tuple[str, str]:
    """Returns the name of a decoded record's message, and its fields as JSON."""
    key, value = decoded["key"], decoded["value"]
    if isinstance(key, dict):
        name = next(iter(key), "")
        inner = next(iter(value.values())) if isinstance(value, dict) else value
        return name.removesuffix("Key"), _json({"key": key[name], "value": inner})
    if isinstance(value, dict):
        name = next(iter(value), "")
        return name, _json(value[name])
    return "record", _json(decoded)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def section_size(batch: memoryview, header: BatchHeader) -> int | None:
    """Returns how many bytes the records of a batch are without compression; None if there are more than a broker takes, or if
    they cannot be decompressed."""
    section = batch[HEADER_SIZE : header.size]
    if header.codec == NONE:
        return len(section)
    try:
        return sum(map(len, decompressed_pieces(header.codec, section, MAX_DECOMPRESSED_BYTES)))
    except CompressionError:
        return None
