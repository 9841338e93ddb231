"""Putting a cleaned segment in the place of those it was made from, so that a crash at any step loses nothing. Kafka's protocol.

    files of the new segment        files of the old ones     what a start makes of it (log.recovery)
    `.cleaned`, synced              live                      the new ones are removed
    some `.swap`, some `.cleaned`   live                      the new ones are removed
    `.swap`                         live, then `.deleted`     the old ones go, `.swap` become live
    live                            `.deleted`                `.deleted` go

A disk may make renames durable in any order, or none, until the directory is synced. So between two steps lies a sync, which may
run in any thread while the log goes on: after each step readers find every segment where it says that it is. A reader that has
an old file open reads it to its end.

The log may be cut, closed or deleted between two steps: `is_void` says so, and `remove_unfinished` takes away what is not part
of the log yet. If it is closed before the last one, the next start takes that step. If descriptors ran out and a sync came to
nothing, the log is whole and goes on, and `settle` takes the steps that are left before the next cleaning, which needs the
names.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.log.compaction.cleaning_job import CleanedGroup
from ottla.log.names import CLEANED_SUFFIX, SWAP_SUFFIX, offset_in

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog


class SegmentSwap:
    """One new segment's way into the log. `steps` one after the other, each followed by `sync`."""

    def __init__(self, log: PartitionLog, group: CleanedGroup) -> None:
        self._log = log
        self._cuts = log.cuts
        self._exchanged = False
        first = log.segments.floor(group.base_offset)
        self._old = [log.segments[at] for at in range(first, min(first + len(group.replaces), len(log.segments)))]
        self._fits = [segment.base_offset for segment in self._old] == group.replaces and log.segments.active not in self._old
        self._new = log.local.segment_of(group.base_offset, group.size)
        self._new.name_ending = CLEANED_SUFFIX
        self.steps = (self._rename_new, self._exchange, self._end)

    def call_off(self) -> None:
        """The cleaning is void."""
        self._fits = False

    def run(self) -> bool:
        """All of it here and now; False if the log changed meanwhile. StorageError."""
        for step in self.steps:
            if self.is_void:
                return False
            step()
            self.sync()
        return True

    @property
    def is_void(self) -> bool:
        """The log is no longer the one that was cleaned, or, after the exchange, it has lost the new segment again."""
        log = self._log
        if log.closed or log.directory.failed is not None:
            return True
        if self._exchanged:
            return self._new not in list(log.segments)
        return not self._fits or log.cuts != self._cuts

    def sync(self) -> None:
        """Makes the last step durable. In any thread. StorageError."""
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


def settle(log: PartitionLog) -> None:
    """Takes the last step for segments that wait for it. StorageError."""
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
    """Removes what a cleaning that ended early left beside the log. StorageError.

    Durably if there is a `.swap`: a start would believe it, whatever became of the log since. And because of a `.cleaned` a start
    would not believe a `.swap` of a later cleaning.
    """
    disk = log.directory.disk
    exchanged = {segment.base_offset for segment in log.segments if segment.name_ending}
    with log.directory.guard(f"cleaning up after a cleaning of {log.path}"):
        names = [name for name in disk.list(log.path) if offset_in(name) >= 0]
        swaps = [name for name in names if name.endswith(SWAP_SUFFIX) and offset_in(name) not in exchanged]
        for name in [*swaps, *(name for name in names if name.endswith(CLEANED_SUFFIX))]:
            disk.remove(f"{log.path}/{name}")
        if swaps:
            disk.sync_dir(log.path)
