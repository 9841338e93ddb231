"""The steps of a leader's append to a log; the rest of a log is `PartitionLog` (log/partition.py).

A batch is validated and checked against the producer state (a duplicate ends here), a new leader epoch is noted, the segment is
rolled if it is full, the bytes are written, and then the offsets move. Before the write nothing has changed that a reader could
see; after it nothing can fail. An append that is held is written later, with others, and goes back with them if that fails
(log/joined_write.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.log.append_info import AppendInfo
from ottla.log.disk.files import Buffer
from ottla.log.errors import LogError, StorageError
from ottla.log.joined_write import JoinedWrite
from ottla.log.markers import check_producer
from ottla.log.rolling import has_room, is_too_old
from ottla.log.validate import Origin, ValidatedBatch, validate_for_append

if TYPE_CHECKING:
    from ottla.log.disk.directory import LogDirectory
    from ottla.log.producers import Duplicate, ProducerStates
    from ottla.log.segment import Segment
    from ottla.log.segments import Segments
    from ottla.log.validate import BatchRules
    from ottla.wire.batch import BatchHeader


class Appending:
    """The base class of a partition's log, to which its leader appends. Who extends it sets all of its fields."""

    __slots__ = (
        "_awaiting_flush", "_latest_epoch", "_segment_bytes", "closed", "directory", "flush_messages", "high_watermark", "joined",
        "log_end_offset", "log_start_offset", "now_ms", "on_append", "partition", "producers", "recovery_point", "roll_after_ms",
        "rules", "segments", "topic",
    )  # fmt: skip

    topic: str
    partition: int
    directory: LogDirectory
    segments: Segments
    producers: ProducerStates
    now_ms: Callable[[], int]
    closed: bool
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    recovery_point: int
    on_append: Callable[[int], bool] | None
    """The function that `PartitionLog.replicate_by` was given."""
    joined: JoinedWrite | None
    """The appends that are held."""
    rules: BatchRules
    """The rules for a batch that follow from the topic's settings."""
    roll_after_ms: int
    flush_messages: int
    _segment_bytes: int
    _latest_epoch: int
    _awaiting_flush: list[int]
    """The end offsets of the appends whose answers wait for a flush, ascending. An empty deque takes 760 bytes."""

    # What a log does

    @property
    def path(self) -> str:
        raise NotImplementedError

    def begin_epoch(self, leader_epoch: int) -> None:
        raise NotImplementedError

    def roll(self) -> Segment:
        raise NotImplementedError

    def _note_marker(self, header: BatchHeader, base_offset: int, parts: Sequence[Buffer]) -> None:
        raise NotImplementedError

    # Appending

    def append_as_leader(
        self,
        records: Buffer | None,
        *,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        zstd_ok: bool = True,
        quickly: bool = False,
        validated: ValidatedBatch | None = None,
        hold: bool = False,
    ) -> AppendInfo:
        """Appends the one batch in `records`, which is only borrowed and may be reused when this returns or, with `hold`, when
        the batch is written.

        `zstd_ok` is False for Produce below version 7. Raises the errors of log.validate and log.producers with nothing changed,
        and StorageError if the log is closed or its directory offline, perhaps because of this append. With `quickly` it raises
        NotValidated, with nothing changed, where checking the batch takes long; then log.validate has to make `validated` of it
        first, in a thread. With `hold` the bytes may wait for those of further appends (`AppendInfo.joined`). Those that wait
        are written before anything that cannot wait; if that fails, this raises their error.
        """
        directory = self.directory
        if self.closed or directory.failed is not None:
            self.check_usable()
        if self.joined is not None and not hold:
            self._write_joined_or_raise()
        now_ms = self.now_ms()
        batch = validated or validate_for_append(records, self.rules, now_ms, origin, zstd_allowed=zstd_ok, quickly=quickly)
        header = batch.header
        if header.producer_id >= 0:
            duplicate = check_producer(self.producers, batch, origin)
            if duplicate is not None:
                return self._append_again(duplicate)
        if leader_epoch != self._latest_epoch:
            self._write_joined_or_raise()
            self.begin_epoch(leader_epoch)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        joined = self._write(batch, base_offset, int(last_offset), leader_epoch, now_ms, hold)
        end_offset = self.log_end_offset = last_offset + 1
        if header.producer_id < 0:
            self.producers.end_offset = end_offset
        elif header.is_control:
            self._note_marker(header, base_offset, batch.parts(base_offset, leader_epoch))
        else:
            self.producers.update(header, base_offset)
        waits = end_offset - self.recovery_point >= self.flush_messages
        if waits:
            self._awaiting_flush.append(end_offset)
        elif self.on_append is None:
            self.high_watermark = end_offset
        else:
            waits = self.on_append(end_offset)
        time_ms = batch.log_append_time_ms
        return AppendInfo(base_offset, last_offset, time_ms, self.log_start_offset, waits=waits, joined=joined)

    def _append_again(self, duplicate: Duplicate) -> AppendInfo:
        """Returns the result for a batch that is in the log already, or among what is held."""
        first, last, timestamp_ms = duplicate
        joined, waits = self.joined, self._waits(last + 1)
        if joined is not None and last < joined.start_offset:
            joined = None
        return AppendInfo(first, last, timestamp_ms, self.log_start_offset, duplicate=True, waits=waits, joined=joined)

    def _write(
        self, batch: ValidatedBatch, base_offset: int, last_offset: int, leader_epoch: int, now_ms: int, hold: bool
    ) -> JoinedWrite | None:
        """Puts a batch at the log's end: into the active segment, into a new one if that is full, or among the appends that are
        held, which it returns. Raises StorageError, with nothing changed."""
        header, segment, joined = batch.header, self.segments.active, self.joined
        flushes = self.awaits_flush(last_offset + 1)
        if joined is not None and (flushes or joined.is_full):
            self._write_joined_or_raise()
            joined = None
        size = header.size
        filled = segment.size if joined is None else segment.size + int(joined.size)
        try:
            if filled and (
                not has_room(segment, size, last_offset, self._segment_bytes, filled)
                or is_too_old(segment, header, self.roll_after_ms, segment.first_timestamp, now_ms)
            ):
                self._write_joined_or_raise()
                segment, joined = self.roll(), None
            elif hold and joined is None and filled and not flushes and self.on_append is None and segment.index_room:
                room = segment.index_room  # each batch takes one entry at most
                joined = JoinedWrite(self.log_end_offset, self.high_watermark, room, self.producers, self.write_joined)
                self.joined = joined
            parts = batch.parts(base_offset, leader_epoch)
            if joined is not None:
                joined.add(header, parts, last_offset)
            else:
                segment.append(parts, size, last_offset, header.max_timestamp)
        except OSError as error:
            raise self.directory.fail(f"appending to {self.path}", error) from error
        return joined

    def write_joined(self) -> None:
        """Writes the appends that are held, if there are any. If that fails, `JoinedWrite.error` says why, and the log is what it
        was before them."""
        joined, self.joined = self.joined, None
        if joined is None:
            return
        try:
            self.check_usable()  # another log's append may have taken the directory offline
            joined.put(self.segments.active)
        except LogError as error:  # CorruptRecord, too, if the indexes were pushed out meanwhile and cannot be read again
            reason: LogError = error
        except OSError as error:
            reason = self.directory.fail(f"appending to {self.path}", error)
        else:
            joined.finish()
            return
        self.log_end_offset, self.high_watermark = joined.start_offset, joined.high_watermark
        joined.take_back(reason)

    def _write_joined_or_raise(self) -> None:
        """Writes the appends that are held. If that fails, this raises `JoinedWrite.error`."""
        joined = self.joined
        if joined is not None:
            self.write_joined()
            if joined.error is not None:
                raise joined.error

    def _waits(self, end_offset: int) -> bool:
        """Returns whether an append that ended at `end_offset` may not be acknowledged yet if all replicas are to have it."""
        return self.awaits_flush(end_offset) or (self.on_append is not None and end_offset > self.high_watermark)

    def awaits_flush(self, end_offset: int) -> bool:
        """Returns whether `flush.messages` wants a flush before an append that ended at `end_offset` is acknowledged."""
        return end_offset - self.recovery_point >= self.flush_messages

    def check_usable(self) -> None:
        """Raises StorageError if the log was closed, deleted or set aside, or if its directory is offline.

        A caller that still holds a log that is gone must not touch its files: if they are missing, that would take the directory
        offline, and if they are there after a clean stop, changing them would be worse.
        """
        self.directory.check()
        if self.closed:
            raise StorageError(f"{self.topic}-{self.partition} is closed")
