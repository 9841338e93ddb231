"""Snapshots of the metadata log: `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint` beside its segments.

A snapshot holds the result of all records below its end offset. Its first batch is a control batch with a SnapshotHeaderRecord
(and, if the voters are kept in the log, KRaftVersionRecord and VotersRecord), its last one has a SnapshotFooterRecord; without
that it is not complete. Offsets inside a snapshot count from 0 and mean nothing.

Formatting an empty directory makes the snapshot that ends at offset 0, of epoch 0, with the feature levels with which the cluster
begins. snapshot_keeper.py says when later ones are made, snapshot_writer.py how. A start (`tidy`) removes
`<name>-<random>.checkpoint.part`, which is not complete, and `<name>.checkpoint.deleted`, which was to be removed after a delay.
A damaged snapshot whose content the log and an older snapshot have as well becomes `<name>.checkpoint.damaged` (`read_newest`).

`bootstrap.checkpoint`, in the log directory itself, was left by Kafka's older formatting tools: it has the records with which the
first leader begins the log. It has no offset and need not have a footer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla.log.disk.files import Disk
from ottla.server.base.turns import Steps, at_once
from ottla.wire import metadata_records as records
from ottla.wire.batch import check_crc, iter_batches, read_header, stamp
from ottla.wire.frame import MALFORMED
from ottla.wire.messages.internal.snapshot_footer_record import SnapshotFooterRecord
from ottla.wire.messages.internal.snapshot_header_record import SnapshotHeaderRecord
from ottla.wire.metadata_records import KRAFT_VERSION, KRAFT_VOTERS, SNAPSHOT_FOOTER, SNAPSHOT_HEADER, MetadataError
from ottla.wire.primitives import WireStruct
from ottla.wire.records import decode_records

_STAMPED: Final = 16  # bytes that stamp() replaces
_FIRST_BATCH_BYTES: Final = 65_536  # more than any header batch has, since it names a few voters at most
_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
PARTIAL_SUFFIX: Final = ".checkpoint.part"
DELETED_SUFFIX: Final = ".deleted"
DAMAGED_SUFFIX: Final = ".damaged"
BOOTSTRAP: Final = "bootstrap.checkpoint"
RECORDS_A_STEP: Final = 500
"""About two milliseconds of decoding."""

logger = logging.getLogger("ottla.server.metadata")


class SnapshotId(NamedTuple):
    """Identifies a snapshot by the offset after the last record that it covers, and that record's epoch."""

    end_offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.end_offset:020}-{self.epoch:010}"

    @property
    def file_name(self) -> str:
        return f"{self}.checkpoint"


class Snapshot(NamedTuple):
    """The content of a snapshot. `voters` is a VotersRecord or None."""

    records: list[WireStruct]
    kraft_version: int
    voters: Any


def find(disk: Disk, directory: str) -> list[SnapshotId]:
    """Returns the snapshots in the metadata log's directory, newest first. Raises OSError."""
    matches = filter(None, map(_NAME.fullmatch, disk.list(directory)))
    return sorted((SnapshotId(int(match[1]), int(match[2])) for match in matches), reverse=True)


def tidy(disk: Disk, directory: str, log_start_offset: int) -> None:
    """Removes the files that a start does not need: incomplete and deleted snapshots, and those that end below the log's start.
    Raises OSError."""
    stale = [found.file_name for found in find(disk, directory) if found.end_offset < log_start_offset]
    endings = (PARTIAL_SUFFIX, f".checkpoint{DELETED_SUFFIX}")
    for name in stale + [name for name in disk.list(directory) if name.endswith(endings)]:
        logger.info("%s/%s is not needed any more and is removed", directory, name)
        disk.remove(f"{directory}/{name}")


def read(disk: Disk, path: str, *, needs_footer: bool = True) -> Snapshot:
    """Returns the content of a snapshot. Raises MetadataError if it is not complete or a record cannot be read, and OSError."""
    return at_once(read_in_steps(disk.read_bytes(path), path, needs_footer=needs_footer))


def read_in_steps(data: bytes, path: str, *, needs_footer: bool = True) -> Steps[Snapshot]:
    """Makes steps that return the content of a snapshot, of which the bytes are given. They raise MetadataError as `read`
    does."""
    found = Snapshot([], 0, None)
    whole = False
    position = 0
    try:
        for header, batch in iter_batches(data):
            if not check_crc(batch, header):
                raise MetadataError(f"{path} is damaged at position {position}: its CRC does not fit its bytes")
            position += header.size
            for record in decode_records(batch):
                if not header.is_control:
                    found.records.append(records.decode_value(record.value))
                    if len(found.records) % RECORDS_A_STEP == 0:
                        yield None
                    continue
                control = records.decode_control(record)
                if control.type == KRAFT_VERSION:
                    found = found._replace(kraft_version=control.message.kraft_version)
                elif control.type == KRAFT_VOTERS:
                    found = found._replace(voters=control.message)
                whole = control.type == SNAPSHOT_FOOTER
    except MALFORMED as error:
        raise MetadataError(f"{path} cannot be read: {error}") from error
    if needs_footer and not whole:
        raise MetadataError(f"{path} is not complete: its last record is missing")
    return found


def read_newest(disk: Disk, directory: str, log_offsets: range) -> tuple[SnapshotId, Snapshot] | None:
    """Returns the newest snapshot and its content, None if there is none. `log_offsets` are those of the log's records.

    If it is damaged, the newest before it that is not takes its place, provided that the log has everything since then. The
    damaged ones get the suffix `.damaged`, so that nothing looks at them again. Raises MetadataError if none takes its place,
    and OSError.
    """
    damaged: list[SnapshotId] = []
    reasons: list[MetadataError] = []
    for snapshot_id in find(disk, directory):
        if damaged and not (log_offsets.start <= snapshot_id.end_offset and damaged[0].end_offset <= log_offsets.stop):
            break
        try:
            found = read(disk, f"{directory}/{snapshot_id.file_name}")
        except MetadataError as error:
            damaged.append(snapshot_id)
            reasons.append(error)
            continue
        for bad, reason in zip(damaged, reasons, strict=True):
            path = f"{directory}/{bad.file_name}"
            logger.error(
                "%s; it becomes %s, and %s and the log take its place", reason, bad.file_name + DAMAGED_SUFFIX, snapshot_id
            )
            disk.rename(path, path + DAMAGED_SUFFIX)
        return snapshot_id, found
    if reasons:
        raise MetadataError(f"{reasons[0]}; restore it from a copy: no older snapshot and the log together hold the same")
    return None


def write_bootstrap(
    disk: Disk, directory: str, features: Sequence[WireStruct], *, controls: Sequence[tuple[int, WireStruct]], now_ms: int
) -> None:
    """Writes the snapshot of a new directory. `controls` are the control records that name the voters, if they are kept in the
    log. Raises OSError."""
    first = SnapshotHeaderRecord(last_contained_log_timestamp=now_ms)
    batches = [
        records.build_control([(SNAPSHOT_HEADER, first), *controls], now_ms),
        records.build_records(features, records.METADATA_VERSION, now_ms),
        records.build_control([(SNAPSHOT_FOOTER, SnapshotFooterRecord())], now_ms),
    ]
    offset = 0
    numbered = []
    for batch in batches:
        parts, count = stamped(batch, offset, 0)
        numbered += parts
        offset += count
    disk.write_bytes(f"{directory}/{SnapshotId(0, 0).file_name}", b"".join(numbered))


def stamped(batch: bytes, offset: int, epoch: int) -> tuple[list[bytes], int]:
    """Returns the batch with this offset and epoch, in two parts, and how many records it has."""
    header = read_header(batch)
    return [stamp(header, offset, epoch), batch[_STAMPED:]], header.records_count


def last_contained_ms(disk: Disk, path: str) -> int:
    """Returns when the last record that the snapshot covers was written, in ms, as its header says. Raises MetadataError or
    OSError."""
    file = disk.open(path)
    try:
        header, batch = next(iter_batches(file.pread(_FIRST_BATCH_BYTES, 0)))
        if not check_crc(batch, header):
            raise MetadataError(f"{path} is damaged at position 0: its CRC does not fit its bytes")
        control = records.decode_control(decode_records(batch)[0])
    except (*MALFORMED, StopIteration, IndexError) as error:
        raise MetadataError(f"{path} cannot be read: {error!r}") from error
    if control.type != SNAPSHOT_HEADER or control.message is None:
        raise MetadataError(f"{path} does not begin like a snapshot")
    at_ms: int = control.message.last_contained_log_timestamp
    return at_ms
