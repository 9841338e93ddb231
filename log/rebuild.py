"""Rebuilds producer state from the newest usable snapshot and the batch headers after it. Transaction indexes are rebuilt in the
same way, because the producer state is needed to know where an aborted transaction began.

There is a snapshot for each rolled segment, named by the offset at which it ends, and one from the last clean stop. Any of them
may be missing, torn or foreign: a bad one is removed and the next older one is taken, and if there is none the whole log is
replayed. As in Kafka, those at a segment's base offset are kept, for truncation, and of the others the newest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from ottla.log.disk.files import Disk, FileTooLarge
from ottla.log.errors import CorruptRecord, CorruptSnapshot
from ottla.log.index import CorruptIndex
from ottla.log.markers import end_transaction
from ottla.log.names import LOG_SUFFIX, SNAPSHOT_SUFFIX, offset_in, offset_name
from ottla.log.producers import CompletedTransaction, ProducerStates
from ottla.log.scan import Located, walk_producers
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.wire.batch import HEADER_SIZE, read_header

_log = logging.getLogger("ottla.log.replay")

_COMPARED_ABORTS: Final = 100
"""So many entries of a transaction index are compared with the log when it is loaded, which takes some 3 ms."""


def snapshot_offsets(disk: Disk, path: str) -> list[int]:
    """Returns the offsets of the snapshots in a partition's directory, ascending. Raises OSError."""
    return snapshots_among(disk.list(path))


def snapshots_among(names: Iterable[str]) -> list[int]:
    """Returns the offsets of the snapshots among these files, ascending."""
    return sorted(offset for name in names if name.endswith(SNAPSHOT_SUFFIX) and (offset := offset_in(name)) >= 0)


def remove_stray_snapshots(disk: Disk, path: str, segments: Segments, snapshots: list[int] | None = None) -> list[int]:
    """Removes the snapshots that belong to no segment, except the newest; returns the offsets of those that are kept. Raises
    OSError.

    `snapshots` are the offsets of all snapshots, if the caller knows them.
    """
    if snapshots is None:
        snapshots = snapshot_offsets(disk, path)
    bases = {segment.base_offset for segment in segments}
    strays = [offset for offset in snapshots if offset not in bases]
    if strays and strays[-1] > max(bases):
        strays.pop()
    for offset in strays:
        disk.remove(f"{path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}")
    return [offset for offset in snapshots if offset not in strays] if strays else snapshots


def load_producers(
    disk: Disk,
    path: str,
    segments: Segments,
    producers: ProducerStates,
    *,
    start_offset: int,
    end_offset: int,
    now_ms: int,
    expiration_ms: int,
    aborted_from: int | None = None,
    by_batch: bool = False,
    snapshots: list[int] | None = None,
) -> int:
    """Fills `producers` with the state at `end_offset`; returns the offset of the snapshot that was used, else `start_offset`.

    Snapshots beyond `end_offset`, or at or below the log's start, say nothing about this log and are removed. If `aborted_from`
    is given, the transaction indexes of the segments from that base offset on are empty, and are filled on the way. `by_batch` is
    True after an unclean stop, when Kafka goes batch by batch, which shows in the order of new producers. `snapshots` are the
    offsets of all snapshots, if the caller knows them. Raises CorruptRecord or OSError.
    """
    offsets = snapshot_offsets(disk, path) if snapshots is None else snapshots
    for offset in offsets:
        if not start_offset < offset <= end_offset:
            disk.remove(_snapshot_path(path, offset))
    if offsets and offsets[-1] > end_offset:
        disk.sync_dir(path)  # if a crash brought one back after other batches had been written, it would count
    upto = end_offset if aborted_from is None else min(end_offset, aborted_from)
    from_offset = _load_snapshot(disk, path, offsets, producers, start_offset, upto, now_ms, expiration_ms)
    for segment, completed in _replay(segments, producers, from_offset, end_offset, by_batch=by_batch):
        if aborted_from is not None and segment.base_offset >= aborted_from and completed.aborted:
            segment.change_txn_index().append(completed.index_entry)
    producers.end_offset = end_offset
    return from_offset


def rebuild_txn_index(disk: Disk, path: str, segments: Segments, segment: Segment, *, start_offset: int) -> None:
    """Fills a segment's transaction index from the log, of a `path` that starts at `start_offset`. Raises CorruptRecord or
    OSError."""
    segment.reset_txn_index()
    producers = ProducerStates()
    offsets = snapshot_offsets(disk, path)
    from_offset = _load_snapshot(disk, path, offsets, producers, start_offset, segment.base_offset)
    for where, completed in _replay(segments, producers, from_offset, segment.next_offset()):
        if where is segment and completed.aborted:
            segment.change_txn_index().append(completed.index_entry)


def compare_aborted(segments: Segments, segment: Segment, *, start_offset: int) -> None:
    """Compares the newest entries of a segment's transaction index, which has no checksum, with the headers of the batches that
    they name: a reader would take aborted records for committed ones. Raises CorruptIndex if one is wrong, CorruptRecord and
    OSError."""
    for entry in list(segment.txn_index)[-_COMPARED_ABORTS:]:
        marker = segment.locate(entry.last_offset)
        if marker is None or not _is_of(segment, marker, entry.last_offset, entry.producer_id, is_control=True):
            raise CorruptIndex(f"{entry} ends at no marker of its producer")
        if entry.first_offset >= max(start_offset, segments.first.base_offset):
            begun = segments[segments.floor(entry.first_offset)]
            first = begun.locate(entry.first_offset)
            if first is not None and not _is_of(begun, first, entry.first_offset, entry.producer_id, is_control=False):
                raise CorruptIndex(f"{entry} begins at no batch of its producer")
    segment.indexes.are_txns_compared = True


def _is_of(segment: Segment, batch: Located, base_offset: int, producer_id: int, *, is_control: bool) -> bool:
    """Returns whether a batch that begins at an offset is a producer's, or whether compaction has left a gap there."""
    if batch.base_offset > base_offset:
        return True
    header = read_header(segment.open_file().pread(HEADER_SIZE, batch.position))
    return (header.base_offset, header.producer_id, header.is_control) == (base_offset, producer_id, is_control)


def _snapshot_path(path: str, offset: int) -> str:
    return f"{path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"


def _load_snapshot(
    disk: Disk,
    path: str,
    offsets: list[int],
    producers: ProducerStates,
    start_offset: int,
    upto: int,
    now_ms: int | None = None,
    expiration_ms: int = 0,
) -> int:
    """Loads the newest whole one of these snapshots above `start_offset` and not beyond `upto`; returns its offset, or
    `start_offset` if there is none."""
    producers.clear(start_offset)
    for offset in reversed(offsets):
        if start_offset < offset <= upto:
            file = _snapshot_path(path, offset)
            try:
                producers.load(disk.read_bytes(file), offset, now_ms=now_ms, expiration_ms=expiration_ms)
            except (CorruptSnapshot, FileTooLarge) as error:
                _log.warning("%s is removed: %s", file, error)
                disk.remove(file)
            else:
                return offset
    return start_offset


def _position_of(segment: Segment, offset: int) -> int:
    """Returns where the first batch that reaches to `offset` begins. The index alone cannot be trusted with that."""
    if segment.base_offset >= offset:
        return 0
    found = segment.locate(offset)
    return segment.size if found is None else found.position


def _replay(
    segments: Segments, producers: ProducerStates, from_offset: int, end_offset: int, *, by_batch: bool = True
) -> Iterator[tuple[Segment, CompletedTransaction]]:
    """Applies the batches that reach into from_offset..end_offset; yields each transaction that ended, with the marker's
    segment. Raises CorruptRecord or OSError."""
    if from_offset >= end_offset:
        return
    for index in range(segments.floor(from_offset), len(segments)):
        segment = segments[index]
        file, known = segment.open_file(), len(producers)
        start = _position_of(segment, from_offset)
        for position, size, buffer, at in walk_producers(file, start, segment.size, segment.producer_batches):
            header = read_header(buffer, at)
            if header.next_offset <= from_offset:  # a batch in whose middle the log starts does count
                continue
            if header.base_offset >= end_offset:
                break
            if header.is_control:
                try:
                    completed = end_transaction(producers, header, header.base_offset, [file.pread(size, position)])
                except ValueError as error:  # a marker that is not understood may be an abort
                    where = f"{segment.path(LOG_SUFFIX)} is damaged at position {position}"
                    raise CorruptRecord(f"{where}: its marker does not decode: {error}") from error
                if completed is not None:
                    yield segment, completed
            else:
                producers.update(header, header.base_offset)
        if not by_batch:
            producers.reverse_newest(known)
