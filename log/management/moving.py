"""Moving a partition to another log directory of the same broker (KIP-113): a copy grows beside the log and takes its place.

The copy is a log of its own in `<topic>-<partition>.<32 hex digits>-future`, where the next start finds it. The server
(server/partitions/log_dirs.py) reads from the log, in any thread, and passes the bytes to `FutureLog.take`, which appends whole
batches as they are: offsets, epochs, CRCs and the places where segments end are the log's own. Meanwhile the log is written and
cut at its start as usual, but not compacted (log/compaction/cleaner_manager.py); what was deleted before it was copied is a gap,
such as compaction leaves, too. A follower's log may also be cut at its end, when it parts from its leader's: then the copy is cut
as well, as a follower of the log would be.

Once both end at the same offset, the copy is durable, and the metadata names its directory, `swap` renames the old directory to
be deleted, gives the copy the plain name, and makes it the log. A crash between the two renames leaves a copy without a log;
since the metadata names its directory, the next start gives it the plain name, as Kafka's does. An earlier crash leaves both, and
the move begins again from nothing, because nobody knows how much of either end the crash took; after a clean stop it goes on.

Producers and epochs are handed over at the swap, because the log knows more about them than its batches say.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.log.disk.files import StateUnknown
from ottla.log.errors import StorageError
from ottla.log.following import diverging_offset
from ottla.log.names import DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, future_directory_name, parse_future_name
from ottla.log.opening.recovery import create_log, open_log
from ottla.log.rolling import has_room
from ottla.wire.batch import BatchHeader, iter_batches

if TYPE_CHECKING:
    from ottla.log.disk.directory import LogDirectory
    from ottla.log.disk.files import FileSlice
    from ottla.log.open_options import Opening
    from ottla.log.partition import PartitionLog

MAX_READ_BYTES: Final = 1 << 20
BATCHES_PER_STEP: Final = 64
"""The number of batches that `take` appends between two pauses, which takes about a millisecond."""
_log = logging.getLogger("ottla.log.moving")


class FutureLog:
    """A copy on its way to another log directory: `source` is the partition's log, `log` is the copy."""

    __slots__ = ("_cuts", "log", "source")

    def __init__(self, source: PartitionLog, log: PartitionLog) -> None:
        self.source = source
        self.log = log
        self._cuts = source.cuts
        if log.log_end_offset > source.log_end_offset:
            log.truncate_to(source.log_end_offset)

    def __repr__(self) -> str:
        return f"FutureLog({self.source!r} to {self.log.directory.path}, {self.lag} behind)"

    @property
    def lag(self) -> int:
        """Returns how many offsets are not copied yet."""
        return max(0, self.source.log_end_offset - self.log.log_end_offset)

    def is_over(self) -> bool:
        """Returns whether the move has ended because the log or the copy was closed."""
        return self.source.closed or self.log.closed

    def next_read(self) -> FileSlice | None:
        """Returns what to copy next, at most a MiB or one batch; None if there is nothing to copy. Raises StorageError or
        CorruptRecord."""
        source, log = self.source, self.log
        if self._cuts != source.cuts:
            self._follow_cut()
        offset = max(log.log_end_offset, source.log_start_offset)
        found = source.read(offset, MAX_READ_BYTES, upto=source.log_end_offset)
        if found is None:
            if log.log_end_offset < source.log_end_offset:  # everything in between was deleted
                log.skip_to(source.log_end_offset)
                log.raise_high_watermark(log.log_end_offset)
            return None
        if log.log_end_offset <= source.segments[source.segments.floor(offset)].base_offset and log.segments.active.size:
            log.roll()
        return found

    def _follow_cut(self) -> None:
        """Cuts the copy where it parts from the log, which was cut since. Raises StorageError."""
        source, log = self.source, self.log
        self._cuts = source.cuts
        while log.leader_epoch >= 0:
            epoch, end_offset = source.end_offset_for_epoch(log.leader_epoch)
            if epoch < 0:  # the log is empty, and what the copy has lies before its start or behind its end
                break
            if epoch == log.leader_epoch and end_offset >= log.log_end_offset:
                return
            log.truncate_to(diverging_offset(log, epoch, end_offset))
        log.truncate_to(min(source.log_end_offset, log.log_end_offset))

    def read(self, found: FileSlice) -> bytes:
        """Reads the bytes of a `next_read`; may be called in any thread. Raises TruncatedSlice where the log was cut meanwhile;
        raises StorageError."""
        with self.source.directory.guard(f"reading {self.source.path}"):
            return found.read()

    def take(self, data: bytes) -> Iterator[None]:
        """Appends the whole batches in `data`, bytes of the log, pausing now and then. Leaves out what is left if the log was cut
        since the `next_read`: it may not have these bytes any more. Raises StorageError."""
        count = 0
        for header, batch in iter_batches(data):
            if self._cuts != self.source.cuts:
                return
            if header.last_offset < self.log.log_end_offset:
                continue  # a read may begin inside a batch that is copied already
            self._append(header, bytes(batch))
            count += 1
            if count % BATCHES_PER_STEP == 0:
                yield

    def _append(self, header: BatchHeader, batch: bytes) -> None:
        log = self.log
        segment = log.segments.active
        if segment.size and not has_room(segment, header.size, header.last_offset, log.config.segment_bytes, segment.size):
            log.roll()
        log.append_run(memoryview(batch), (header,))
        log.raise_high_watermark(log.log_end_offset)

    def settle(self) -> None:
        """Gives the copy, once both end at the same offset, what is not in the batches, and makes it durable. Raises
        StorageError."""
        source, log = self.source, self.log
        log.take_over(source)
        log.raise_log_start_offset(source.log_start_offset)
        log.config = source.config
        with log.directory.guard(f"moving {source.path}"):
            log.take_snapshot()
        log.flush()
        if log.on_append is None:
            log.raise_high_watermark(log.log_end_offset)

    def swap(self) -> None:
        """Deletes the log and gives the copy its name; `settle` comes first. Raises StorageError."""
        source, log = self.source, self.log
        name = source.topic, source.partition
        cleaned = source.directory.cleaned.get(name)
        if cleaned is None:  # done before the swap, because it may fail for want of room
            log.directory.forget_cleaned(name)
        else:
            log.directory.set_cleaned(name, cleaned)
        source.assume_flushed()
        _delete(source)
        source.directory.partitions.pop(name, None)
        take_plain_name(log)
        log.directory.partitions[name] = log
        source.directory.forget_cleaned(name)
        log.directory.save_cleaned()  # only now is the partition in this directory
        log.directory.save_all()
        _log.info("%s-%d is now in %s", *name, log.directory.path)


def _delete(source: PartitionLog) -> None:
    """Deletes the log. If that fails, the log is as it was or its directory is offline: were it written on under the name of a
    deleted partition, the next start would remove it. Raises StorageError."""
    try:
        source.delete()
    except StorageError as error:
        directory = source.directory
        if directory.failed is None and not directory.disk.exists(source.path):  # renamed, but the rename could not be synced
            raise directory.fail(f"moving {source.path}", StateUnknown(errno.EIO, str(error))) from error
        raise


def create_future(directory: LogDirectory, source: PartitionLog, opening: Opening) -> FutureLog:
    """Makes a new, empty copy. Raises StorageError."""
    opening.directory = future_directory_name(source.topic, source.partition, source.local.random)
    opening.log_start_offset = source.first_base_offset
    opening.clean = True
    with directory.guard(f"creating {opening.directory}"):
        return FutureLog(source, create_log(directory, opening))


def open_future(directory: LogDirectory, opening: Opening, clean: bool) -> PartitionLog:
    """Opens a copy that the start found. `clean` says whether the last stop was clean. Raises what log.opening.recovery.open_log
    raises."""
    opening.clean = clean
    with directory.guard(f"opening {opening.directory}"):
        return open_log(directory, opening)


def take_plain_name(log: PartitionLog) -> None:
    """Gives the directory of a copy the plain name of a partition's directory. Raises StorageError."""
    directory = log.directory
    plain = f"{directory.path}/{log.topic}-{log.partition}"
    with directory.guard(f"renaming {log.path}", whole=True):  # a rename that may be half done must take the directory offline
        log.local.rename_directory(plain)


def remove_future(directory: LogDirectory, name: str, now_ms: int) -> None:
    """Deletes a copy that is not open. Raises StorageError."""
    topic_partition = parse_future_name(name)
    assert topic_partition is not None
    renamed = f"{directory.path}/{name.removesuffix(FUTURE_DIR_SUFFIX)}{DELETE_DIR_SUFFIX}"
    with directory.guard(f"deleting {name}"):
        directory.disk.rename(f"{directory.path}/{name}", renamed)
        directory.disk.sync_dir(directory.path)
    directory.remove_later(renamed, now_ms)
