"""Finishes or undoes interrupted work in a partition's directory, which the endings of file names reveal.

    .deleted   was to be removed after a delay: removed
    .tmp       was to replace a small file: removed
    .cleaned   was written by a compaction or a split, and is not complete: removed; what it was to replace is still there
    .swap      is complete, and was about to replace the segments it was made from: these are removed, and it gets its plain name

A compaction or split names all its output `.cleaned` while it writes, syncs it, renames it to `.swap`, the highest offset first,
removes the old segments and renames `.swap` to the plain name. So as long as one `.cleaned` is left, not all of the output is
`.swap` yet, and every `.swap` at or above the lowest `.cleaned` belongs to the same unfinished work and is removed, too. Kafka's
cleaner and its splitting of segments use the same names in the same order (LogLoader), so either broker finishes what the other
began.

A `.swap` of an index whose log already has its plain name is renamed, too; an index that does not fit is rebuilt later, like any
other. Every step may be interrupted again: removals are synced before anything is renamed.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.log.disk.files import Disk
from ottla.log.errors import CorruptLog, CorruptRecord
from ottla.log.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TMP_SUFFIX,
    offset_in,
)
from ottla.log.scan import walk, walk_batches
from ottla.wire.batch import BatchHeader, check_crc, read_header

_log = logging.getLogger("ottla.log.leftovers")

_MAX_OFFSET: Final = 2**63 - 1


def finish_or_remove(disk: Disk, path: str) -> list[str]:
    """Finishes or undoes what was under way in the directory; returns the names of the files that are left.

    Raises CorruptLog if a `.swap` log is damaged: then nothing is removed. Raises OSError.
    """
    names = disk.list(path)
    if not any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TMP_SUFFIX)) for name in names):
        return names
    cleaned = [offset for name in names if name.endswith(CLEANED_SUFFIX) and (offset := offset_in(name)) >= 0]
    unfinished = min(cleaned, default=_MAX_OFFSET)
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX) and 0 <= offset_in(name) < unfinished]
    ranges = [_covered(disk, path, name) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    # A .swap is removed before the .cleaned that shows it to be unfinished.
    for name in sorted(names, key=lambda name: not name.endswith(SWAP_SUFFIX)):
        if name.endswith(SWAP_SUFFIX):
            if offset_in(name) < unfinished:
                continue
            _log.warning("%s/%s is removed: it belongs to a compaction or split that was not finished", path, name)
            disk.remove(f"{path}/{name}")
            disk.sync_dir(path)
        elif name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TMP_SUFFIX)):
            disk.remove(f"{path}/{name}")
    if swaps:
        _finish_swaps(disk, path, swaps, ranges)
    return disk.list(path)


def _finish_swaps(disk: Disk, path: str, swaps: list[str], ranges: list[tuple[int, int]]) -> None:
    for name in disk.list(path):
        offset = offset_in(name)
        replaced = any(first <= offset < end or offset == first for first, end in ranges)
        if replaced and name.endswith((*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)) and not _starts_one(name, ranges):
            _log.info("%s/%s is removed: a compaction or split replaced it", path, name)
            disk.remove(f"{path}/{name}")
    disk.sync_dir(path)
    for name in sorted(swaps):
        _log.info("%s/%s gets its plain name", path, name)
        disk.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
    disk.sync_dir(path)


def _starts_one(name: str, ranges: list[tuple[int, int]]) -> bool:
    """Returns whether the file is a producer snapshot at the first offset of a new segment; that describes what lies before
    it."""
    return name.endswith(SNAPSHOT_SUFFIX) and any(offset_in(name) == first for first, _ in ranges)


def _covered(disk: Disk, path: str, name: str) -> tuple[int, int]:
    """Returns the first offset and the one after the last of a `.swap` log. Raises CorruptLog if any batch in it is damaged: what
    it is to replace must not be removed for it."""
    base = end = offset_in(name)
    file = disk.open(f"{path}/{name}")
    try:
        for position, batch in walk_batches(file, 0, file.size):
            header = read_header(batch)
            if not check_crc(batch, header) or not end <= header.base_offset <= header.last_offset:
                raise CorruptRecord(f"the batch at position {position} has a wrong CRC or wrong offsets")
            end = header.next_offset
        if end > base:
            _find_original(disk, path, base, header)
    except CorruptRecord as error:
        raise CorruptLog(
            f"{path}/{name}, with which a compaction or split was about to replace segments, is damaged: {error}. Nothing was "
            f"removed: if these segments are all there, take away the {SWAP_SUFFIX} files; those that end in {DELETED_SUFFIX} "
            "get their plain names back first"
        ) from error
    return base, end


def _find_original(disk: Disk, path: str, base: int, last: BatchHeader) -> None:
    """Looks for the batch from which the last one of a `.swap` log was made. No CRC covers its offset, which says what is
    replaced. Raises CorruptRecord if the segment that should have it has no batch with these offsets."""
    originals = {offset_in(name): name for name in disk.list(path) if name.endswith((LOG_SUFFIX, LOG_SUFFIX + DELETED_SUFFIX))}
    at = max((offset for offset in originals if base <= offset <= last.base_offset), default=None)
    if at is None:
        return
    file, offsets = disk.open(f"{path}/{originals[at]}"), (last.base_offset, last.last_offset)
    if not any((each.base_offset, each.last_offset) == offsets for each in walk(file, 0, file.size)):
        raise CorruptRecord(f"{originals[at]} has no batch with the offsets of its last one, {offsets[0]} to {offsets[1]}")
