"""PartitionLog: one partition's records, from append to deletion. It corresponds to Kafka's UnifiedLog.

Four offsets, always in this order:

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset

Readers see offsets from the start up to the high watermark (all replicas have them), or up to the last stable offset if they want
no open transactions. `recovery_point` is independent of these: everything below it was fsynced.

What a leader's append does is in log/appending.py. Before the write nothing has changed that a reader could see; after it nothing
can fail.

What is derived from the log and not needed to read it (indexes, producer snapshots, epochs) is written unsynced, and synced by
`flush` before the recovery point moves. So after a crash all of it is either durable or lies beyond the recovery point, where
recovery rebuilds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.log import retention
from ottla.log.appending import Appending
from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import Buffer, FileSlice
from ottla.log.epochs import LeaderEpochs
from ottla.log.errors import OffsetOutOfRange
from ottla.log.flush import FlushJob
from ottla.log.local_log import LocalLog
from ottla.log.markers import end_transaction
from ottla.log.names import DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX
from ottla.log.open_options import Opening
from ottla.log.producer_snapshots import ProducerSnapshots
from ottla.log.producers import ProducerStates
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.txn_index import TxnIndex
from ottla.log.validate import BatchRules
from ottla.wire.batch import NO_LEADER_EPOCH, BatchHeader

if TYPE_CHECKING:
    from ottla.log.config import LogConfig

_log = logging.getLogger("ottla.log.partition")


class PartitionLog(Appending):
    """A partition's log, as the module's docstring describes it. `log.opening.recovery` makes it. It is not thread-safe, except
    for `FlushJob.run` and reads of a FileSlice."""

    __slots__ = (
        "_config", "_roll_flush_upto", "_snapshots", "cuts", "epochs", "last_flush_ms", "local", "producer_expiration_ms",
        "saved_high_watermark", "topic_id", "unsynced",
    )  # fmt: skip

    def __init__(
        self,
        directory: LogDirectory,
        path: str,
        opening: Opening,
        *,
        topic_id: bytes | None,
        segments: Segments,
        producers: ProducerStates,
        epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
        last_snapshot: int,
    ) -> None:
        self.local = LocalLog(
            directory, path, opening.topic, opening.partition, segments, opening.config, opening.now_ms, opening.random
        )
        self.directory = directory
        self.topic = opening.topic
        self.partition = opening.partition
        self.topic_id = topic_id
        self.now_ms = opening.now_ms
        self.producer_expiration_ms = opening.producer_expiration_ms
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self._latest_epoch = epochs.latest_epoch
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = log_end_offset if opening.clean else max(0, min(opening.recovery_point, log_end_offset))
        self.on_append = None
        self.high_watermark = log_end_offset
        saved = max(log_start_offset, opening.high_watermark)
        self.saved_high_watermark: int | None = saved if saved < log_end_offset else None
        self.unsynced = self.local.unsynced
        self.joined = None
        self._awaiting_flush = []
        self.last_flush_ms = opening.now_ms()
        self.closed = False
        self.cuts = 0
        """The number of truncations so far: a flush that began before one says nothing about the bytes after it."""
        self._snapshots = ProducerSnapshots(self.local, last_snapshot)
        self._roll_flush_upto = 0
        self.config = opening.config
        assert log_start_offset <= log_end_offset, (log_start_offset, log_end_offset)

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def config(self) -> LogConfig:
        """The topic's settings. They may be assigned at run time."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.rules = BatchRules(config)
        self._segment_bytes = config.segment_bytes
        self.roll_after_ms = config.roll_after_ms
        self.flush_messages = config.flush_messages
        self.local.configure(config)

    # Properties

    @property
    def path(self) -> str:
        """Returns the partition's directory."""
        return self.local.path

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is decided and all replicas have the records."""
        high_watermark = self.high_watermark
        first = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if first is None or first > high_watermark else max(first, self.log_start_offset)

    @property
    def leader_epoch(self) -> int:
        """Returns the latest leader epoch that this log knows, -1 if none."""
        return self._latest_epoch

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes()

    @property
    def first_base_offset(self) -> int:
        return self.segments.first.base_offset

    @property
    def unflushed(self) -> int:
        """The number of offsets beyond the recovery point, which a power cut may take."""
        return self.log_end_offset - self.recovery_point

    # Appending

    def append_run(self, data: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Appends whole batches as they are, with their own offsets and epochs, to the active segment in one write. `data` holds
        them one after the other, and `headers` is not empty.

        The caller has checked them, and that they fit into the segment (log/rolling.py). A gap before a batch is allowed. Epochs,
        producers and the transaction index get what the headers say. The high watermark stays where it is, because only the
        caller knows how far it may move. Raises StorageError, with nothing changed if it was the write that failed.
        """
        with self.directory.guard(f"appending to {self.path}"):
            self.segments.active.append_run(
                [data], len(data), [(each.size, each.last_offset, each.max_timestamp) for each in headers]
            )
        self.log_end_offset = headers[-1].next_offset
        start = 0
        for header in headers:
            if header.partition_leader_epoch not in (self._latest_epoch, NO_LEADER_EPOCH):
                self._note_epoch(header.partition_leader_epoch, header.base_offset)
            if header.is_control:
                self._note_marker(header, header.base_offset, [data[start : start + header.size]])
            else:
                self.producers.update(header, header.base_offset)
            start += header.size

    def skip_to(self, offset: int) -> Segment:
        """Moves the log's end up to `offset`, over a gap that no segment can hold or that nothing follows yet, and returns the
        new segment that begins there. Raises StorageError.
        """
        assert offset >= self.log_end_offset
        self.log_end_offset = self.producers.end_offset = offset
        return self.roll()

    def begin_epoch(self, leader_epoch: int) -> None:
        """Notes that a leader of this epoch writes from the log's end on. The next flush saves that; after a crash recovery finds
        it in the batches.
        """
        self.write_joined()
        self._note_epoch(leader_epoch, self.log_end_offset)

    def _note_epoch(self, leader_epoch: int, offset: int) -> None:
        """Notes that the batch at `offset` is the first one of this leader epoch."""
        if self.epochs.assign(leader_epoch, offset):
            self.unsynced.epochs = True
        self._latest_epoch = leader_epoch

    def roll(self) -> Segment:
        """Ends the active segment and starts one at the log's end, which it returns. If the active one is empty it is kept.
        Raises StorageError."""
        self.write_joined()
        old = self.segments.active
        if old.base_offset == self.log_end_offset:
            assert old.size == 0
            return old
        with self.directory.guard(f"rolling {self.path}"):
            self.local.end_segment(old, synced=self.recovery_point >= self.log_end_offset)
            self.take_snapshot()
            segment = self.local.new_segment(self.log_end_offset)
        self.segments.add(segment)
        old.indexes.release_large()
        self._roll_flush_upto = self.log_end_offset
        _log.info("%s-%d rolled a segment at offset %d", self.topic, self.partition, self.log_end_offset)
        return segment

    def take_snapshot(self) -> None:
        """Saves the producer state as `<end offset>.snapshot` unless that exists already. Raises OSError."""
        self._snapshots.take(self.producers)

    # Transactions

    def _note_marker(self, header: BatchHeader, base_offset: int, parts: Sequence[Buffer]) -> None:
        """Notes the control batch in `parts`, which was appended at `base_offset` to the active segment, in the producer state
        and, if it aborts a transaction, in the transaction index. If that fails, it takes the log's directory offline and raises
        StorageError.
        """
        self.producers.forget_replicated(self.high_watermark)
        completed = end_transaction(self.producers, header, base_offset, parts)
        if completed is not None and completed.aborted:
            self.local.add_aborted(completed.index_entry, self.log_start_offset)

    def txn_index_of(self, segment: Segment) -> TxnIndex:
        """Returns a segment's transaction index, rebuilt from the log if its file is wrong. Raises CorruptRecord or OSError."""
        return self.local.txn_index_of(segment, self.log_start_offset)

    # Replication

    def replicate_by(self, on_append: Callable[[int], bool] | None) -> None:
        """Leaves the high watermark to the owner of `on_append`, who moves it by `raise_high_watermark`; with None, as for a log
        with one replica, it follows the log's end from the next append on.

        `on_append` is called with the log's end when an append was flushed, or need not be flushed before its acknowledgement. It
        returns whether the acknowledgement has to wait for other replicas.
        """
        self.on_append = on_append

    def settle_high_watermark(self, *, alone: bool) -> None:
        """Begins with the high watermark that was saved, because it is not known yet what the other replicas have; `alone`, with
        no others, with the log's end. Until this is called after a start, the checkpoint keeps the one that was saved: a crash
        before this broker knows of the others must not make all that it has count as replicated.
        """
        saved, self.saved_high_watermark = self.saved_high_watermark, None
        if saved is not None and not alone:
            self.high_watermark = min(saved, self.high_watermark)

    def forget_high_watermark(self) -> None:
        """Begins with nothing that is known to be replicated, as a log does whose leader has not been asked yet."""
        self.high_watermark, self.saved_high_watermark = self.log_start_offset, None

    @property
    def checkpointed_high_watermark(self) -> int:
        """The high watermark for the checkpoint."""
        return self.high_watermark if self.saved_high_watermark is None else self.saved_high_watermark

    def raise_high_watermark(self, offset: int) -> bool:
        """Raises the high watermark to `offset`, which all replicas have, and returns whether it moved. It never moves back, and
        never beyond the log's end.
        """
        if offset <= self.high_watermark:
            return False
        assert offset <= self.log_end_offset, (offset, self.log_end_offset)
        self.high_watermark = offset
        return True

    def take_over(self, source: PartitionLog) -> None:
        """Takes over from a log that has the same batches what is not in them: producers, leader epochs, and how it is
        replicated. Both share these then, so only one of them may be appended to.
        """
        assert source.log_end_offset == self.log_end_offset
        self.producers, self.epochs, self._latest_epoch = source.producers, source.epochs, source.leader_epoch
        self.unsynced.epochs = True
        self.on_append = source.on_append
        self.high_watermark, self.saved_high_watermark = source.high_watermark, source.saved_high_watermark

    # Reading

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one_batch: bool = True) -> FileSlice | None:
        """Returns the place of the bytes from the batch that holds `offset` on, all in one segment and never past offset `upto`
        (high watermark, last stable offset or log end); None if there is nothing to read yet.

        The slice is cut at `max_bytes`, even inside a batch. If the first batch alone is larger, the slice holds all of it if
        `min_one_batch`, and is None otherwise. Its first records may lie before `offset`. Raises OffsetOutOfRange, and
        CorruptRecord if the file cannot be walked, and StorageError.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.log_start_offset}..{end_offset} of {self.topic}-{self.partition}"
            )
        directory = self.directory
        if self.closed or directory.failed is not None:
            self.check_usable()
        try:
            return self.segments.read(offset, max_bytes, min(upto, end_offset), end_offset, min_one_batch)
        except OSError as error:
            raise directory.fail(f"reading {self.path}", error) from error

    def iterate_batches(self, from_offset: int) -> Iterator[bytes]:
        """Yields every whole batch from the one that holds `from_offset` to the log's end as it is now. Raises what `read`
        raises, and CorruptRecord at a batch that is damaged, so that no state is ever made of wrong bytes."""
        if not self.log_start_offset <= from_offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"offset {from_offset} is not in {self.log_start_offset}..{self.log_end_offset} of {self!r}")
        with self.directory.guard(f"reading {self.path}"):
            for batch in self.segments.batches(from_offset, self.log_end_offset):
                yield bytes(batch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Returns (epoch, end offset) as OffsetForLeaderEpoch answers it; LeaderEpochs.end_offset_for has the rules."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # Flushing

    def start_flush(self, upto: int | None = None) -> FlushJob | None:
        """Returns a job that makes everything below offset `upto` (default: the log's end) durable, None if it is. Raises
        StorageError.
        """
        self.directory.check()
        self.write_joined()
        upto = self.log_end_offset if upto is None else min(upto, self.log_end_offset)
        if upto <= self.recovery_point and not self.unsynced:
            return None
        with self.directory.guard(f"flushing {self.path}"):
            first = self.segments.floor(self.recovery_point)
            files = [s.file or s.open_file() for s in self.segments.between(first, upto)] if upto > self.recovery_point else []
        epochs = self.epochs.encoded() if self.unsynced.epochs else None
        return FlushJob(self.local, files, epochs, upto=upto, cuts=self.cuts, on_finished=self._flush_finished)

    def _flush_finished(self, job: FlushJob) -> None:
        """Moves the recovery point after a job, which made everything below its `upto` durable."""
        if job.cuts == self.cuts:
            self.recovery_point = max(self.recovery_point, job.upto)
            self._release_flushed()
        self.directory.flushes += 1
        self.directory.flushed_ms += job.took_ms
        self.last_flush_ms = self.now_ms()

    def _release_flushed(self) -> None:
        """Makes visible to readers the appends that may be acknowledged now that the recovery point has moved."""
        released = [end_offset for end_offset in self._awaiting_flush if end_offset - self.recovery_point < self.flush_messages]
        del self._awaiting_flush[: len(released)]
        for end_offset in released:
            if self.on_append is not None:
                self.on_append(end_offset)
            else:
                self.raise_high_watermark(end_offset)

    def assume_flushed(self) -> None:
        """Lets no append wait for a flush any more, because another log with the same batches is durable."""
        self.recovery_point = self.log_end_offset

    def flush(self, upto: int | None = None) -> None:
        """Syncs everything below `upto` (default: all) before it returns. Raises StorageError."""
        job = self.start_flush(upto)
        if job is not None:
            job.run_and_finish()

    def flush_due(self, now_ms: int) -> int | None:
        """Returns the offset up to which a flush is due, None if none is: the log's end by `flush.messages` or `flush.ms`, the
        end of the rolled segments after a roll.
        """
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed > 0 and (unflushed >= self.flush_messages or now_ms - self.last_flush_ms >= self._config.flush_ms):
            return self.log_end_offset
        return self._roll_flush_upto if self._roll_flush_upto > self.recovery_point else None

    # Cutting at the start

    def delete_records_before(self, offset: int) -> int:
        """Moves the log's start to `offset` and returns the new start; the next retention deletes segments.

        If the log begins at or beyond `offset` already, nothing changes. Raises OffsetOutOfRange if it is beyond the high
        watermark, and StorageError.
        """
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(f"offset {offset} is not in 0..{self.high_watermark}, the high watermark of {self!r}")
        self.directory.check()
        self.raise_log_start_offset(offset)
        return self.log_start_offset

    def raise_log_start_offset(self, offset: int) -> None:
        """Makes the log start at `offset`, so that the records below count as deleted. The start never moves back."""
        if offset > self.log_start_offset:
            assert offset <= self.high_watermark
            self.log_start_offset = offset
            self.unsynced.epochs |= self.epochs.truncate_from_start(offset)

    def check_times(self, now_ms: int) -> Iterator[None]:
        """Compares with the log the timestamps by which `apply_retention` is about to delete; pauses now and then, while the log
        may be used. Raises CorruptRecord or StorageError."""
        cuts = self.cuts
        with self.directory.guard(f"reading {self.path}"):
            for _ in retention.check_times(self.segments, self._limits(now_ms)):
                yield
                if self.closed or self.cuts != cuts:
                    return

    def _limits(self, now_ms: int) -> retention.Limits:
        return retention.Limits(self.log_start_offset, self.high_watermark, self.log_end_offset, self._config, now_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Deletes the segments that may go by retention.ms, retention.bytes or the log's start; returns how many. It does the
        rest of `check_times` first. Raises CorruptRecord or StorageError.
        """
        deleted = 0
        for _ in self.check_times(now_ms):
            pass
        with self.directory.guard(f"deleting segments of {self.path}"):
            for reason, count_deletable in retention.RULES:
                count = count_deletable(self.segments, self._limits(now_ms))
                if count:
                    self._delete_oldest(count, reason)
                    deleted += count
        return deleted

    def _delete_oldest(self, count: int, reason: str) -> None:
        """Deletes the oldest `count` segments, which raises the log's start. If even the active segment is to go, a new one is
        rolled first, because the log must not lose its end. Raises OSError or StorageError.
        """
        segments = self.segments
        if count == len(segments):
            self.roll()
        self.raise_log_start_offset(segments[count].base_offset)
        _log.info("%s-%d drops %d segments up to offset %d: %s", self.topic, self.partition, count, self.log_start_offset, reason)
        self.local.drop_oldest(count)

    # Cutting at the end

    def truncate_to(self, offset: int) -> bool:
        """Drops everything from `offset` on; returns False if there was nothing. If `offset` is below the log's start, the log is
        empty afterwards and starts there.

        A leader epoch that begins at the log's end is dropped even if no record is, because a leader may have begun it and been
        replaced before it wrote anything. Kafka's `UnifiedLog.truncateTo` does the same.
        """
        assert offset >= 0
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(self.log_end_offset):
                self.unsynced.epochs = True
                self._latest_epoch = self.epochs.latest_epoch
            return False
        _log.info("%s-%d is truncated from %d to %d", self.topic, self.partition, self.log_end_offset, offset)
        with self.directory.guard(f"truncating {self.path}"):
            end = self.local.end_below(offset)
        self._begin_cut(end)
        with self.directory.guard(f"truncating {self.path}", whole=True):
            self.local.cut(offset)
            self.unsynced.epochs |= self.epochs.truncate_from_end(offset)
            self._latest_epoch = self.epochs.latest_epoch
            self.log_end_offset = offset
            self.log_start_offset = min(self.log_start_offset, offset)
            self.high_watermark = min(self.high_watermark, offset)
            self._roll_flush_upto = min(self._roll_flush_upto, offset)
            if self.producers.truncate(offset):
                self._snapshots.reload(self.producers, self.log_start_offset, self.log_end_offset, self.producer_expiration_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int = 0) -> None:
        """Drops everything, so that the log is empty and goes on at an offset that it may never have reached. It begins there,
        or at `log_start_offset` if that is greater, because it lies within the next batch. Raises StorageError.

        Kafka's followers do this when they have fallen behind their leader's start, and its metadata log does it when a snapshot
        covers what it does not have. It is durable with the next flush; a crash before that leaves the old log, or an empty one,
        so the recovery point does not move on.
        """
        self._begin_cut(offset)
        with self.directory.guard(f"truncating {self.path}", whole=True):
            self.local.replace_all(offset)
            self.epochs.clear()
            self.unsynced.epochs = True
            self._latest_epoch = self.epochs.latest_epoch
            self.producers.clear(offset)
            self.log_end_offset = self.high_watermark = self._roll_flush_upto = offset
            self.log_start_offset, self._snapshots.newest = max(offset, log_start_offset), offset

    def _begin_cut(self, offset: int) -> None:
        """Lowers the recovery point on disk before a cut, because bytes beyond it are written again and must not count as
        fsynced. Raises StorageError.
        """
        self.write_joined()
        if offset < self.recovery_point:
            self.recovery_point = offset
            self.directory.save_recovery_points()
        self.cuts += 1
        while self._awaiting_flush and self._awaiting_flush[-1] > offset:
            self._awaiting_flush.pop()

    # The end

    def forget_expired_producers(self, now_ms: int) -> int:
        """Forgets producers that were silent for producer.id.expiration.ms; returns how many."""
        return self.producers.expire(now_ms, self.producer_expiration_ms)

    def delete(self, *, synced: bool = True) -> None:
        """Deletes the whole partition: its directory is renamed now and removed after `file.delete.delay.ms`. The deletion is
        durable if `synced`, or else with `LogDirectory.sync_renames`. Raises StorageError."""
        self.directory.check()
        _log.info("%s is deleted", self.path)
        with self.directory.guard(f"deleting {self.path}"):
            renamed = self.local.retire_directory(DELETE_DIR_SUFFIX, synced=synced)
            self.directory.remove_later(renamed, self.now_ms() + self._config.file_delete_delay_ms)
        self._let_go()

    def set_aside(self, reason: str = "belongs to no topic") -> str:
        """Closes the log of a partition that is not, or not certainly, the topic's, and renames its directory; the files stay.
        Returns the directory's new path. Raises StorageError."""
        self.directory.check()
        with self.directory.guard(f"setting {self.path} aside"):
            renamed = self.local.retire_directory(STRAY_DIR_SUFFIX)
        _log.warning("%s-%d %s and is set aside as %s", self.topic, self.partition, reason, renamed)
        self._let_go()
        return renamed

    def start_close(self) -> FlushJob | None:
        """Writes what a start without recovery needs: the indexes and the producer snapshot. Returns the flush that must follow,
        None if nothing was written. Raises StorageError.
        """
        self.directory.check()
        self.write_joined()
        unsynced = self.unsynced
        before = len(unsynced.paths)
        with self.directory.guard(f"closing {self.path}"):
            self.local.write_indexes()
            self.take_snapshot()
        # No flush if nothing was written: a thousand idle logs must not cost a thousand fsyncs.
        written = len(unsynced.paths) > before or unsynced.is_overdue
        return self.start_flush() if written or self.unflushed > 0 else None

    def close(self, clean: bool = True) -> None:
        """Closes the log. If `clean`, it first does `start_close` and its flush, unless the caller has done that. Raises
        StorageError."""
        if self.closed:
            return
        if clean:
            job = self.start_close()
            if job is not None:
                job.run_and_finish()
        self._let_go()

    def _let_go(self) -> None:
        self.closed = self.unsynced.closed = True
        for segment in self.segments:
            segment.close()
