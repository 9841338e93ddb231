"""Reads a log after an unclean stop, batch by batch from the recovery point's segment on, and cuts it at the first bad batch. (A
reader that opens a live log repeatedly continues its earlier scan: `open_options.Scans`.)

Below the recovery point everything was fsynced. Beyond it a crash may have left anything: half a batch, zeros, a later piece of a
file without the one before. So the log counts up to the first batch that cannot be right, by framing, CRC or offsets; there the
file is cut, durably, and the segments behind it are taken out. What looks like more than half a batch is kept
(log/opening/damaged.py). A bad batch *below* the recovery point is not a torn tail but damage: that raises CorruptLog, nothing is
cut, and the partition stays offline until somebody has looked at it.

The recovery point is up to a minute old. Beyond it, `flush.messages` promises as much. If the system has been running ever since,
nothing that was written can be lost, and in such a topic whatever the end of a process cannot have left is damage in the same
sense. After a power cut nobody can tell damage from appends that were under way, and the log is cut.

What follows from the batches is built on the way: both indexes, leader epochs that the checkpoint does not know, and which
batches the producer state must see. One compiled loop does all of that (`wire.kernel.BatchScan`).

Three things look like damage and are not:

- Zeros behind the last batch of a preallocated segment are cut off, and the segments that follow stay.
- A gap between two segments may be due to a compaction. `cleaner-offset-checkpoint` says up to which offset that is so. If that
  file is lost, a compacted segment is recognised by its own gaps; if it or the recovery points are unreadable, every gap is
  accepted.
- Offsets more than 31 bits above the segment's first fit into no index (KAFKA-6264): `split` moves them into a segment of their
  own. The new file is written as `.cleaned`, synced, given its name, and then its content is cut from the old file: whenever that
  is interrupted, the next start finds the old segment whole and splits it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import Disk
from ottla.log.epochs import LeaderEpochs
from ottla.log.errors import CorruptLog, CorruptRecord
from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.log.names import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, offset_name
from ottla.log.open_options import Opening
from ottla.log.scan import READ_BYTES, check_batches, only_zeros, walk_ascending, walk_batches
from ottla.log.segment import Segment
from ottla.wire.batch import check_crc, read_header
from ottla.wire.kernel import CONTROL, NEED_MORE, OFFSET_OVERFLOW, SCAN_REASONS, BatchScan

_log = logging.getLogger("ottla.log.recovery")

_RESERVED: Final = "zeros, as preallocation leaves them"


class Overflow(Exception):
    """The segment has offsets that do not fit it, from `position` and `offset` on. Recovery catches this and splits the
    segment."""

    def __init__(self, segment: Segment, position: int, offset: int) -> None:
        super().__init__(f"{segment!r} at position {position}: offset {offset} does not fit")
        self.segment = segment
        self.position = position
        self.offset = offset


class TailCheck:
    """Does one pass over `segments`, which ascend by base offset, and takes out those that it removes."""

    def __init__(
        self, directory: LogDirectory, path: str, opening: Opening, segments: list[Segment], epochs: LeaderEpochs
    ) -> None:
        self._disk: Disk = directory.disk
        self._directory = directory
        self._path = path
        self._opening = opening
        self._segments = segments
        self._epochs = epochs
        self._compacted = False
        self.epochs_changed = False
        self.epochs_whole = False
        """True if every batch of the log was read, so that no epoch is missing."""
        self.markers_from: int | None = None
        """Base offset of the first segment in which a transaction ends."""

    def run(self) -> None:
        """Reads the segments and cuts the log if need be. Raises CorruptLog if fsynced bytes are damaged, Overflow if a segment
        must be split first, or OSError."""
        recovery_point = self._opening.recovery_point
        segments = self._segments
        first = max((at for at, s in enumerate(segments) if s.base_offset <= recovery_point), default=0)
        expected = segments[first].base_offset if segments else 0
        self.epochs_whole = first == 0
        self.epochs_changed |= self._epochs.truncate_from_end(expected)  # the batches know better
        for index in range(first, len(segments)):
            segment = segments[index]
            if self._does_not_follow(index, expected):
                why = f"segment {segment.base_offset} does not continue the log, which ends at {expected}"
                self._refuse_below_recovery_point(index, why)
                self._refuse_promised(f"{self._path}: {why}")
                self._take_out(index, expected, why)
                return
            scan, reason = self._check(segment)
            expected = scan.expected
            if reason is not None and not self._is_reserved(index, scan):
                if expected < recovery_point:
                    raise CorruptLog(
                        f"{segment.path('.log')} is damaged at position {scan.sound}, offset {expected}, below the recovery "
                        f"point {recovery_point} up to which it was fsynced: {reason}"
                    )
                self._cut_log(index, scan.sound, expected, reason)
                return
            if reason is not None:
                self._cut(segment, scan.sound, _RESERVED)

    def _check(self, segment: Segment) -> tuple[BatchScan, str | None]:
        """Reads a segment, or what was added since an earlier scan, and keeps what it learns. Returns (the scan, why the bytes at
        `scan.sound` are wrong or None)."""
        scan = self._scan_of(segment)
        code = check_batches(segment.open_file(), segment.size, scan, self._opening.progress)
        if code == OFFSET_OVERFLOW:
            raise Overflow(segment, scan.sound, scan.expected)
        segment.take_scan(scan)
        for epoch, offset in scan.epochs:
            self._epochs.assign(epoch, offset)
            self.epochs_changed = True
        if self.markers_from is None and any(kind == CONTROL for _, _, _, kind in scan.producers):
            self.markers_from = segment.base_offset
        self._compacted |= scan.gaps
        return scan, None if code == NEED_MORE else SCAN_REASONS[code]

    def _scan_of(self, segment: Segment) -> BatchScan:
        scans = self._opening.scans
        scan = None if scans is None else scans.before.pop(segment.base_offset, None)
        if scan is None or scan.sound > segment.size:
            scan = BatchScan(segment.base_offset, segment.index_interval_bytes, self._epochs.latest_epoch)
        if scans is not None:
            scans.now[segment.base_offset] = scan
        return scan

    def _is_reserved(self, index: int, scan: BatchScan) -> bool:
        """Returns whether no batch is missing and only zeros follow the last one."""
        segment = self._segments[index]
        rolled = index + 1 < len(self._segments)
        missing = (
            self._segments[index + 1].base_offset != scan.expected if rolled else scan.expected < self._opening.recovery_point
        )
        return not missing and only_zeros(segment.open_file(), scan.sound, segment.size)

    def _does_not_follow(self, index: int, expected: int) -> bool:
        """Returns whether the segment at `index` is not the continuation of the log, which goes up to offset `expected`.

        If it begins too early, a crash undid its removal, and its offsets were written again in the segment before. If it begins
        too late, the end of the segment before is lost, at a batch's border, unless a compaction removed it.
        """
        base_offset, opening = self._segments[index].base_offset, self._opening
        if base_offset < expected:
            return True
        too_late = base_offset > max(expected, opening.cleaned_upto)
        if index and base_offset - self._segments[index - 1].base_offset > MAX_RELATIVE_OFFSET + 1:
            return False  # the segment before can never have had so many offsets
        return too_late and expected >= opening.recovery_point and not self._is_compacted(index)

    def _is_compacted(self, index: int) -> bool:
        """Returns whether any segment has gaps of its own, which no crash makes. If the cleaner's checkpoint is lost, this is the
        only sign of a compaction."""
        for segment in self._segments[index:]:
            if self._compacted:
                break
            expected = segment.base_offset
            try:
                for _, view in walk_batches(segment.open_file(), 0, segment.size):
                    header = read_header(view)
                    if not check_crc(view, header) or not segment.can_hold(header.last_offset):
                        break  # torn: a header that is half lost looks as if records were missing
                    if header.base_offset > expected or header.records_count <= header.last_offset_delta:
                        self._compacted = True
                        break
                    expected = header.next_offset
            except CorruptRecord:  # it is cut when it is checked itself
                continue
        return self._compacted

    # Taking out what is bad

    def _cut_log(self, index: int, position: int, expected: int, reason: str) -> None:
        """Cuts the log at a position of a segment, where offset `expected` should begin. Raises CorruptLog if a crash cannot have
        left what is there and it was promised to be on disk."""
        segment, opening, kept_end = self._segments[index], self._opening, position
        why = f"segment {segment.base_offset} was cut"
        self._refuse_below_recovery_point(index + 1, why)
        if opening.every_append_synced or opening.max_damaged_bytes is not None:  # else the caller only reads
            kept_end = self._judge(index, position, expected, reason)
        self._take_out(index + 1, expected, why, (segment, position, kept_end, reason))

    def _judge(self, index: int, position: int, expected: int, reason: str) -> int:
        """Returns how far the bytes from this position on are to be kept, `position` if they are only a torn tail. Raises
        CorruptLog, as `_cut_log` does."""
        from ottla.log.opening.damaged import Kind, examine  # imported here, because it is not needed if nothing is wrong

        segment, later = self._segments[index], self._segments[index + 1 :]
        tail = examine(segment.open_file(), position, segment.size)
        place = f"{segment.path(LOG_SUFFIX)} is damaged at position {position}, offset {expected}"
        if self._opening.every_append_synced and (later or tail.goes_on):
            raise CorruptLog(f"{place}, with sound batches behind that: {reason}")
        if later or tail.kind is Kind.DAMAGED:
            self._refuse_promised(f"{place}: {reason}", expected + 1)
        if tail.kind is Kind.ZEROS or (tail.kind is Kind.TORN and not any(each.size for each in later)):
            return position
        return tail.end

    def _refuse_promised(self, what: str, promised: int = 0) -> None:
        """Raises CorruptLog if records were promised to be on disk, and no power cut can have taken them. Those below offset
        `promised` are; as the recovery point, which stays in the checkpoint, it makes every later start refuse them, too."""
        opening = self._opening
        if opening.same_boot and opening.is_flushed():
            opening.recovery_point = max(opening.recovery_point, promised)
            raise CorruptLog(f"{what}; the topic's records are flushed before they are acknowledged, so nothing is cut")

    def _refuse_below_recovery_point(self, index: int, reason: str) -> None:
        """Raises CorruptLog if one of the segments from `index` on, which do not fit the log, was fsynced."""
        for segment in self._segments[index:]:
            if segment.base_offset < self._opening.recovery_point:
                raise CorruptLog(f"{segment!r} was fsynced but does not fit the log: {reason}")

    def _take_out(self, index: int, end_offset: int, reason: str, cut: tuple[Segment, int, int, str] | None = None) -> None:
        """Takes out the segments from `index` on, which would continue a tail that is lost, after the file before them was cut.
        `cut` is (segment, position to cut at, end of what is kept of it, why). Raises CorruptLog if not all that is to be kept
        may be kept."""
        later = self._segments[index:]
        kept = _Kept(self._directory, self._opening)
        kept.reserve(self._path, sum(each.size for each in later) + (cut[2] - cut[1] if cut else 0))
        if cut is not None:
            segment, position, kept_end, why = cut
            if kept_end > position:
                kept.part(segment, position, kept_end)
            self._cut(segment, position, why)
        for segment in later:
            _log.warning("%r is taken out: %s", segment, reason)
            kept.whole(segment)
        del self._segments[index:]
        self._disk.sync_dir(self._path)
        kept.say(
            "%s ends at offset %d after damage; what came behind is kept in %s: ottla log dump --records shows it, and while no "
            "broker runs and nothing new was written, ottla log repair --restore puts it back",
            self._opening.directory_name,
            end_offset,
        )

    def _cut(self, segment: Segment, size: int, reason: str) -> None:
        """Cuts the file behind the sound part, durably, because new batches will have the same offsets."""
        level = logging.INFO if reason is _RESERVED else logging.WARNING
        path = segment.path(LOG_SUFFIX)
        _log.log(level, "%s is cut from %d to %d bytes, where its last whole batch ends: %s", path, segment.size, size, reason)
        file = segment.open_file()
        file.truncate(size)
        file.sync()
        segment.size = size


class _Kept:
    """The part that is kept of a log that is cut; nothing if the opening says so."""

    def __init__(self, directory: LogDirectory, opening: Opening) -> None:
        self._disk = directory.disk
        self._files: list[str] = []
        self._to = None
        if opening.max_damaged_bytes is not None:
            from ottla.log.opening.damaged import DamagedFiles

            self._to = DamagedFiles(directory, opening.max_damaged_bytes)

    def reserve(self, path: str, size: int) -> None:
        """Raises CorruptLog if `size` bytes of the partition in `path` are too much to be kept."""
        if self._to is not None and size:
            self._to.reserve(path, size)

    def part(self, segment: Segment, start: int, end: int) -> None:
        """Keeps a copy of these bytes of a segment's file."""
        if self._to is not None:
            self._files.append(self._to.keep_part(segment.path(LOG_SUFFIX), start, end))

    def whole(self, segment: Segment) -> None:
        """Removes a segment and keeps its log, if that holds anything."""
        if self._to is not None and segment.size:
            self._files.append(self._to.keep_file(segment.path(LOG_SUFFIX)))
        remove_segment(self._disk, segment)

    def say(self, line: str, directory_name: str, offset: int) -> None:
        """Logs what is kept, if anything is. The line has places for the partition, the offset and the files."""
        if self._files:
            _log.error(line, directory_name, offset, ", ".join(self._files))


def remove_all(directory: LogDirectory, path: str, opening: Opening, segments: list[Segment]) -> None:
    """Removes all segments of a log that begins again, and keeps what they hold. Raises CorruptLog if that is too much, and
    OSError."""
    kept = _Kept(directory, opening)
    kept.reserve(path, sum(segment.size for segment in segments))
    for segment in segments:
        kept.whole(segment)
    kept.say(
        "%s begins again at offset %d, where log-start-offset-checkpoint says that it begins; what it held below that is kept in "
        "%s: ottla log dump --records shows it",
        opening.directory_name,
        opening.log_start_offset,
    )


def remove_segment(disk: Disk, segment: Segment) -> None:
    """Removes all files of a segment, and the producer snapshot at its start. Raises OSError."""
    segment.close()
    for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
        if disk.exists(segment.path(suffix)):
            disk.remove(segment.path(suffix))


def find_overflow(segment: Segment, progress: Callable[[int], None]) -> Overflow | None:
    """Returns where, by its headers, a segment's offsets no longer fit it, None if they all do. Raises CorruptRecord if it cannot
    be walked, or its offsets do not ascend: then a split would not leave less of it, and the opening would never end."""
    for batch in walk_ascending(segment.open_file(), segment.size, segment.base_offset):
        if not segment.can_hold(batch.last_offset):
            return Overflow(segment, batch.position, batch.base_offset)
        progress(batch.size)
    return None


def split(disk: Disk, path: str, found: Overflow) -> None:
    """Moves the offsets that do not fit a segment into a new one, which is named by the first of them. The caller loads the
    segments again. Raises OSError."""
    segment, position = found.segment, found.position
    source = segment.open_file()
    first = int.from_bytes(source.pread(8, position), "big")
    target = f"{path}/{offset_name(first)}{LOG_SUFFIX}"
    _log.warning("%s; what follows becomes segment %d", found, first)
    if position == 0:
        disk.rename(segment.path(LOG_SUFFIX), target)  # only the name was wrong
    else:
        if disk.exists(target + CLEANED_SUFFIX):
            disk.remove(target + CLEANED_SUFFIX)
        copy = disk.open(target + CLEANED_SUFFIX, create=True)
        at = position
        while at < segment.size:
            piece = source.pread(min(READ_BYTES, segment.size - at), at)
            if not piece or copy.append((piece,)) != len(piece):
                raise OSError(f"{target}: only {at - position} of {segment.size - position} bytes were copied")
            at += len(piece)
        copy.sync()
        disk.rename(target + CLEANED_SUFFIX, target)
        disk.sync_dir(path)
        source.truncate(position)
        source.sync()
    for suffix in SEGMENT_SUFFIXES[1:]:  # the indexes of both are rebuilt
        if disk.exists(segment.path(suffix)):
            disk.remove(segment.path(suffix))
    disk.sync_dir(path)
    segment.close()
