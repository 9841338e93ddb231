"""Appends to one log that came together and go into its file by one call.

A connection that has read several Produces serves them one after the other, and nothing else happens between them. So an append
may be held (`PartitionLog.append_as_leader` with `hold`): it gets its offsets, and the producer state moves on, but its bytes
wait in a `JoinedWrite` until the connection is through. Before any answer leaves, `write` puts all of them into the file. Eight
calls of 170 bytes are a fifth of the cost of the Produces that bring them; one call is hardly more than one of the eight.

All of them are there or none. If the write fails, the log is what it was before the first of them: the file is cut back, and
offsets and producers are taken back. Nobody has seen them, so the same requests may be served again, one by one, and get the
errors of single appends.

Only what nobody but the connection waits for is held: no append of a partition with followers, none that makes a flush due, and
none that begins a segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from ottla.log.producers import ProducerState, ProducerStates
from ottla.wire.batch import BatchHeader

if TYPE_CHECKING:
    from ottla.log.disk.files import Buffer
    from ottla.log.segment import Segment

MOST_BATCHES: Final = 256
"""So many batches are joined at most."""


class JoinedWrite:
    """Appends that are not in their log's file yet.

    They begin at `start_offset`, where the log ended with that `high_watermark`. `producers` are those of the log, and at most
    `most` batches are joined. `write_joined` is the log's method, which calls `put`, and then `finish` or `take_back`.
    """

    __slots__ = (
        "_batches", "_before", "_is_done", "_most", "_parts", "_producers", "_when_written", "_write_joined", "appends",
        "bytes_in", "error", "high_watermark", "messages_in", "size", "start_offset",
    )  # fmt: skip

    def __init__(
        self, start_offset: int, high_watermark: int, most: int, producers: ProducerStates, write_joined: Callable[[], object]
    ) -> None:
        self.start_offset = start_offset
        self.high_watermark = high_watermark
        self.size: i64 = 0
        """The bytes of all batches."""
        self.appends: i64 = 0
        """The appends that are counted as traffic once they are written, duplicates included; with their `bytes_in`, as clients
        sent them, and `messages_in`."""
        self.bytes_in: i64 = 0
        self.messages_in: i64 = 0
        self.error: Exception | None = None
        """The reason why nothing of it was written."""
        self._most = min(most, MOST_BATCHES)
        self._parts: list[Buffer] = []
        self._batches: list[tuple[int, int, int]] = []  # what Segment.append_run takes
        self._producers = producers
        self._before: dict[int, ProducerState | None] = {}  # the producers before their first append here; None: not known
        self._write_joined = write_joined
        self._when_written: Callable[[JoinedWrite], object] | None = None
        self._is_done = False

    @property
    def is_full(self) -> bool:
        return len(self._batches) >= self._most

    def add(self, header: BatchHeader, parts: list[Buffer], last_offset: int) -> None:
        """Adds a batch, in the parts that `ValidatedBatch.parts` gives, before the producer state notes it."""
        size, producer_id = header.size, int(header.producer_id)
        self.size += size
        self._parts += parts
        self._batches.append((size, last_offset, int(header.max_timestamp)))
        if producer_id >= 0 and producer_id not in self._before:
            state = self._producers.get(producer_id)
            self._before[producer_id] = None if state is None else state.copy()

    def count(self, size: i64, messages: i64, when_written: Callable[[JoinedWrite], object]) -> None:
        """Counts an append with its bytes and messages. `when_written`, the same each time, is called when all appends are in the
        file."""
        self.appends += 1
        self.bytes_in += size
        self.messages_in += messages
        self._when_written = when_written

    def write(self) -> Exception | None:
        """Has all of it written, unless that was done; returns the error if the log has none of it."""
        if not self._is_done:
            self._write_joined()
        return self.error

    def put(self, segment: Segment) -> None:
        """Writes all of it to the active segment. Raises OSError or CorruptRecord, with nothing changed."""
        self._is_done = True
        segment.append_run(self._parts, int(self.size), self._batches)

    def finish(self) -> None:
        """Calls what `count` was given, now that the bytes are in the file."""
        if self._when_written is not None:
            self._when_written(self)

    def take_back(self, error: Exception) -> None:
        """Takes back what the producers did, because nothing could be written."""
        self.error, self._is_done = error, True
        self._producers.take_back(self._before, self.start_offset)
