"""LocalLog: the files of one partition. Kafka has a LocalLog, too, below its UnifiedLog, which corresponds to our `PartitionLog`.

It makes, cuts and drops segments. It knows neither producers nor leader epochs, and of offsets only those at which segments
begin. The caller has already checked that the log directory is online, and decides what an OSError means; appends and reads go
past it, straight to the segments.

Segments that leave the log are renamed at once and removed after `file.delete.delay.ms`. The delay is for readers that hold only
a name (in Kafka; ours hold the open file), and gives an operator a minute to save the files. A restart removes what is renamed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ottla.log.disk.directory import LogDirectory
from ottla.log.flush import Unsynced
from ottla.log.index import CorruptIndex
from ottla.log.names import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, offset_name, retired_directory_name
from ottla.log.rebuild import compare_aborted, rebuild_txn_index
from ottla.log.scan import walk
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.txn_index import AbortedTransaction, TxnIndex

if TYPE_CHECKING:
    from ottla.log.config import LogConfig

_log = logging.getLogger("ottla.log.partition")


class LocalLog:
    """Manages the files of a partition, whose directory is `path` in the log directory `directory`."""

    __slots__ = ("config", "directory", "now_ms", "partition", "path", "random", "segments", "topic", "unsynced")

    def __init__(
        self,
        directory: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        segments: Segments,
        config: LogConfig,
        now_ms: Callable[[], int],
        random: Random,
    ) -> None:
        self.directory = directory
        self.path = path
        self.topic = topic
        self.partition = partition
        self.segments = segments
        self.config = config
        self.now_ms = now_ms
        self.random = random
        self.unsynced = Unsynced()

    def configure(self, config: LogConfig) -> None:
        """Takes the topic's settings, which changed or became known after the log was opened."""
        self.config = config
        for segment in self.segments:
            segment.configure(index_bytes=config.segment_index_bytes, index_interval_bytes=config.index_interval_bytes)

    # Making segments

    def segment_of(self, base_offset: int, size: int) -> Segment:
        """Returns the object of a segment whose files are `size` bytes long, or are yet to be made."""
        config = self.config
        return Segment(
            self.directory.disk,
            self.path,
            base_offset,
            size=size,
            open_files=self.directory.open_files,
            index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self.now_ms(),
            jitter_ms=config.random_segment_jitter_ms(self.random),
        )

    def new_segment(self, base_offset: int) -> Segment:
        """Makes the files of a new, empty segment, which is not in `segments` yet. Raises OSError."""
        segment = self.segment_of(base_offset, 0)
        segment.create_files(self.config.segment_bytes if self.config.preallocate else 0)
        self.unsynced.names_in(self.path)
        return segment

    def end_segment(self, segment: Segment, *, synced: bool) -> None:
        """Writes what the indexes of a segment that ends do not have on disk yet. Raises OSError.

        `synced` says that the segment itself is durable already: recovery would begin behind its indexes, and trust what a power
        cut left of them, so they are synced at once. Otherwise the flush that moves the recovery point past them does that.
        """
        written = segment.write_indexes(final=True)
        if not synced:
            self.unsynced.paths += written
            return
        try:
            for path in written:
                self.directory.disk.open(path).sync()
            self.directory.disk.sync_dir(self.path)
        except OSError:  # without this the next attempt would find nothing left to write, and sync nothing
            segment.rewrite_indexes()
            raise

    def write_indexes(self) -> None:
        """Writes, unsynced, what the indexes of all segments do not have on disk yet, and ends the files at the last whole
        batch. Raises OSError.
        """
        for segment in self.segments:
            if segment.indexes.are_dirty or segment.longer_on_disk:
                self.unsynced.paths += segment.write_indexes(final=True)

    # Transaction indexes

    def txn_index_of(self, segment: Segment, log_start_offset: int) -> TxnIndex:
        """Returns a segment's transaction index, rebuilt from the log if its file is wrong. Raises CorruptRecord or OSError."""
        try:
            if not segment.indexes.are_txns_compared:
                compare_aborted(self.segments, segment, start_offset=log_start_offset)
            index = segment.txn_index
        except CorruptIndex as error:
            self._rebuild_txn_index(segment, log_start_offset, error)
            index = segment.txn_index
        return index

    def add_aborted(self, aborted: AbortedTransaction, log_start_offset: int) -> None:
        """Adds a transaction, whose marker was just appended, to the active segment's index. Raises StorageError, and takes the
        log directory offline, because otherwise readers would take aborted records for committed ones.
        """
        segment = self.segments.active
        with self.directory.guard(f"appending to {self.path}", whole=True):
            try:
                index = segment.change_txn_index()
            except CorruptIndex as error:
                self._rebuild_txn_index(segment, log_start_offset, error)  # with this marker, which is in the log by now
                return
        index.append(aborted)
        if len(index) == 1:
            self._make_file(segment.path(TXN_INDEX_SUFFIX))

    def _make_file(self, path: str) -> None:
        """Makes a transaction index's file with its first entry, as Kafka does. Its content is written with the other indexes.

        This raises nothing, even if it takes the directory offline, because the marker is in the log and counts.
        """
        try:
            self.directory.disk.open(path, create=True).close()
        except OSError as error:
            failure = self.directory.fail(f"making {path}", error)
            _log.warning("%s could not be made and is missing until its segment is full: %s", path, failure)
        self.unsynced.names_in(self.path)

    def _rebuild_txn_index(self, segment: Segment, log_start_offset: int, error: CorruptIndex) -> None:
        _log.warning("the transaction index of %r is rebuilt: %s", segment, error)
        rebuild_txn_index(self.directory.disk, self.path, self.segments, segment, start_offset=log_start_offset)

    # Removing segments

    def drop(self, segments: list[Segment], keep_snapshot: int = -1) -> None:
        """Marks the files of segments that left `self.segments`, and removes their producer snapshots but for that of offset
        `keep_snapshot`. Raises OSError.
        """
        due_ms = self.now_ms() + self.config.file_delete_delay_ms
        disk = self.directory.disk
        for segment in segments:
            for path in segment.rename_deleted():
                self.directory.remove_later(path, due_ms)
            snapshot = f"{self.path}/{offset_name(segment.base_offset)}{SNAPSHOT_SUFFIX}"
            if segment.base_offset != keep_snapshot and disk.exists(snapshot):
                disk.remove(snapshot)
        self.unsynced.names_in(self.path)

    def drop_oldest(self, count: int) -> None:
        """Drops the oldest `count` segments; one stays. Raises OSError.

        They are dropped durably one by one, the oldest first: if a crash brought an older one back without its successors, there
        would be a gap, and recovery takes what lies behind a gap for the rest of a lost tail.
        """
        for segment in self.segments.drop_first(count):
            self.drop([segment])
            self.directory.disk.sync_dir(self.path)

    def end_below(self, offset: int) -> int:
        """Returns where the batches end that a cut at `offset` leaves, as far as its segment says. That is less than `offset`
        if a batch spans it, or if the records before it were compacted away. A recovery point in that gap would make damage to
        what was fsynced of a write that is torn there. Raises CorruptRecord and OSError.
        """
        segment = self.segments[self.segments.floor(offset)]
        if offset <= segment.base_offset:
            return offset
        segment.locate(offset)  # or the index, by which the walk begins, may be wrong
        found = segment.base_offset
        for batch in walk(segment.file or segment.open_file(), segment.position_of(offset - 1), segment.size):
            if batch.last_offset >= offset:
                break
            found = batch.last_offset + 1
        return found

    def cut(self, offset: int) -> None:
        """Ends the segments at `offset`; where they all begin later, one empty segment there takes their place. Raises OSError.

        The cut is durable when this returns, and the cleaner's checkpoint is lowered before it. If a crash could bring the old
        tail back behind a segment that was rolled meanwhile, recovery, which begins at the new segment, would never look at it.
        """
        segments = self.segments
        if offset < segments.first.base_offset:
            self.replace_all(offset)
        else:
            self.directory.lower_cleaned((self.topic, self.partition), offset)
            self.drop(segments.drop_after(segments.floor(offset)))
            segments.active.truncate_to(offset)
            if segments.active.size == 0:
                segments.active.created_ms = self.now_ms()  # its time until the next roll begins anew
            segments.active.sync()
            segments.forget_hints()
        self.directory.disk.sync_dir(self.path)

    def replace_all(self, offset: int) -> None:
        """Puts one empty segment, which begins at `offset`, in the place of all others. Durable with the next flush. Raises
        OSError.

        A crash in the middle leaves some of the old segments. If one of them begins at `offset`, it keeps its records until the
        others are gone: emptied first, it would leave a gap before those behind it, and compactions make gaps as well.
        """
        self.directory.lower_cleaned((self.topic, self.partition), offset)
        known = next((segment for segment in self.segments if segment.base_offset == offset), None)
        if known is None:
            self.drop(self.segments.replace_all(self.new_segment(offset)))
            return
        self.drop([segment for segment in self.segments.replace_all(known) if segment is not known])
        known.truncate_bytes(0, offset)  # a new one would have its names
        known.created_ms = self.now_ms()
        snapshot = f"{self.path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"
        if self.directory.disk.exists(snapshot):
            self.directory.disk.remove(snapshot)

    # The directory

    def retire_directory(self, suffix: str, *, synced: bool = True) -> str:
        """Gives the directory a name that is no partition's, so that a topic of the same name can be made again; returns its new
        path. The name is durable if `synced`, or else with `LogDirectory.sync_renames`. Raises OSError.
        """
        directory = self.directory
        renamed = f"{directory.path}/{retired_directory_name(self.topic, self.partition, self.random, suffix)}"
        directory.disk.rename(self.path, renamed)
        if synced:
            directory.disk.sync_dir(directory.path)
        else:
            directory.renamed = True
        return renamed

    def rename_directory(self, path: str) -> None:
        """Gives the directory, durably, another name, under which the log goes on. Raises OSError."""
        self.directory.disk.rename(self.path, path)
        self.directory.disk.sync_dir(self.directory.path)
        self.path = path
        for segment in self.segments:
            segment.directory = path
            segment.indexes.forget_files()
