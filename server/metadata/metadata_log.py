"""The log of `__cluster_metadata-0` as its only voter writes it: replay at the start, a new epoch, then one batch an operation.

A start reads the newest snapshot and every committed batch behind it, and compares all of it with its CRCs. (If the log ends
before the snapshot, because somebody restored the snapshot alone, it begins again, empty, at the snapshot's end. If
batches are missing in between, because somebody had `ottla log repair --skip` take out what was damaged, records about what was
made in them are left out: nobody could do more with such a log, and without this it would not load.) Then the voter
elects itself: it writes quorum-state with an epoch that was never used before and a LeaderChange control record of that epoch,
and everything after it has the epoch. With one voter a batch is committed when it is durable, so `append` returns after fsync.
That happens on the event loop: an operation of the controller takes the 3 ms of its fsync, all requests wait as long, and in
return no operation ever sees half of another. Metadata changes are rare, so that is only noticeable when thousands of topics are
created.

Records between BeginTransaction and EndTransaction count as one operation over several batches; Kafka's controller writes these
for operations that do not fit into one batch. The next leader aborts a transaction that is open at the log's end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.log.errors import CorruptRecord, StorageError
from ottla.log.validate import Origin
from ottla.server.base.damage import way_out
from ottla.server.metadata import quorum_state, snapshot
from ottla.server.metadata.image import Endpoint, MetadataImage
from ottla.wire.batch import read_header
from ottla.wire.frame import MALFORMED
from ottla.wire.messages.internal.abort_transaction_record import AbortTransactionRecord
from ottla.wire.messages.internal.leader_change_message import LeaderChangeMessage, Voter
from ottla.wire.metadata_records import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    METADATA_VERSION,
    ControlRecord,
    MetadataError,
    build_control,
    build_encoded,
    decode_control,
    decode_value,
    encode_value,
)
from ottla.wire.primitives import ZERO_UUID, WireStruct
from ottla.wire.records import decode_records

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk
    from ottla.log.partition import PartitionLog
    from ottla.wire.messages.internal.voters_record import VotersRecord

TOPIC_ID: Final = ZERO_UUID[:-1] + b"\x01"
"""Kafka's fixed id of the metadata topic."""

logger = logging.getLogger("ottla.server.metadata")


class Transactions:
    """Groups records into operations: single records at once, those of a transaction together at its end."""

    def __init__(self) -> None:
        self._pending: list[WireStruct] | None = None

    @property
    def open(self) -> bool:
        return self._pending is not None

    def feed(self, records: Iterable[WireStruct]) -> Iterator[list[WireStruct]]:
        """Yields the operations that are complete with `records`, which are one batch. Raises MetadataError."""
        plain: list[WireStruct] = []
        for record in records:
            kind = type(record).__name__
            if kind == "BeginTransactionRecord":
                if self._pending is not None:
                    raise MetadataError("a metadata transaction begins inside another")
                self._pending = []
            elif kind in ("EndTransactionRecord", "AbortTransactionRecord"):
                if self._pending is None:
                    raise MetadataError("a metadata transaction ends that never began")
                if kind == "EndTransactionRecord":
                    plain += self._pending
                self._pending = None
            elif self._pending is not None:
                self._pending.append(record)
            else:
                plain.append(record)
        if plain:
            yield plain


def voter_controls(node_id: int, directory_id: bytes, endpoints: Sequence[Endpoint]) -> list[tuple[int, WireStruct]]:
    """Returns the control records that `kafka-storage format --standalone` adds: `kraft.version` 1, and this node as the only
    voter."""
    from ottla.wire.messages.internal import voters_record
    from ottla.wire.messages.internal.kraft_version_record import KRaftVersionRecord

    voter = voters_record.Voter(
        node_id,
        directory_id,
        [voters_record.Endpoint(address.name, address.host, address.port) for address in endpoints],
        voters_record.KRaftVersionFeature(0, 1),
    )
    return [(KRAFT_VERSION, KRaftVersionRecord(0, 1)), (KRAFT_VOTERS, voters_record.VotersRecord(0, [voter]))]


class MetadataLog:
    """The metadata log of its only voter. The caller calls `load`, then `begin_epoch`, then `append`. `epoch` is this leader's,
    -1 before `begin_epoch`."""

    def __init__(
        self, log: PartitionLog, disk: Disk, node_id: int, now_ms: Callable[[], int], directory_id: bytes = ZERO_UUID
    ) -> None:
        self._log = log
        self._directory_id = directory_id
        self._disk = disk
        self._node_id = node_id
        self._now_ms = now_ms
        self._kraft_version = 0
        self._voters: VotersRecord | None = None
        self.appended_bytes = 0
        """The number of bytes that were appended since the start."""
        self.last_append_ms = 0
        self._transactions = Transactions()
        self._offsets_missing = False
        """True if batches are gone from the log, as after `ottla log repair --skip`."""
        self._latest_epoch = 0
        self.epoch = -1

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def directory_id(self) -> bytes:
        """The id that tells this voter from one of the same node id on another disk; zeros if voters have only node ids
        (kraft.version 0)."""
        return self._directory_id if self._kraft_version > 0 else ZERO_UUID

    @property
    def partition_log(self) -> PartitionLog:
        """The log as a partition's log like any other."""
        return self._log

    def voter_controls(self) -> list[tuple[int, WireStruct]]:
        """Returns the control records that a snapshot repeats: the voters, unless the configuration lists them."""
        if self._kraft_version == 0:
            return []
        from ottla.wire.messages.internal.kraft_version_record import KRaftVersionRecord

        controls: list[tuple[int, WireStruct]] = [(KRAFT_VERSION, KRaftVersionRecord(0, self._kraft_version))]
        return controls if self._voters is None else [*controls, (KRAFT_VOTERS, self._voters)]

    @property
    def is_offline(self) -> bool:
        return self._log.directory.failed is not None

    @property
    def is_new(self) -> bool:
        """Returns whether the log has never had a leader. Raises OSError."""
        return self._log.log_end_offset == 0 and not any(found.end_offset for found in snapshot.find(self._disk, self._log.path))

    # Replay

    def load(self, image: MetadataImage) -> None:
        """Replays snapshot and log into an empty image. Raises MetadataError or StorageError; the broker must not start on
        either."""
        try:
            snapshot.tidy(self._disk, self._log.path, self._log.log_start_offset)
            start = self._load_snapshot(image)
            self._check_quorum()
            if start > self._log.log_end_offset:
                logger.warning("%s ends before its newest snapshot, and begins again at the end of that", self._log.path)
                self._latest_epoch = max(self._latest_epoch, self._log.leader_epoch)
                self._log.truncate_fully_and_start_at(start)
        except OSError as error:
            raise StorageError(f"reading {self._log.path}: {error}") from error
        if start < self._log.log_start_offset:
            raise MetadataError(
                f"{self._log.path}: the newest snapshot ends at offset {start}, "
                f"the log holds {self._log.log_start_offset}..{self._log.log_end_offset}"
            )
        try:
            for batch in self._log.iterate_batches(start):
                self._replay(image, batch, start)
        except CorruptRecord as error:
            raise MetadataError(f"{error}. {way_out(self._log.path)}") from error
        self._latest_epoch = max(self._latest_epoch, self._log.leader_epoch)
        image.kraft_version = self._kraft_version
        if image.highest_offset < 0:
            logger.info("the metadata log is empty: this is a new cluster")
        else:
            brokers, topics = len(image.brokers), len(image.topics)
            logger.info("metadata up to offset %d: %d brokers, %d topics", image.highest_offset, brokers, topics)

    def _load_snapshot(self, image: MetadataImage) -> int:
        """Loads the newest snapshot that is not damaged; returns its end offset, 0 if there is none."""
        log_offsets = range(self._log.log_start_offset, self._log.log_end_offset)
        newest = snapshot.read_newest(self._disk, self._log.path, log_offsets)
        if newest is None:
            return 0
        snapshot_id, contents = newest
        image.apply_all(contents.records, snapshot_id.end_offset - 1)
        self._kraft_version = contents.kraft_version
        self._check_voters(contents.voters)
        self._latest_epoch = snapshot_id.epoch
        return snapshot_id.end_offset

    def _replay(self, image: MetadataImage, batch: bytes, start: int) -> None:
        header = read_header(batch)
        if header.last_offset < start:
            return
        following = max(image.highest_offset + 1, start)
        if header.base_offset > following:
            self._offsets_missing = True
            logger.error(
                "the offsets %d to %d of %s are missing, as after ottla log repair --skip: later records about what was made "
                "there are left out",
                following,
                header.base_offset - 1,
                self._log.path,
            )
        try:
            decoded = decode_records(batch)
        except MALFORMED as error:
            raise MetadataError(f"{self._log.path}: the batch at offset {header.base_offset} cannot be read: {error}") from error
        if header.is_control:
            for record in decoded:
                self._control(decode_control(record))
            image.highest_offset = header.last_offset
            return
        operations = self._transactions.feed(decode_value(record.value) for record in decoded)
        for operation in operations:
            self._apply(image, operation)
        image.highest_offset = header.last_offset

    def _apply(self, image: MetadataImage, operation: list[WireStruct]) -> None:
        """Applies an operation. Where somebody chose to do without a damaged batch, that goes for what depended on it, too."""
        if not self._offsets_missing:
            image.apply_all(operation)
            return
        for record in operation:
            try:
                image.apply(record)
            except MetadataError as error:
                logger.error("a %s is left out: %s", type(record).__name__, error)

    def _control(self, record: ControlRecord) -> None:
        if record.type == KRAFT_VERSION:
            self._kraft_version = record.message.kraft_version
        elif record.type == KRAFT_VOTERS:
            self._check_voters(record.message)

    def _check_voters(self, voters: Any) -> None:
        """Raises MetadataError if the log belongs to a quorum of several nodes, which one of them must not lead alone."""
        self._voters = voters or self._voters
        ids = [] if voters is None else sorted(voter.voter_id for voter in voters.voters)
        if ids not in ([], [self._node_id]):
            raise self._not_alone(ids)

    def _not_alone(self, voters: list[int]) -> MetadataError:
        return MetadataError(f"{self._log.path} belongs to a quorum of nodes {voters}; node {self._node_id} alone cannot lead it")

    def _check_quorum(self) -> None:
        state = quorum_state.read(self._disk, f"{self._log.path}/{quorum_state.FILE_NAME}")
        if state is not None:
            self._latest_epoch = max(self._latest_epoch, state.leader_epoch)
            if state.voters not in ((), (self._node_id,)):
                raise self._not_alone(list(state.voters))

    # Leading

    def begin_epoch(self) -> None:
        """Makes this voter the leader of a new epoch. Raises StorageError."""
        self.epoch = self._latest_epoch = self._latest_epoch + 1
        path = f"{self._log.path}/{quorum_state.FILE_NAME}"
        try:
            quorum_state.write(self._disk, path, epoch=self.epoch, leader_id=self._node_id, kraft_version=self._kraft_version)
        except OSError as error:
            raise self._log.directory.fail(f"writing {path}", error) from error
        me = Voter(self._node_id)
        message = LeaderChangeMessage(0, self._node_id, [me], [me])  # Kafka 4.4 reads every one as version 0
        self._append(build_control([(LEADER_CHANGE, message)], self._now_ms()))
        if self._transactions.open:
            abort = AbortTransactionRecord("the leader that began it is gone")
            self.append([encode_value(abort, METADATA_VERSION)])
            self._transactions = Transactions()

    def append(self, values: Sequence[bytes]) -> int:
        """Appends encoded records as one batch, which is durable when this returns; returns the offset of its last record. Raises
        StorageError."""
        return self.append_built(self.build(values))

    def build(self, values: Sequence[bytes]) -> bytes:
        """Returns the batch of encoded records, nothing for none. That of thousands takes so long that others come before it is
        appended."""
        return build_encoded(values, self._now_ms()) if values else b""

    def append_built(self, batch: bytes) -> int:
        """Appends a batch that `build` made, as `append` does. Raises StorageError."""
        assert self.epoch >= 0, "begin_epoch comes first"
        return self._append(batch)

    def raise_kraft_version(self, image: MetadataImage, endpoints: Sequence[Endpoint]) -> None:
        """Raises kraft.version from 0 to 1: from now on the voters and their addresses are kept in the log. Raises
        StorageError."""
        from ottla.wire.messages.internal.voters_record import VotersRecord

        controls = voter_controls(self._node_id, self._directory_id, endpoints)
        image.highest_offset = self._append(build_control(controls, self._now_ms()))
        self._kraft_version = image.kraft_version = 1
        (self._voters,) = (message for _, message in controls if isinstance(message, VotersRecord))

    def _append(self, batch: bytes) -> int:
        log = self._log
        info = log.append_as_leader(batch, leader_epoch=self.epoch, origin=Origin.RAFT_LEADER)
        try:
            log.flush()
        except StorageError:
            if log.directory.failed is None:  # only descriptors or room ran out, so what is not committed is cut off again
                log.truncate_to(info.base_offset)
            raise
        self.appended_bytes += len(batch)
        self.last_append_ms = self._now_ms()
        return info.last_offset
