"""Makes snapshots of the metadata log when they are due, and deletes what they replace, as Kafka's SnapshotGenerator and the
cleaning of its metadata log do.

- A snapshot is due once `metadata.log.max.record.bytes.between.snapshots` were appended since the last one, or
  `metadata.log.max.snapshot.interval.ms` (0: never) after it, if anything was appended. A start counts as a snapshot for both.
- It is written on the event loop in slices of half a millisecond (`snapshot_writer.py`), from a copy of the image; the fsync runs
  in a thread. Operations that happen meanwhile are not in it.
- The log is cleaned at the start and once a minute: while log and snapshots are larger than `metadata.max.retention.bytes`, or
  the oldest snapshot's last record is older than `metadata.max.retention.ms` (-1: no limit), the oldest snapshot is deleted, and
  the log begins where the next one ends: segments that lie wholly below that are deleted, too. The newest snapshot always stays.

A failure of the disk takes the log directory offline, as everywhere, and raises StorageError.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ottla.log.errors import StorageError
from ottla.server.metadata import snapshot
from ottla.server.metadata.snapshot import SnapshotId
from ottla.wire.metadata_records import MetadataError

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk
    from ottla.log.partition import PartitionLog
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.metadata.image_records import Frozen
    from ottla.wire.primitives import WireStruct

_CLEANING_INTERVAL_SECONDS: Final = 60.0

logger = logging.getLogger("ottla.server.metadata")


class _Known(NamedTuple):
    """The size and age of a snapshot on disk."""

    size_bytes: int
    last_contained_ms: int


class KeptLog(Protocol):
    """The parts of a metadata log that a keeper uses, whether this node leads it or follows."""

    @property
    def partition_log(self) -> PartitionLog:
        """The log as a partition's log like any other."""
        ...

    @property
    def epoch(self) -> int:
        """The leader epoch of the last record that the image has."""
        ...

    @property
    def appended_bytes(self) -> int:
        """The number of bytes that were appended since the start."""
        ...

    @property
    def last_append_ms(self) -> int:
        """The time of the last batch that the image has."""
        ...

    def voter_controls(self) -> list[tuple[int, WireStruct]]:
        """Returns the control records that a snapshot repeats."""
        ...


class SnapshotKeeper:
    """Keeps the snapshots of a metadata log. The scheduler calls `run` often, which mostly finds nothing to
    do."""

    def __init__(
        self, log: KeptLog, image: MetadataImage, disk: Disk, values: Mapping[str, Any], clock: Clock, random: Random
    ) -> None:
        self._log = log
        self._image = image
        self._disk = disk
        self._clock = clock
        self._random = random
        self._max_bytes: int = values["metadata.log.max.record.bytes.between.snapshots"]
        self._interval_ms: int = values["metadata.log.max.snapshot.interval.ms"]
        self._retention_bytes: int = values["metadata.max.retention.bytes"]
        self._retention_ms: int = values["metadata.max.retention.ms"]
        self._delete_delay_ms: int = values["internal.metadata.delete.delay.millis"]
        self._known: dict[SnapshotId, _Known] = {}
        self._last_bytes = 0
        self._last_end_offset = -1
        self._last = clock.monotonic()
        self._next_cleaning = self._last  # the first cleaning is at the start

    @property
    def why_due(self) -> str | None:
        """Returns the reason why a snapshot is due, None if none is."""
        if self._image.highest_offset + 1 == self._last_end_offset:
            return None
        appended = self._log.appended_bytes - self._last_bytes
        if appended >= self._max_bytes:
            return f"{appended} bytes were appended since the last one"
        waited_ms = int((self._clock.monotonic() - self._last) * 1000)
        if 0 < self._interval_ms <= waited_ms:
            return f"the last one is {waited_ms // 1000} s old"
        return None

    def run(self) -> Coroutine[Any, Any, None] | None:
        """Cleans the log if it is time to, and, if a snapshot is due, returns the coroutine that writes it. Raises
        StorageError."""
        if self._log.partition_log.directory.failed is not None:
            return None
        if self._clock.monotonic() >= self._next_cleaning:
            self._next_cleaning = self._clock.monotonic() + _CLEANING_INTERVAL_SECONDS
            self.clean()
        reason = self.why_due
        return None if reason is None else self.take(reason)

    def take(self, reason: str) -> Coroutine[Any, Any, None]:
        """Returns the coroutine that writes a snapshot of the image as it is now, and raises StorageError. The image is copied
        before that begins, because it may be in the middle of an operation then."""
        from ottla.server.metadata.image_records import freeze

        snapshot_id = SnapshotId(self._image.highest_offset + 1, self._log.epoch)
        self._last_bytes, self._last_end_offset = self._log.appended_bytes, snapshot_id.end_offset
        self._last = self._clock.monotonic()
        logger.info("writing snapshot %s because %s", snapshot_id, reason)
        return self._write(snapshot_id, freeze(self._image), self._log.voter_controls(), self._log.last_append_ms)

    async def _write(
        self, snapshot_id: SnapshotId, frozen: Frozen, controls: list[tuple[int, WireStruct]], last_contained_ms: int
    ) -> None:
        from ottla.server.metadata.snapshot_writer import SnapshotWriter

        log = self._log.partition_log
        with log.directory.guard(f"writing snapshot {snapshot_id}"):
            writer = SnapshotWriter(
                self._disk,
                log.path,
                snapshot_id,
                frozen,
                controls=controls,
                last_contained_ms=last_contained_ms,
                now_ms=self._clock.now_ms,
                random=self._random,
            )
            try:
                while writer.step():  # noqa: ASYNC110
                    await asyncio.sleep(0)  # lets the event loop serve others
                await asyncio.get_running_loop().run_in_executor(None, writer.finish)
            except BaseException:
                writer.abandon()
                raise
        logger.info("wrote snapshot %s of %d bytes", snapshot_id, writer.size_bytes)

    # Cleaning

    def clean(self) -> int:
        """Deletes the snapshots and segments that retention allows to; returns how many snapshots. Raises StorageError."""
        log = self._log.partition_log
        try:
            with log.directory.guard(f"cleaning {log.path}"):
                return self._clean_by_size() + self._clean_by_time()
        except MetadataError as error:
            raise StorageError(str(error)) from error

    def _clean_by_size(self) -> int:
        if self._retention_bytes < 0:
            return 0
        snapshots = self._snapshots()
        excess = self._log.partition_log.size_bytes + sum(self._look(found).size_bytes for found in snapshots)
        count = 0
        for oldest, following in pairwise(snapshots):
            before = self._log.partition_log.size_bytes
            if excess <= self._retention_bytes or not self._delete_before(following, snapshots, "metadata.max.retention.bytes"):
                break
            excess -= self._look(oldest).size_bytes + before - self._log.partition_log.size_bytes
            count += 1
        return count

    def _clean_by_time(self) -> int:
        if self._retention_ms < 0:
            return 0
        snapshots = self._snapshots()
        horizon_ms = self._clock.now_ms() - self._retention_ms
        count = 0
        for oldest, following in pairwise(snapshots):
            if self._look(oldest).last_contained_ms >= horizon_ms:
                break
            if not self._delete_before(following, snapshots, "metadata.max.retention.ms"):
                break
            count += 1
        return count

    def _snapshots(self) -> list[SnapshotId]:
        """Returns the snapshots on disk, the oldest first."""
        return snapshot.find(self._disk, self._log.partition_log.path)[::-1]

    def _look(self, found: SnapshotId) -> _Known:
        if found not in self._known:
            path = f"{self._log.partition_log.path}/{found.file_name}"
            self._known[found] = _Known(self._disk.size(path), snapshot.last_contained_ms(self._disk, path))
        return self._known[found]

    def _delete_before(self, snapshot_id: SnapshotId, snapshots: Sequence[SnapshotId], reason: str) -> bool:
        """Makes the log begin at the end of this snapshot and deletes older ones. Returns False if it begins there or later
        already."""
        log = self._log.partition_log
        if snapshot_id.end_offset <= log.log_start_offset:
            return False
        log.raise_log_start_offset(snapshot_id.end_offset)
        log.apply_retention(self._clock.now_ms())
        due_ms = self._clock.now_ms() + self._delete_delay_ms
        for older in snapshots:
            path = f"{log.path}/{older.file_name}"
            if older < snapshot_id and self._disk.exists(path):
                logger.info("snapshot %s is deleted: %s", older, reason)
                self._disk.rename(path, path + snapshot.DELETED_SUFFIX)
                log.directory.remove_later(path + snapshot.DELETED_SUFFIX, due_ms)
        return True
