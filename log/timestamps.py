"""Finds offsets by time, for ListOffsets (KIP-79, KIP-734).

The time index narrows the search to a segment and an index interval; then batch headers are walked until the greatest timestamp
of one reaches the target, and only that batch is opened, by `wire.kernel`, piece by piece up to the record. All records of a
batch with LogAppendTime count as written at its greatest timestamp.

A batch that decompresses to more than the bounds (it was stored under others, or by Kafka) is opened up to them. If the record
lies beyond, the answer is the batch's first offset, so that who reads from there misses nothing; the log names the batch once.
Who needs the record itself asks for that with `exact`.

**Steps.** Timestamps need not ascend, so a search may walk over all headers of a segment, and open many batches. It is therefore
a generator (`Search`), which pauses after little work, and hands out what takes long by itself: the search in one large batch,
which may run in a thread. Appends, retention and compaction may go on meanwhile. `offset_for_timestamp` and
`max_timestamp_offset` take all steps at once.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from ottla.log.config import MAX_BATCH_BYTES
from ottla.log.disk.files import File
from ottla.log.errors import CorruptRecord, RecordTooLarge, TruncatedSlice
from ottla.log.names import LOG_SUFFIX
from ottla.log.partition import PartitionLog
from ottla.log.scan import Located, walk
from ottla.log.segment import Segment
from ottla.log.time_checks import check_times, position_before
from ottla.log.validate import QUICK_BYTES, QUICK_DECOMPRESSED_BYTES
from ottla.wire import kernel
from ottla.wire.batch import HEADER_SIZE, LOG_APPEND_TIME, read_header
from ottla.wire.compression import PIECE_BYTES, CompressionError, TooLarge
from ottla.wire.record_pieces import record_pieces

_log = logging.getLogger("ottla.log.timestamps")

HEADERS_A_STEP: Final = 256
"""So many batches are passed in one step: with a read for each of them, because they are large, that takes about 2 ms."""
PIECES_A_STEP: Final = QUICK_DECOMPRESSED_BYTES // PIECE_BYTES - 1  # one more is decoded ahead

Bounds = tuple[int, int]
"""The most bytes to which a batch may decompress, and a record of it: LogConfig.decompression_bounds."""


class TimestampOffset(NamedTuple):
    """A record found by time: its timestamp (ms), its offset, and the leader epoch of its batch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(
    log: PartitionLog, target_ms: int, bounds: Bounds | None = None, *, exact: bool = False
) -> TimestampOffset | None:
    """Returns what `search_timestamp` finds, and raises what that raises."""
    return _finish(search_timestamp(log, target_ms, bounds, exact=exact))


def max_timestamp_offset(log: PartitionLog) -> TimestampOffset | None:
    """Returns what `search_max_timestamp` finds, and raises what that raises."""
    return _finish(search_max_timestamp(log))


def search_timestamp(log: PartitionLog, target_ms: int, bounds: Bounds | None = None, *, exact: bool = False) -> Search:
    """Finds the first record from the log's start on whose timestamp is at least `target_ms`; None if there is none.

    It is the first by offset: timestamps need not ascend. `bounds` are those of the topic if they are not given. Raises
    CorruptRecord or StorageError, and with `exact` RecordTooLarge if the record lies beyond the bounds in its batch.
    """
    if bounds is None:
        bounds = log.config.decompression_bounds
    with log.directory.guard(f"reading {log.path}"):
        for segment, least in _segments_from(log, log.log_start_offset):
            yield from _check_times(log, segment)
            if segment.max_timestamp >= target_ms:
                found = yield from _search_segment(log, segment, target_ms, least, bounds, exact)
                if found is not None and found.offset < log.log_start_offset:  # it was deleted meanwhile
                    return (yield from search_timestamp(log, target_ms, bounds, exact=exact))
                if found is not None:
                    return found
            yield None
    return None


def search_max_timestamp(log: PartitionLog) -> Search:
    """Finds the first record with the greatest timestamp of all; None if no record has a timestamp. Raises CorruptRecord or
    StorageError."""
    with log.directory.guard(f"reading {log.path}"):
        while True:
            latest = log.segments.first
            for segment, _ in _segments_from(log, 0):
                yield from _check_times(log, segment)
                if segment.max_timestamp > latest.max_timestamp:  # of equals the first
                    latest = segment
                yield None
            if latest.max_timestamp < 0:
                return None
            if log.segments[log.segments.floor(latest.base_offset)] is latest:  # else it went while this paused
                return (yield from _search_segment(log, latest, latest.max_timestamp, 0, log.config.decompression_bounds, False))


class BatchSearch:
    """The search through one batch. Calling it searches to the end, and may be done in a thread: it reads an open file, and uses
    nothing that changes. Whatever goes wrong is kept for `outcome`.
    """

    __slots__ = ("_batch", "_bounds", "_error", "_file", "_first", "_found", "_header", "_least", "_pieces", "_target_ms", "over")

    def __init__(self, file: File, batch: Located, target_ms: int, start_offset: int, bounds: Bounds) -> None:
        self._file = file
        self._batch = batch
        self._target_ms = target_ms
        self._least = max(start_offset - batch.base_offset, 0)
        self._bounds = bounds
        self._pieces: Iterator[tuple[bytes, int]] | None = None
        self._found: TimestampOffset | None = None
        self._error: CompressionError | OSError | CorruptRecord | None = None
        self.over = False

    def __call__(self) -> None:
        """Searches the rest of the batch."""
        while not self.over:
            self.search(PIECES_A_STEP)

    def search(self, pieces: int) -> None:
        """Searches so many pieces, or fewer if the search is over then."""
        try:
            if self._pieces is None:
                self._open()
            while pieces and not self.over:
                self._search_piece()
                pieces -= 1
        except (CompressionError, CorruptRecord, OSError) as error:
            self._error = error
            self.over = True

    def _open(self) -> None:
        batch = self._batch
        data = self._file.pread(batch.size, batch.position)
        header = self._header = read_header(data)
        whole = header.records_count == header.last_offset_delta + 1  # otherwise compaction has removed some records, or all
        stamped = header.timestamp_type == LOG_APPEND_TIME
        self._first = TimestampOffset(header.max_timestamp, header.base_offset + self._least, header.partition_leader_epoch)
        if stamped:
            self._target_ms = kernel.MIN_INT64  # any record will do that is not before the first offset
        self._pieces = record_pieces(header.codec, memoryview(data)[HEADER_SIZE : header.size], *self._bounds)
        if stamped and whole:
            self._found, self.over = self._first, True

    def _search_piece(self) -> None:
        assert self._pieces is not None
        piece, end = next(self._pieces, (None, 0))
        if piece is None:
            self.over = True
            return
        header = self._header
        delta, timestamp = kernel.first_at_or_after(piece, 0, end, header.base_timestamp, self._target_ms, self._least)
        if delta >= 0:
            found_ms = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else timestamp
            self._found = TimestampOffset(found_ms, header.base_offset + delta, header.partition_leader_epoch)
            self.over = True

    def outcome(self, segment: Segment, exact: bool) -> TimestampOffset | None:
        """Returns what was found. Raises what the module's functions raise, and OSError."""
        error = self._error
        if error is None:
            return self._found
        base_offset = self._batch.base_offset
        if isinstance(error, TooLarge):
            if exact:
                raise RecordTooLarge(f"{segment!r}: the batch of offset {base_offset} is not opened: {error}") from error
            _note_unopened(segment.path(LOG_SUFFIX), base_offset, str(error))
            return self._first
        if isinstance(error, CompressionError):
            raise CorruptRecord(f"{segment!r}: the batch at position {self._batch.position} does not decode: {error}") from error
        raise error


Search = Generator[BatchSearch | None, None, TimestampOffset | None]
"""A search in steps. Who takes them calls each BatchSearch that comes, in a thread or not, before the next step."""


def _finish(search: Search) -> TimestampOffset | None:
    """Takes all steps of a search at once."""
    try:
        while True:
            batch = next(search)
            if batch is not None:
                batch()
    except StopIteration as end:
        found: TimestampOffset | None = end.value
        return found


def _segments_from(log: PartitionLog, offset: int) -> Iterator[tuple[Segment, int]]:
    """Yields the segments from the one that holds `offset` on, each with the first offset that was in none before it.

    While the caller pauses, compaction may replace segments and retention may drop some; each is part of the log when it is
    yielded. Raises StorageError if the log was closed meanwhile.
    """
    segments = log.segments
    while True:
        log.check_usable()
        index = segments.floor(offset)
        following = segments[index + 1].base_offset if index + 1 < len(segments) else -1
        yield segments[index], offset
        if following < 0:
            return
        offset = following


def _check_times(log: PartitionLog, segment: Segment) -> Iterator[None]:
    """Compares with the log, once, the greatest timestamp of a segment. Raises TruncatedSlice if the log is truncated
    meanwhile."""
    cuts = log.cuts
    for _ in check_times(segment):
        yield None
        _check_uncut(log, cuts)
        if segment not in log.segments:  # it was dropped or replaced, and is opened no more
            return


def _search_segment(
    log: PartitionLog, segment: Segment, target_ms: int, start_offset: int, bounds: Bounds, exact: bool
) -> Search:
    """Searches a segment, which is part of the log. Its file is kept open: if the segment is dropped meanwhile, that does not
    matter. Raises TruncatedSlice if the log is truncated meanwhile.
    """
    position = position_before(segment, target_ms, start_offset)
    file, cuts = segment.open_file(), log.cuts
    for passed, batch in enumerate(walk(file, position, segment.size), 1):
        matches = batch.max_timestamp >= target_ms and batch.last_offset >= start_offset
        if matches:
            in_batch = BatchSearch(file, batch, target_ms, start_offset, bounds)
            if batch.size <= QUICK_BYTES:
                in_batch.search(PIECES_A_STEP)
            if not in_batch.over:
                yield in_batch
                _check_uncut(log, cuts)
            found = in_batch.outcome(segment, exact)
            if found is not None:
                return found
        if matches or passed % HEADERS_A_STEP == 0:
            yield None
            _check_uncut(log, cuts)
    return None


def _check_uncut(log: PartitionLog, cuts: int) -> None:
    log.check_usable()
    if log.cuts != cuts:
        raise TruncatedSlice(f"{log!r} was truncated while it was searched")


@lru_cache(maxsize=1000)
def _note_unopened(path: str, base_offset: int, why: str) -> None:
    """Logs once that a look-up ended at the beginning of a batch."""
    _log.warning(
        "%s: looking for a time inside the batch of offset %d was given up, and its first offset is the answer: %s (%s)",
        path,
        base_offset,
        why,
        MAX_BATCH_BYTES,
    )
