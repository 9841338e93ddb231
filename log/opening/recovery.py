"""Opening a partition's directory, after a clean stop or an unclean one, and repairing what is wrong in it. It goes through the
same passes as Kafka's LogLoader:

1. Temporary files (`log.opening.temporary_files`): `.deleted` and `.cleaned` ones are removed, and a `.swap` that a compaction
   or split left gets its plain name.
2. Segments: there is one for each `.log` file; an index without its log is removed. Indexes are read when first needed and
   rebuilt if they are wrong.
3. After an unclean stop (`log.opening.torn_tail`), every segment from the one that holds the recovery point on is read batch
   by batch, and the log is cut at the first bad batch; the indexes are rebuilt on the way. What is cut and looks like more than
   a torn tail is kept (`log.opening.damaged`). A bad batch *below* the recovery point was fsynced and is not a torn tail: that
   raises `CorruptLog`, nothing is cut, and the partition stays offline. A segment with offsets that do not fit its indexes is
   split, and everything from 2 on begins again; such segments are looked for after a clean stop, too.
4. Leader epochs: those of the checkpoint, and those of the batches of pass 3.
5. Producer state: the newest usable snapshot, and the headers after it (`log.rebuild`).

After a clean stop pass 3 is left out. A derived file may hold any bytes at all: it is rebuilt or ignored, never trusted.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.log.disk import checkpoint
from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import Disk, OpenFiles
from ottla.log.epochs import UNDEFINED_EPOCH, LeaderEpochs
from ottla.log.errors import CorruptLog, CorruptRecord, CorruptSnapshot, InconsistentMetadata
from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.log.names import INDEX_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX, offset_in
from ottla.log.open_options import Opening
from ottla.log.opening.temporary_files import finish_or_remove
from ottla.log.opening.torn_tail import Overflow, TailCheck, find_overflow, remove_all, split
from ottla.log.partition import PartitionLog
from ottla.log.producers import ProducerStates
from ottla.log.rebuild import load_producers, remove_stray_snapshots, snapshots_among
from ottla.log.scan import walk_headers
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.wire.batch import read_header

_log = logging.getLogger("ottla.log.recovery")

_OPEN_AT_ONCE: Final = 2


def create_log(directory: LogDirectory, opening: Opening) -> PartitionLog:
    """Makes the directory of a new partition, or completes one that a crash left half made, and opens it. Raises OSError."""
    disk, path = directory.disk, f"{directory.path}/{opening.directory_name}"
    disk.makedirs(path)
    log = open_log(directory, opening)
    if log.topic_id is None and opening.topic_id is not None:
        disk.write_bytes(
            f"{path}/{checkpoint.PARTITION_METADATA}", checkpoint.encode_partition_metadata(opening.topic_id), sync=False
        )
        log.topic_id = opening.topic_id
    epochs = f"{path}/{checkpoint.LEADER_EPOCHS}"
    if not disk.exists(epochs):
        disk.open(epochs, create=True).close()
    return log


def open_log(directory: LogDirectory, opening: Opening) -> PartitionLog:
    """Opens the partition in an existing directory and returns it, ready to be read and appended to.

    Raises CorruptLog if fsynced bytes are damaged, and InconsistentMetadata if the directory belongs to another topic id, and
    OSError.
    """
    disk, path = directory.disk, f"{directory.path}/{opening.directory_name}"
    topic_id = _topic_id(disk, path, opening)
    if topic_id is not None and opening.topic_id is not None and topic_id != opening.topic_id:
        ours, theirs = checkpoint.uuid_text(topic_id), checkpoint.uuid_text(opening.topic_id)
        raise InconsistentMetadata(f"{path} belongs to topic id {ours}, not {theirs}")
    loader = _Loader(directory, path, opening)
    loader.load()
    end_offset = loader.end_offset
    start_offset = max(opening.log_start_offset, loader.segments[0].base_offset)
    loader.settle_epochs(start_offset)
    segments, producers = Segments(loader.segments), ProducerStates(0, opening.max_producers, opening.producer_total)
    snapshots = remove_stray_snapshots(disk, path, segments, snapshots_among(loader.names or disk.list(path)))
    last_snapshot = load_producers(
        disk,
        path,
        segments,
        producers,
        start_offset=start_offset,
        end_offset=end_offset,
        now_ms=opening.now_ms(),
        expiration_ms=opening.producer_expiration_ms,
        aborted_from=loader.markers_from,
        by_batch=not opening.clean,
        snapshots=snapshots,
    )
    loader.write_rolled_indexes()
    loader.hand_over()
    log = PartitionLog(
        directory,
        path,
        opening,
        topic_id=topic_id,
        segments=segments,
        producers=producers,
        epochs=loader.epochs,
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        last_snapshot=last_snapshot,
    )
    log.unsynced.epochs = loader.epochs_changed
    log.unsynced.paths += loader.written
    if not opening.clean:  # the files may have been written and not synced before the crash
        log.unsynced.names_in(path)
    if opening.recovery_point == 0:  # it was never flushed, so not even the directory's name is durable
        log.unsynced.directories += [path, directory.path]
        log.unsynced.paths.append(f"{path}/{checkpoint.PARTITION_METADATA}")
    return log


def bytes_to_check(disk: Disk, directory: LogDirectory, opening: Opening) -> int:
    """Returns how many bytes of the partition must be read after an unclean stop, at most. This is only shown to people, so it is
    0 if it cannot be found out."""
    if opening.clean:
        return 0
    path = f"{directory.path}/{opening.directory_name}"
    try:
        logs = {offset_in(name): disk.size(f"{path}/{name}") for name in disk.list(path) if name.endswith(LOG_SUFFIX)}
    except OSError:
        return 0
    first = max((base for base in logs if base <= opening.recovery_point), default=0)
    return sum(size for base, size in logs.items() if base >= first)


def _topic_id(disk: Disk, path: str, opening: Opening) -> bytes | None:
    """Returns the topic id in partition.metadata. The file is durable with the first flush; before that a power cut may have left
    anything in it."""
    try:
        return checkpoint.read_partition_metadata(disk, f"{path}/{checkpoint.PARTITION_METADATA}")
    except InconsistentMetadata as error:
        if opening.recovery_point > 0:
            raise
        _log.warning("%s; since the partition was never flushed, the file is written again", error)
        return None


class _Loader:
    """Goes through the passes for one directory. `segments` ascend by base offset."""

    def __init__(self, directory: LogDirectory, path: str, opening: Opening) -> None:
        self._directory = directory
        self._disk: Disk = directory.disk
        self._path = path
        self._opening = opening
        self._config = opening.config
        self._open_files = OpenFiles(_OPEN_AT_ONCE)
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochs()
        self.epochs_whole = True
        self.epochs_changed = False
        self._first_epoch_start: int | None = None  # by the file
        self.end_offset = 0
        self.names: list[str] | None = None  # of all files in the directory, None once some may have been removed
        self.markers_from: int | None = None  # base offset of the first segment in which recovery found a marker
        self.written: list[str] = []  # files that were written and are not synced yet

    def load(self) -> None:
        """Goes through passes 1 to 4, after which `segments`, `epochs` and `end_offset` are right."""
        names = finish_or_remove(self._disk, self._path)
        while True:
            self._load_segments(names)
            self._load_epochs()
            self._compare_start()
            try:
                if not self._opening.clean:
                    self._check_tail()
                self._check_spans()
                self.names = names if self._opening.clean else None
                break
            except Overflow as found:  # each split leaves less of the segment
                split(self._disk, self._path, found)
                names = self._disk.list(self._path)
        self._check_start()
        self.end_offset = self._settle_ends()

    # The log's start

    def _compare_start(self) -> None:
        """Takes the log's start for what was written if the leader epochs vouch for it: the first one begins where the log
        starts, in Kafka's directories, too."""
        opening, first, base = self._opening, self._first_epoch_start, self._base_offset
        start = max(opening.log_start_offset, base)
        if not opening.is_start_doubtful or (first is not None and start > max(first, base)):
            return
        opening.is_start_doubtful = False
        if first is not None and start < first:
            _log.warning(
                "%s starts at offset %d, although leader-epoch-checkpoint has it start at %d: log-start-offset-checkpoint is "
                "older or wrong, and records that were deleted may be back",
                opening.directory_name,
                start,
                first,
            )

    def _check_start(self) -> None:
        """Takes the log's start back to what the leader epochs say if log-start-offset-checkpoint names a later one and is not
        known to be as it was written: all records below it would be deleted.

        It is right all the same if it lies inside the first batch of the first epoch, or if there is none below it. Of a log
        whose tail was lost, the high watermark or the recovery point show that it had come so far.
        """
        opening, first, base = self._opening, self._first_epoch_start, self._base_offset
        if not opening.is_start_doubtful:
            return
        opening.is_start_doubtful = False
        start = opening.log_start_offset
        assert first is not None
        if self._deletes_nothing(first, start):
            return
        if self.segments and self.end_offset < start <= max(opening.high_watermark, opening.recovery_point):
            return
        opening.log_start_offset = max(first, base)
        _log.error(
            "%s starts at offset %d and not at %d, as log-start-offset-checkpoint says: by leader-epoch-checkpoint the records "
            "in between were not deleted, so that number is taken for damage, and nothing is deleted by it; if they were to go, "
            "delete them again",
            opening.directory_name,
            opening.log_start_offset,
            start,
        )

    @property
    def _base_offset(self) -> int:
        return self.segments[0].base_offset if self.segments else 0

    def _deletes_nothing(self, first: int, start: int) -> bool:
        """Returns whether both offsets are in the same batch, as where a follower began with the batch in which its leader
        starts, or compaction has left none in between. Raises CorruptRecord and OSError."""
        for segment in reversed(self.segments):
            if segment.base_offset <= first:
                batch = segment.locate(first)
                if batch is None:
                    return False
                return batch.base_offset >= start or batch.base_offset <= first < start <= batch.last_offset
        return False

    # The segments

    def _load_segments(self, names: list[str]) -> None:
        disk, path = self._disk, self._path
        logs = sorted(offset_in(name) for name in names if name.endswith(LOG_SUFFIX) and offset_in(name) >= 0)
        known = set(logs)
        for name in names:
            if name.endswith(SEGMENT_SUFFIXES) and (offset := offset_in(name)) >= 0 and offset not in known:
                _log.warning("%s/%s is removed: it is an index without its log", path, name)
                disk.remove(f"{path}/{name}")
        self.segments = [self._segment(base, disk.size(f"{path}/{base:020d}{LOG_SUFFIX}")) for base in logs]
        for segment in self.segments[:-1]:
            if segment.size == 0 and segment.base_offset >= self._opening.cleaned_upto:
                _log.warning("%r is empty although no compaction emptied it: its records are lost", segment)

    def _segment(self, base_offset: int, size: int) -> Segment:
        config = self._config
        return Segment(
            self._disk,
            self._path,
            base_offset,
            size=size,
            open_files=self._open_files,
            index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._opening.now_ms(),
            jitter_ms=config.random_segment_jitter_ms(self._opening.random),
        )

    def _check_tail(self) -> None:
        check = TailCheck(self._directory, self._path, self._opening, self.segments, self.epochs)
        check.run()
        self.epochs_changed |= check.epochs_changed
        self.epochs_whole |= check.epochs_whole
        self.markers_from = check.markers_from

    def _check_spans(self) -> None:
        """Raises Overflow if a segment has more offsets than fit it. Nearly always the names alone show that none has."""
        bases = [segment.base_offset for segment in self.segments]
        for segment, following in zip(self.segments, bases[1:], strict=False):
            if following - 1 > segment.base_offset + MAX_RELATIVE_OFFSET:
                self._check_span(segment)
        if self.segments:
            active = self.segments[-1]
            self.end_offset = self._next_offset(active)
            if self.end_offset - 1 > active.base_offset + MAX_RELATIVE_OFFSET:
                self._check_span(active)

    def _check_span(self, segment: Segment) -> None:
        try:
            found = find_overflow(segment, self._opening.progress)
        except CorruptRecord as error:
            raise CorruptLog(f"{segment!r}: {error}") from error
        if found is not None:
            raise found

    def write_rolled_indexes(self) -> None:
        """Writes the indexes that were built for inactive segments, which must be on disk before the recovery point passes these.
        Raises OSError."""
        for segment in self.segments[:-1]:
            if segment.indexes.are_dirty:
                self.written += segment.write_indexes(final=True)

    def hand_over(self) -> None:
        """Ends the opening: from here on the log's files are counted with those of all other logs."""
        for segment in self.segments:
            segment.hand_over(self._directory.open_files)

    def _settle_ends(self) -> int:
        """Sees to it that there is an active segment and that the log's start is not beyond its end. Returns the end offset."""
        start = self._opening.log_start_offset
        if self.segments:
            end_offset = self.end_offset
            if end_offset >= start:
                self._make_missing_indexes(self.segments[-1])
                return end_offset
            _log.warning("%s ends at offset %d, before its start %d: it begins again, empty", self._path, end_offset, start)
            self.names = None
            remove_all(self._directory, self._path, self._opening, self.segments)
        segment = self._segment(start, 0)
        segment.create_files(self._config.segment_bytes if self._config.preallocate else 0)
        self.segments = [segment]
        return start

    def _next_offset(self, segment: Segment) -> int:
        try:
            return segment.next_offset() if segment.size else segment.base_offset
        except CorruptRecord as error:
            raise CorruptLog(f"{segment!r}: {error}") from error

    def _make_missing_indexes(self, segment: Segment) -> None:
        """Makes the index files that Kafka expects beside each log file, even beside an empty one."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if segment.size == 0 and not self._disk.exists(segment.path(suffix)):
                self._disk.open(segment.path(suffix), create=True).close()

    # Leader epochs

    def _load_epochs(self) -> None:
        """Reads the epochs in the checkpoint and notes whether they can be complete: a log with batches has at least one."""
        try:
            entries = checkpoint.read_epochs(self._disk, f"{self._path}/{checkpoint.LEADER_EPOCHS}")
        except CorruptSnapshot as error:
            _log.warning("%s: %s; the epochs are read from the batches instead", self._path, error)
            entries = []
        self.epochs_whole = bool(entries) or not any(segment.size for segment in self.segments)
        self.epochs_changed = not self.epochs_whole
        self.epochs = LeaderEpochs(entries)
        self._first_epoch_start = entries[0].start_offset if entries else None

    def settle_epochs(self, start_offset: int) -> None:
        """Cuts the epochs to those of a log that begins at `start_offset` and ends at `end_offset`."""
        epochs = self.epochs
        # The file was unreadable, or is from a later log start that a crash took back.
        are_lost = self.end_offset > start_offset and epochs.epoch_for(start_offset) == UNDEFINED_EPOCH
        is_rebuilt = not self.epochs_whole or are_lost
        if is_rebuilt:
            self._rebuild_epochs()
        self.epochs_changed |= epochs.truncate_from_end(self.end_offset)
        self.epochs_changed |= epochs.truncate_from_start(start_offset)
        if is_rebuilt:  # cut already: after a crash, epochs from below the start would say that nothing was deleted there
            self._disk.write_bytes(f"{self._path}/{checkpoint.LEADER_EPOCHS}", epochs.encoded())

    def _rebuild_epochs(self) -> None:
        """Reads the epochs from the headers of all segments. Raises CorruptLog, CorruptRecord or OSError."""
        epochs = self.epochs
        epochs.clear()
        for segment in self.segments:
            for position, _, buffer, at in walk_headers(segment.open_file(), 0, segment.size):
                header = read_header(buffer, at)
                if header.partition_leader_epoch > epochs.latest_epoch:
                    if header.base_offset < segment.base_offset:
                        path, offset = segment.path(LOG_SUFFIX), header.base_offset
                        raise CorruptLog(f"{path} is damaged at position {position}: it has the base offset {offset} there")
                    epochs.assign(header.partition_leader_epoch, header.base_offset)
