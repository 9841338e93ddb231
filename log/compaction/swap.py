"""Puts a cleaned segment in the place of those it was made from, by Kafka's protocol, so that a crash at any step loses nothing.

    files of the new segment        files of the old ones     what a start does (log.opening.temporary_files)
    `.cleaned`, synced              live                      removes the new files
    some `.swap`, some `.cleaned`   live                      removes the new files
    `.swap`                         live, then `.deleted`     removes the old files and gives the new ones their plain names
    live                            `.deleted`                removes the old files

A disk may make renames durable in any order, or none of them, until the directory is synced. So between two steps lies a sync,
which may run in any thread while the log is used: after each step readers find every segment under the name that it says it has.
A reader that has an old file open reads it to its end.

When all names are right, the cleaner's checkpoint moves to where the new segment ends. It moves with every segment, because a
cleaning may end early: a segment that was emptied must not look like one that lost its records.

The log may be cut, closed or deleted between two steps: then `is_void` is true, and `remove_unfinished` removes what is not part
of the log yet. If the log is closed before the last step, the next start takes that step. If a sync failed because descriptors
ran out, the log is whole and stays in use, and `settle` takes the steps that are left before the next cleaning, which needs the
names.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.log.compaction.cleaning_job import CleanedGroup
from ottla.log.names import CLEANED_SUFFIX, SWAP_SUFFIX, TMP_SUFFIX, offset_in

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog


class SegmentSwap:
    """Puts one new segment into the log. The caller takes `steps` one after the other, each followed by `sync`."""

    def __init__(self, log: PartitionLog, group: CleanedGroup) -> None:
        self._log = log
        self._cuts = log.cuts
        self._exchanged = False
        first = log.segments.floor(group.base_offset)
        self._old = [log.segments[at] for at in range(first, min(first + len(group.replaces), len(log.segments)))]
        self._fits = [segment.base_offset for segment in self._old] == group.replaces and log.segments.active not in self._old
        self._new = log.local.segment_of(group.base_offset, group.size)
        self._new.name_ending = CLEANED_SUFFIX
        self._end_offset = group.end_offset
        self.steps = (self._rename_new, self._exchange, self._end, self._note_clean)

    def call_off(self) -> None:
        """Makes the swap void, because the cleaning is."""
        self._fits = False

    def run(self) -> bool:
        """Takes all steps on the calling thread; returns False if the log changed meanwhile. Raises StorageError."""
        for step in self.steps:
            if self.is_void:
                return False
            step()
            self.sync()
        return True

    @property
    def is_void(self) -> bool:
        """Returns whether the log is no longer the one that was cleaned, or, after the exchange, has lost the new segment
        again."""
        log = self._log
        if log.closed or log.directory.failed is not None:
            return True
        if self._exchanged:
            return self._new not in list(log.segments)
        return not self._fits or log.cuts != self._cuts

    def sync(self) -> None:
        """Makes the last step durable; may be called in any thread. Raises StorageError."""
        log = self._log
        with log.directory.guard(f"compacting {log.path}"), suppress(FileNotFoundError):  # the partition was deleted meanwhile
            log.directory.disk.sync_dir(log.path)

    def _rename_new(self) -> None:
        with self._log.directory.guard(f"compacting {self._log.path}"):
            self._new.rename_files(SWAP_SUFFIX)

    def _exchange(self) -> None:
        log = self._log
        with log.directory.guard(f"compacting {log.path}", whole=True):
            log.segments.replace(self._old, self._new)
            self._exchanged = True
            log.local.drop(self._old, keep_snapshot=self._new.base_offset)

    def _end(self) -> None:
        with self._log.directory.guard(f"compacting {self._log.path}", whole=True):
            self._new.rename_files("")

    def _note_clean(self) -> None:
        log = self._log
        partition = log.topic, log.partition
        if log.cuts == self._cuts and self._end_offset > log.directory.cleaned.get(partition, 0):
            log.directory.set_cleaned(partition, self._end_offset)


def settle(log: PartitionLog) -> None:
    """Takes the last step for segments that wait for it. Raises StorageError."""
    waiting = [segment for segment in log.segments if segment.name_ending]
    if not waiting:
        return
    disk, action = log.directory.disk, f"compacting {log.path}"
    with log.directory.guard(action):
        disk.sync_dir(log.path)
    with log.directory.guard(action, whole=True):
        for segment in waiting:
            segment.rename_files("")
    with log.directory.guard(action):
        disk.sync_dir(log.path)


def remove_unfinished(log: PartitionLog) -> None:
    """Removes what a cleaning that ended early left beside the log. Raises StorageError.

    The removal is durable if there is a `.swap`, because a start would put that in place whatever has become of the log since. A
    `.cleaned` must go because a start that finds one discards the `.swap` files of a later cleaning. A worker that was killed
    while it wrote an index left that as `.cleaned.tmp`.
    """
    disk = log.directory.disk
    exchanged = {segment.base_offset for segment in log.segments if segment.name_ending}
    with log.directory.guard(f"cleaning up after a cleaning of {log.path}"):
        names = [name for name in disk.list(log.path) if offset_in(name.removesuffix(TMP_SUFFIX)) >= 0]
        swaps = [name for name in names if name.endswith(SWAP_SUFFIX) and offset_in(name) not in exchanged]
        for name in [*swaps, *(name for name in names if name.removesuffix(TMP_SUFFIX).endswith(CLEANED_SUFFIX))]:
            disk.remove(f"{log.path}/{name}")
        if swaps:
            disk.sync_dir(log.path)
