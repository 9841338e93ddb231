"""`FollowingLog`: this broker's copy of `__cluster_metadata-0`, which the leader of the quorum writes and an observer follows.

The files are those that Apache Kafka's broker has: the log itself, byte for byte the leader's, snapshots beside it, and
`quorum-state`. So either broker can take over the directory of the other.

Batches are appended as they come, and applied to the image only up to the high watermark that the present leader told: what lies
above it may yet be cut off (`truncate`). Every append is synced before the next one, in a thread. It has all the batches of a
Fetch, so a power cut may leave a sound one behind a bad one: recovery cuts the log at the bad one, and the rest is fetched again.
Applying does not wait for the sync, since a majority of the voters has the batches.

At a start the newest snapshot is loaded, since it never holds anything but what is below the high watermark. What the log has
behind it is applied when a leader has told how far it counts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.log.errors import CorruptRecord, StorageError
from ottla.log.following import append_as_follower
from ottla.server.base.damage import way_out
from ottla.server.base.turns import Steps
from ottla.server.metadata import quorum_state, snapshot
from ottla.server.metadata.metadata_log import Transactions
from ottla.server.metadata.staging import RECORDS_A_STEP, apply_in_steps
from ottla.wire.batch import read_header
from ottla.wire.frame import MALFORMED
from ottla.wire.metadata_records import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    METADATA_VERSION,
    ControlRecord,
    MetadataError,
    decode_control,
    decode_value,
)
from ottla.wire.records import iter_records

if TYPE_CHECKING:
    from ottla.log.disk.files import Buffer, Disk
    from ottla.log.flush import FlushJob
    from ottla.log.partition import PartitionLog
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.metadata.snapshot import Snapshot, SnapshotId
    from ottla.wire.primitives import WireStruct

logger = logging.getLogger("ottla.server.quorum")


class FollowingLog:
    """The copy; see the module's docstring. `voters` are the ids of static voters, none if they are kept in the log."""

    def __init__(self, log: PartitionLog, disk: Disk, voters: Sequence[int]) -> None:
        self.partition_log = log
        self.high_watermark = 0
        """The greatest high watermark that a leader told."""
        self.applied = 0
        """The end of what the image has."""
        self.epoch = 0
        """The leader epoch of the last batch that the image has."""
        self.appended_bytes = 0
        """The number of bytes that were appended since the start."""
        self.last_append_ms = 0
        """The time of the last batch that the image has."""
        self._disk = disk
        self._static_voters = voters
        self._transactions = Transactions()
        self._is_applying = False
        self.kraft_version = 0
        """From 1 on the voters are kept in the log, and quorum-state has another form."""
        self._voters: Any = None
        self._snapshot_epoch = 0

    @property
    def end_offset(self) -> int:
        """The offset at which the next batch is fetched."""
        return self.partition_log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the batch before that; 0 if there was never one."""
        return max(self.partition_log.leader_epoch, 0) if self.partition_log.epochs.entries else self._snapshot_epoch

    @property
    def is_in_transaction(self) -> bool:
        """Returns whether the records applied last belong to an operation whose end has not come, or is being applied: then no
        snapshot can be made."""
        return self._transactions.open or self._is_applying

    def voter_controls(self) -> list[tuple[int, WireStruct]]:
        """Returns the control records that a snapshot repeats: the voters, unless the configuration lists them."""
        if self.kraft_version == 0:
            return []
        from ottla.wire.messages.internal.kraft_version_record import KRaftVersionRecord

        controls: list[tuple[int, WireStruct]] = [(KRAFT_VERSION, KRaftVersionRecord(0, self.kraft_version))]
        return controls if self._voters is None else [*controls, (KRAFT_VOTERS, self._voters)]

    # At a start

    def load(self, image: MetadataImage) -> None:
        """Loads the newest snapshot into an empty image. Raises MetadataError or StorageError; the broker must not start then."""
        log = self.partition_log
        log.forget_high_watermark()
        try:
            snapshot.tidy(self._disk, log.path, log.log_start_offset)
            newest = snapshot.read_newest(self._disk, log.path, range(log.log_start_offset, log.log_end_offset))
            if newest is not None:
                snapshot_id, contents = newest
                image.apply_all(contents.records, snapshot_id.end_offset - 1)
                image.kraft_version = contents.kraft_version
                self._note_snapshot(snapshot_id, contents)
            if self.applied > log.log_end_offset:
                logger.warning("%s ends before its newest snapshot, and begins again at the end of that", log.path)
                log.truncate_fully_and_start_at(self.applied)
        except OSError as error:
            raise StorageError(f"reading {log.path}: {error}") from error
        if self.applied < log.log_start_offset:
            raise MetadataError(
                f"{log.path}: the newest snapshot ends at offset {self.applied}, "
                f"the log holds {log.log_start_offset}..{log.log_end_offset}"
            )
        self.high_watermark = self.applied

    def _note_snapshot(self, snapshot_id: SnapshotId, contents: Snapshot) -> None:
        """Notes that the image has what is in a snapshot, and no more."""
        self.kraft_version = contents.kraft_version
        self._voters = contents.voters
        self._transactions = Transactions()
        self._snapshot_epoch = self.epoch = snapshot_id.epoch
        self.applied = snapshot_id.end_offset

    # Following

    def append(self, records: Buffer) -> FlushJob | None:
        """Appends the leader's batches; returns the flush that has to be done before the next append. Raises CorruptRecord at the
        first batch that is wrong, with those before it appended, and StorageError."""
        before = self.partition_log.size_bytes
        try:
            append_as_follower(self.partition_log, records)
        finally:
            self.appended_bytes += max(0, self.partition_log.size_bytes - before)
        return self.partition_log.start_flush()

    def end_offset_for(self, epoch: int) -> int:
        """Returns where this log's batches of the greatest epoch up to `epoch` end."""
        found, end_offset = self.partition_log.end_offset_for_epoch(epoch)
        return self.end_offset if found < 0 else end_offset

    def truncate(self, offset: int) -> None:
        """Cuts off what the leader does not have. Raises MetadataError if the image has some of it already, and StorageError."""
        if offset < self.applied:
            raise MetadataError(
                f"{self.partition_log.path}: the leader's log ends at {offset} where the records up to {self.applied} count "
                "already: the quorum has lost records. Restore its controllers, or begin with an empty directory"
            )
        self.partition_log.truncate_to(offset)

    def note_high_watermark(self, offset: int) -> None:
        """Notes up to where the leader says that the batches count."""
        self.high_watermark = max(self.high_watermark, offset)
        self.partition_log.raise_high_watermark(min(self.high_watermark, self.end_offset))

    def apply(self, image: MetadataImage) -> Steps[None]:
        """Applies the batches up to the high watermark, one a step, or in several steps if it has many records: those of Kafka's
        controllers may have 10,000. They are decoded in portions, and take effect together (staging.py). Raises MetadataError,
        after which the broker cannot go on, and StorageError."""
        upto = min(self.high_watermark, self.end_offset)
        if self.applied >= upto:
            return
        try:
            for batch in self.partition_log.iterate_batches(self.applied):
                header = read_header(batch)
                if header.next_offset > upto:
                    return
                if header.last_offset >= self.applied:
                    self._is_applying = True
                    yield from self._apply_batch(image, batch)
                    self._is_applying = False
                    self.applied = header.next_offset
                    self.epoch = header.partition_leader_epoch
                    self.last_append_ms = header.max_timestamp
                yield None
        except CorruptRecord as error:
            raise MetadataError(f"{error}. {way_out(self.partition_log.path)}") from error

    def _apply_batch(self, image: MetadataImage, batch: bytes) -> Steps[None]:
        header = read_header(batch)
        records: list[WireStruct] = []
        try:
            for record in iter_records(batch):
                if header.is_control:
                    self._control(image, decode_control(record))
                    continue
                records.append(self._decode(record.value, header.base_offset + len(records)))
                if len(records) % RECORDS_A_STEP == 0:
                    yield None
        except MALFORMED as error:
            path = self.partition_log.path
            raise MetadataError(f"{path}: the batch at offset {header.base_offset} cannot be read: {error}") from error
        for operation in self._transactions.feed(records):
            yield from apply_in_steps(image, operation, header.last_offset)
        image.highest_offset = header.last_offset

    def _control(self, image: MetadataImage, control: ControlRecord) -> None:
        if control.type == KRAFT_VERSION:
            self.kraft_version = image.kraft_version = control.message.kraft_version
        elif control.type == KRAFT_VOTERS:
            self._voters = control.message

    @staticmethod
    def _decode(value: Buffer | None, offset: int) -> WireStruct:
        try:
            return decode_value(value)
        except MetadataError as error:
            raise MetadataError(
                f"offset {offset} of the cluster's metadata: {error}; this ottla knows the records up to "
                f"metadata.version {METADATA_VERSION}, and the cluster was raised above that: start a newer one here"
            ) from error

    # Snapshots of the leader, and its epochs

    def read_snapshot(self, snapshot_id: SnapshotId) -> bytes:
        """Returns the bytes of a snapshot that lies in the directory. Any thread may call this. Raises StorageError."""
        path = self._path_of(snapshot_id)
        with self.partition_log.directory.guard(f"reading {path}"):
            return self._disk.read_bytes(path)

    def load_snapshot(self, snapshot_id: SnapshotId, data: bytes, image: MetadataImage) -> Steps[Snapshot]:
        """Makes steps that give an empty image the content of a snapshot, of which the bytes are given, and return it without its
        records: each step frees its own, because a hundred thousand are not freed within a turn. They raise MetadataError."""
        contents = yield from snapshot.read_in_steps(data, self._path_of(snapshot_id))
        while contents.records:
            image.apply_all(contents.records[:RECORDS_A_STEP])
            del contents.records[:RECORDS_A_STEP]
            yield None
        image.highest_offset = snapshot_id.end_offset - 1
        image.kraft_version = contents.kraft_version
        return contents

    def _path_of(self, snapshot_id: SnapshotId) -> str:
        return f"{self.partition_log.path}/{snapshot_id.file_name}"

    def begin_at(self, snapshot_id: SnapshotId, contents: Snapshot) -> None:
        """Begins again at a snapshot that lies in the directory and is the image from now on, since the leader's log begins only
        there. Raises StorageError."""
        self._note_snapshot(snapshot_id, contents)
        self.partition_log.truncate_fully_and_start_at(self.applied)
        self.high_watermark = max(self.high_watermark, self.applied)

    def note_leader(self, epoch: int, leader_id: int) -> None:
        """Saves the quorum's epoch and leader in quorum-state, as an observer of Kafka does. Raises StorageError."""
        path = f"{self.partition_log.path}/{quorum_state.FILE_NAME}"
        with self.partition_log.directory.guard(f"writing {path}"):
            quorum_state.write(
                self._disk,
                path,
                epoch=epoch,
                leader_id=leader_id,
                kraft_version=self.kraft_version,
                voters=self._static_voters or (leader_id,),
            )
