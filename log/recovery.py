"""Opening a partition's directory: what a start, clean or not, finds there and makes right. Kafka's LogLoader, pass by pass.

1. Leftovers: `.deleted` and `.cleaned` files go; a `.swap` that a compaction left is finished (`_finish_swaps`).
2. Segments: one a `.log` file; an index without its log goes. Indexes are read when first needed and rebuilt if they are wrong.
3. After an unclean stop, every segment from the one that holds the recovery point on is read batch by batch: framing, CRC,
   offsets. At the first batch that fails the file is cut, and later segments go: that is the torn tail. Their indexes are built
   anew on the way. A bad batch *below* the recovery point was fsynced and is no torn tail: `CorruptLog`, nothing is cut, the
   partition stays away.
4. Leader epochs: the checkpoint, plus what the batches of pass 3 say.
5. Producer state: the newest usable snapshot, plus the headers after it (`log.replay`).

A clean stop skips pass 3. Every derived file may hold any bytes at all: it is rebuilt or ignored, never trusted.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.log import checkpoint
from ottla.log.directory import LogDirectory
from ottla.log.epochs import UNDEFINED_EPOCH, LeaderEpochs, format_checkpoint
from ottla.log.errors import CorruptLog, CorruptRecord, CorruptSnapshot, InconsistentMetadata
from ottla.log.files import Disk
from ottla.log.opening import Opening
from ottla.log.partition import PartitionLog
from ottla.log.producers import ProducerStates
from ottla.log.replay import load_producers, remove_stray_snapshots
from ottla.log.scan import sound_batch_behind, walk_batches, walk_headers
from ottla.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
)
from ottla.log.segments import Segments
from ottla.wire.batch import NO_LEADER_EPOCH, check_crc, read_header

_log = logging.getLogger("ottla.log.recovery")

_OFFSET_DIGITS: Final = 20


def create_log(directory: LogDirectory, opening: Opening) -> PartitionLog:
    """A new partition, or what a crash left of its making. OSError."""
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
    """The partition in an existing directory, ready to be read and appended to.

    CorruptLog if fsynced bytes are damaged; InconsistentMetadata if the directory belongs to another topic id; OSError.
    """
    disk, path = directory.disk, f"{directory.path}/{opening.directory_name}"
    topic_id = _topic_id(disk, path, opening)
    if topic_id is not None and opening.topic_id is not None and topic_id != opening.topic_id:
        ours, theirs = checkpoint.uuid_text(topic_id), checkpoint.uuid_text(opening.topic_id)
        raise InconsistentMetadata(f"{path} belongs to topic id {ours}, not {theirs}")
    loader = _Loader(directory, path, opening)
    loader.remove_leftovers()
    loader.load_segments()
    epochs, whole = loader.load_epochs()
    if not opening.clean:
        loader.recover(epochs)
    end_offset = loader.settle_ends()
    start_offset = max(opening.log_start_offset, loader.segments[0].base_offset)
    if not whole or (end_offset > start_offset and epochs.epoch_for(start_offset) == UNDEFINED_EPOCH):
        # Unreadable, or of a later start of the log, which a crash took back.
        loader.rebuild_epochs(epochs)
        disk.write_bytes(f"{path}/{checkpoint.LEADER_EPOCHS}", format_checkpoint(epochs.entries).encode())
    epochs_dirty = epochs.truncate_from_end(end_offset) | epochs.truncate_from_start(start_offset)
    segments, producers = Segments(loader.segments), ProducerStates()
    remove_stray_snapshots(disk, path, segments)
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
    )
    loader.write_rolled_indexes()
    log = PartitionLog(
        directory,
        path,
        opening,
        topic_id=topic_id,
        segments=segments,
        producers=producers,
        epochs=epochs,
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        last_snapshot=last_snapshot,
    )
    log.unsynced.epochs = epochs_dirty or loader.epochs_changed
    log.unsynced.paths += loader.written
    if not opening.clean:  # who wrote what is there may have ended before it was synced
        log.unsynced.names_in(path)
    if opening.recovery_point == 0:  # never flushed: not even the directory's name is durable
        log.unsynced.directories += [path, directory.path]
        log.unsynced.paths.append(f"{path}/{checkpoint.PARTITION_METADATA}")
    return log


def bytes_to_check(disk: Disk, directory: LogDirectory, opening: Opening) -> int:
    """How many bytes of the partition an unclean stop has left to be read, at most. Only for telling: 0 where it goes wrong."""
    if opening.clean:
        return 0
    path = f"{directory.path}/{opening.directory_name}"
    try:
        logs = {_offset_of(name): disk.size(f"{path}/{name}") for name in disk.list(path) if name.endswith(LOG_SUFFIX)}
    except OSError:
        return 0
    first = max((base for base in logs if base <= opening.recovery_point), default=0)
    return sum(size for base, size in logs.items() if base >= first)


def _topic_id(disk: Disk, path: str, opening: Opening) -> bytes | None:
    """What partition.metadata says. It is durable with the first flush; before that a power cut may have left anything there."""
    try:
        return checkpoint.read_partition_metadata(disk, f"{path}/{checkpoint.PARTITION_METADATA}")
    except InconsistentMetadata as error:
        if opening.recovery_point > 0:
            raise
        _log.warning("%s; the partition was never flushed, and gets the file anew", error)
        return None


class _Loader:
    """The passes over one directory. `segments` ascend by base offset."""

    def __init__(self, directory: LogDirectory, path: str, opening: Opening) -> None:
        self._directory = directory
        self._disk: Disk = directory.disk
        self._path = path
        self._opening = opening
        self._config = opening.config
        self.segments: list[Segment] = []
        self.epochs_changed = False
        self.markers_from: int | None = None  # base offset of the first segment that recovery found a marker in
        self.written: list[str] = []  # files that are not synced yet

    # Pass 1

    def remove_leftovers(self) -> None:
        disk, path = self._disk, self._path
        names = disk.list(path)
        cleaned = [_offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX)]
        for name in names:
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
                disk.remove(f"{path}/{name}")
            elif name.endswith(SWAP_SUFFIX) and cleaned and _offset_of(name) >= min(cleaned):
                disk.remove(f"{path}/{name}")  # the compaction had not renamed all of its output: as if it had not begun
        if any(name.endswith(SWAP_SUFFIX) for name in names):
            self._finish_swaps()

    def _finish_swaps(self) -> None:
        """Compacted segments were complete and about to take the place of the old ones: drop those and rename."""
        disk, path = self._disk, self._path
        swaps = [name for name in disk.list(path) if name.endswith(SWAP_SUFFIX)]
        covered: list[tuple[int, int]] = []
        for name in swaps:
            if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                base = _offset_of(name)
                file = disk.open(f"{path}/{name}")
                last = base
                for _, _, buffer, at in walk_headers(file, 0, file.size):
                    last = read_header(buffer, at).next_offset
                covered.append((base, last))
        for name in disk.list(path):
            offset = _offset_of(name)
            if name.endswith(SEGMENT_SUFFIXES) and any(base <= offset < end for base, end in covered):
                disk.remove(f"{path}/{name}")
        for name in swaps:
            disk.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
        disk.sync_dir(path)

    # Pass 2

    def load_segments(self) -> None:
        disk, path = self._disk, self._path
        names = disk.list(path)
        logs = sorted(_offset_of(name) for name in names if name.endswith(LOG_SUFFIX) and _offset_of(name) >= 0)
        known = set(logs)
        for name in names:
            if name.endswith(SEGMENT_SUFFIXES) and _offset_of(name) not in known:
                _log.warning("%s/%s is removed: an index without its log", path, name)
                disk.remove(f"{path}/{name}")
        self.segments = [self._segment(base, disk.size(f"{path}/{base:020d}{LOG_SUFFIX}")) for base in logs]

    def _segment(self, base_offset: int, size: int) -> Segment:
        config = self._config
        return Segment(
            self._disk,
            self._path,
            base_offset,
            size=size,
            open_files=self._directory.open_files,
            index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._opening.now_ms(),
            jitter_ms=self._opening.segment_jitter_ms(),
        )

    # Pass 3

    def recover(self, epochs: LeaderEpochs) -> None:
        """Reads everything from the recovery point's segment on, and cuts at the first batch that cannot be right."""
        recovery_point = self._opening.recovery_point
        segments = self.segments
        first = max((at for at, s in enumerate(segments) if s.base_offset <= recovery_point), default=0)
        expected = segments[first].base_offset if segments else 0
        self.epochs_changed |= epochs.truncate_from_end(expected)  # the batches know better
        for index in range(first, len(segments)):
            segment = segments[index]
            if self._does_not_follow(segment, expected):
                self._drop_from(index, f"segment {segment.base_offset} does not follow offset {expected}, where the log is")
                return
            expected, reason = self._recover_segment(segment, epochs)
            if reason is not None:
                if expected < recovery_point:
                    raise CorruptLog(
                        f"{segment!r} is damaged at position {segment.size}, offset {expected}, below the recovery point "
                        f"{recovery_point} up to which it was fsynced: {reason}"
                    )
                self._refuse_damage(segment, expected, reason, last=index + 1 == len(segments))
                self._cut(segment, reason)
                self._drop_from(index + 1, f"segment {segment.base_offset} was cut")
                return

    def write_rolled_indexes(self) -> None:
        """What was built of the inactive segments must be on disk before the recovery point passes them. OSError."""
        for segment in self.segments[:-1]:
            if segment.indexes_dirty:
                self.written += segment.write_indexes(final=True)

    def _refuse_damage(self, segment: Segment, expected: int, reason: str, *, last: bool) -> None:
        """CorruptLog where no crash can have left this: see Opening.every_append_synced."""
        if not self._opening.every_append_synced:
            return
        file = segment.open_file()
        behind = None if not last else sound_batch_behind(file, segment.size, file.size)
        if not last or behind is not None:
            raise CorruptLog(
                f"{segment!r} is damaged at position {segment.size}, offset {expected}, and goes on behind it: {reason}; "
                "restore it from a copy"
            )

    def _does_not_follow(self, segment: Segment, expected: int) -> bool:
        """Beyond the recovery point no segment is believed for being there.

        One that begins too early: a crash undid its removal, and its offsets were written again in the one before. One that
        begins too late: the end of the one before is lost, at a batch's border. Compaction leaves such gaps, and says up to
        where.
        """
        if segment.base_offset < expected:
            return True
        too_late = segment.base_offset > max(expected, self._opening.cleaned_upto)
        return too_late and expected >= self._opening.recovery_point

    def _recover_segment(self, segment: Segment, epochs: LeaderEpochs) -> tuple[int, str | None]:
        """(offset after the last whole batch, why the rest is not right or None). `segment.size` becomes the sound part's
        size.
        """
        file, on_disk = segment.open_file(), segment.size
        segment.reset_indexes()
        segment.reset_txn_index()  # filled with the producer state, if there are markers
        expected, sound, reason = segment.base_offset, 0, None
        try:
            for position, view in walk_batches(file, 0, on_disk):
                header = read_header(view)
                if not check_crc(view, header):
                    reason = "a CRC does not fit"
                elif header.base_offset < expected or header.last_offset_delta < 0 or not segment.can_hold(header.last_offset):
                    reason = f"offsets {header.base_offset} to {header.last_offset} cannot follow {expected - 1}"
                if reason is not None:
                    break
                segment.index_batch(position, header.size, header.last_offset, header.max_timestamp)
                if header.is_control and self.markers_from is None:
                    self.markers_from = segment.base_offset
                if header.partition_leader_epoch > max(epochs.latest_epoch, NO_LEADER_EPOCH):
                    epochs.assign(header.partition_leader_epoch, header.base_offset)
                    self.epochs_changed = True
                expected, sound = header.next_offset, position + header.size
        except CorruptRecord as error:
            reason = str(error)
        segment.end_indexing()
        segment.size = sound
        return expected, reason

    def _cut(self, segment: Segment, reason: str) -> None:
        """Cuts the file behind the sound part, durably: what comes next is written over the same offsets."""
        file = segment.open_file()
        _log.warning("%r is cut from %d bytes, its last whole batch ends there: %s", segment, file.size, reason)
        file.truncate(segment.size)
        file.sync()

    def _drop_from(self, index: int, reason: str) -> None:
        """Removes the segments from `index` on; what of them was sound belongs to a tail that is gone."""
        for segment in self.segments[index:]:
            if segment.base_offset < self._opening.recovery_point:
                raise CorruptLog(f"{segment!r} was fsynced and cannot follow: {reason}")
        for segment in self.segments[index:]:
            _log.warning("%r is removed: %s", segment, reason)
            self._remove(segment)
        del self.segments[index:]
        self._disk.sync_dir(self._path)

    def _remove(self, segment: Segment) -> None:
        segment.close()
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
            if self._disk.exists(segment.path(suffix)):
                self._disk.remove(segment.path(suffix))

    def settle_ends(self) -> int:
        """There is an active segment, and the log's start is not beyond its end. Returns the end offset."""
        start = self._opening.log_start_offset
        if self.segments:
            end_offset = self._next_offset(self.segments[-1])
            if end_offset >= start:
                self._make_missing_indexes(self.segments[-1])
                return end_offset
            _log.warning("%s ends at offset %d, before its start %d: it starts anew", self._path, end_offset, start)
            for segment in self.segments:
                self._remove(segment)
        segment = self._segment(start, 0)
        segment.create_files()
        self.segments = [segment]
        return start

    def _next_offset(self, segment: Segment) -> int:
        try:
            return segment.next_offset()
        except CorruptRecord as error:
            raise CorruptLog(f"{segment!r}: {error}") from error

    def _make_missing_indexes(self, segment: Segment) -> None:
        """Kafka expects the files beside each log, also beside an empty one."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if segment.size == 0 and not self._disk.exists(segment.path(suffix)):
                self._disk.open(segment.path(suffix), create=True).close()

    # Pass 4

    def load_epochs(self) -> tuple[LeaderEpochs, bool]:
        """(the epochs in the checkpoint, can they be all?) A log with batches has at least one."""
        try:
            entries = checkpoint.read_epochs(self._disk, f"{self._path}/{checkpoint.LEADER_EPOCHS}")
        except CorruptSnapshot as error:
            _log.warning("%s: %s; read from the batches instead", self._path, error)
            entries = []
        whole = bool(entries) or not any(segment.size for segment in self.segments)
        self.epochs_changed = not whole
        return LeaderEpochs(entries), whole

    def rebuild_epochs(self, epochs: LeaderEpochs) -> None:
        """From the headers of all segments."""
        epochs.clear()
        for segment in self.segments:
            for _, _, buffer, at in walk_headers(segment.open_file(), 0, segment.size):
                header = read_header(buffer, at)
                if header.partition_leader_epoch > epochs.latest_epoch:
                    epochs.assign(header.partition_leader_epoch, header.base_offset)


def _offset_of(name: str) -> int:
    """The offset that a file's name starts with; -1 if it starts with none."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == _OFFSET_DIGITS and digits.isdigit() else -1
