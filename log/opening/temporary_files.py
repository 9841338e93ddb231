"""What interrupted work leaves in a partition's directory, told by the ends of file names, and how it is finished or undone.

    .deleted   on its way out: removed
    .tmp       a small file that was being replaced: removed
    .cleaned   written by a compaction or a split, and not complete: removed; what it was to replace is still there
    .swap      complete, and about to take the place of the segments it was made from: those go, and it takes its name

A compaction or split names all its output `.cleaned` while it writes, syncs it, renames it to `.swap`, the highest offset first,
removes the old segments and renames `.swap` to the plain name. So as long as one `.cleaned` is left, not all of the output is
`.swap` yet, and every `.swap` at or above the lowest `.cleaned` belongs to the same unfinished work: it goes too. Kafka's cleaner
and its splitting of segments use the same names in the same order (LogLoader), so either broker finishes what the other began.

A `.swap` of an index whose log has its plain name already is renamed after it; an index that does not fit is rebuilt later, as
any other. Every step may be interrupted again: what is removed is synced before anything is renamed.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.log.disk.files import Disk
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
from ottla.log.scan import walk

_log = logging.getLogger("ottla.log.leftovers")

_MAX_OFFSET: Final = 2**63 - 1


def finish_or_remove(disk: Disk, path: str) -> list[str]:
    """Finishes or undoes what was under way in the directory; returns the names that are there now.

    CorruptRecord if a `.swap` log cannot be walked: then nothing is removed. OSError.
    """
    names = disk.list(path)
    if not any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TMP_SUFFIX)) for name in names):
        return names
    cleaned = [offset for name in names if name.endswith(CLEANED_SUFFIX) and (offset := offset_in(name)) >= 0]
    unfinished = min(cleaned, default=_MAX_OFFSET)
    swaps = []
    # A .swap goes before the .cleaned that condemns it.
    for name in sorted(names, key=lambda name: not name.endswith(SWAP_SUFFIX)):
        if name.endswith(SWAP_SUFFIX):
            offset = offset_in(name)
            if offset < unfinished:
                if offset >= 0:
                    swaps.append(name)
                continue
            _log.warning("%s/%s is removed: what it belongs to was not finished", path, name)
            disk.remove(f"{path}/{name}")
            disk.sync_dir(path)
        elif name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TMP_SUFFIX)):
            disk.remove(f"{path}/{name}")
    if swaps:
        _finish_swaps(disk, path, swaps)
    return disk.list(path)


def _finish_swaps(disk: Disk, path: str, swaps: list[str]) -> None:
    ranges = [_covered(disk, path, name) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in disk.list(path):
        offset = offset_in(name)
        replaced = any(first <= offset < end or offset == first for first, end in ranges)
        if replaced and name.endswith((*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)) and not _starts_one(name, ranges):
            _log.info("%s/%s is removed: a compaction or split replaced it", path, name)
            disk.remove(f"{path}/{name}")
    disk.sync_dir(path)
    for name in sorted(swaps):
        _log.info("%s/%s takes its place", path, name)
        disk.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
    disk.sync_dir(path)


def _starts_one(name: str, ranges: list[tuple[int, int]]) -> bool:
    """Returns whether it is a producer snapshot at the first offset of what comes: that describes what lies before."""
    return name.endswith(SNAPSHOT_SUFFIX) and any(offset_in(name) == first for first, _ in ranges)


def _covered(disk: Disk, path: str, name: str) -> tuple[int, int]:
    """Returns the first offset and the one after the last of a `.swap` log."""
    base = end = offset_in(name)
    file = disk.open(f"{path}/{name}")
    for batch in walk(file, 0, file.size):
        end = batch.last_offset + 1
    return base, end
