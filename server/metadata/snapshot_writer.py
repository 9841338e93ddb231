"""Writes one snapshot of the metadata log, in steps, so that the caller can do other things between them.

    writer = SnapshotWriter(...)
    while writer.step(): ...        # each encodes some records, or makes a batch of those encoded and writes it
    writer.finish()                 # in any thread: fsync, then the name without `.part`

The file is `<name>-<random>.checkpoint.part` until it is complete and durable; a start removes files of that name. The batches
are as in Kafka: first the header's control batch, then 1,024 records a batch, and at last the footer's. All have the snapshot's
epoch, and offsets count from 0.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.server.metadata.snapshot import PARTIAL_SUFFIX, SnapshotId, stamped
from ottla.wire import metadata_records as records
from ottla.wire.messages.internal.snapshot_footer_record import SnapshotFooterRecord
from ottla.wire.messages.internal.snapshot_header_record import SnapshotHeaderRecord
from ottla.wire.metadata_records import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from ottla.wire.records import Record, build_batch

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.files import Disk
    from ottla.server.metadata.image_records import Frozen
    from ottla.wire.primitives import WireStruct

BATCH_RECORDS: Final = 1024
STEP_RECORDS: Final = 64
"""The number of records that a step encodes, which takes about half a millisecond."""


class SnapshotWriter:
    """Writes a snapshot into `directory`, which is the metadata log's. `controls` name the voters if they are kept in the log.
    `last_contained_ms` is when the last record that the snapshot covers was written. Every method may raise OSError.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshot_id: SnapshotId,
        image: Frozen,
        *,
        controls: Sequence[tuple[int, WireStruct]],
        last_contained_ms: int,
        now_ms: Callable[[], int],
        random: Random,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._id = snapshot_id
        self._version = image.metadata_version
        self._now_ms = now_ms
        self._waiting: Iterator[WireStruct] = image.records()
        self._encoded: list[bytes] = []
        self._offset = 0
        self._whole = False
        self._part = f"{directory}/{snapshot_id}-{random.getrandbits(63)}{PARTIAL_SUFFIX}"
        self._file = disk.open(self._part, create=True)
        header = SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_ms)
        self._header: list[tuple[int, WireStruct]] = [(SNAPSHOT_HEADER, header), *controls]

    @property
    def size_bytes(self) -> int:
        return self._file.size

    def step(self) -> bool:
        """Does one step of the work; returns False once everything is written."""
        now_ms = self._now_ms()
        if self._header:
            self._write(records.build_control(self._header, now_ms))
            self._header = []
        room = BATCH_RECORDS - len(self._encoded)
        new = [records.encode_value(record, self._version) for record in islice(self._waiting, min(room, STEP_RECORDS))]
        if new:
            self._encoded += new
        elif self._encoded or room == 0:
            # All records have the same time: Kafka refuses a metadata batch whose records differ in it.
            self._write(build_batch([Record(0, now_ms, None, value) for value in self._encoded]))
            self._encoded = []
        else:
            self._write(records.build_control([(SNAPSHOT_FOOTER, SnapshotFooterRecord())], now_ms))
            self._whole = True
        return not self._whole

    def _write(self, batch: bytes) -> None:
        parts, count = stamped(batch, self._offset, self._id.epoch)
        if self._file.append(parts) != len(batch):
            raise OSError(errno.ENOSPC, "short write", self._part)
        self._offset += count

    def finish(self) -> None:
        """Makes the snapshot durable and gives it its name. May be called in any thread."""
        assert self._whole
        self._file.sync()
        self._disk.rename(self._part, f"{self._directory}/{self._id.file_name}")
        self._disk.sync_dir(self._directory)

    def abandon(self) -> None:
        """Gives the snapshot up and removes the part that was written, if the disk still allows that."""
        with contextlib.suppress(OSError):
            self._disk.remove(self._part)
