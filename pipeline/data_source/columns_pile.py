"""Gathers the uncompressed records of several batches, to be walked over as one buffer.

Producers' batches are small, 16 KiB by default, and an Arrow batch is a MiB: so their sections are decompressed one behind the
other into memory that is used again and again. If the bytes themselves are not wanted, each batch is walked over by itself
(`at_once`, `pieces`), and the pile only counts. Decompressing a batch by itself and copying it is faster than decompressing it
into place, because it stays in the processor's cache. A batch of many MiB comes in pieces of whole records, so that no more of it
than about an Arrow batch, or one record, is in memory.

For zstd, which Kafka's users choose for storage, all batches share one decoder: a new one for each would take eight times as long
as the decoding. The size of the output is bounded, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import zstandard

from ottla.wire.batch import BatchHeader
from ottla.wire.columns import Columns
from ottla.wire.compression import ZSTD
from ottla.wire.record_pieces import record_pieces

_FIRST_BYTES: Final = 2 * 1024 * 1024
_FIRST_GUESS: Final = 128 * 1024
_LARGEST_GUESS: Final = 4 * 1024 * 1024
_KEPT_BYTES: Final = 16 * 1024 * 1024


@dataclass(slots=True)
class Job:
    """A batch, or a piece of one, whose records lie in buffer[start:end]; there must be `count` of them. `position` is where the
    batch begins in its file."""

    header: BatchHeader
    start: int
    end: int
    position: int
    count: int


@dataclass(slots=True)
class Found:
    """Some batches, the buffer with their records, and the columns that are known already."""

    jobs: list[Job]
    buffer: bytes
    columns: Columns


@dataclass(slots=True)
class Pile:
    """Gathers batches for one Arrow batch after another. `size` is in bytes."""

    jobs: list[Job] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    columns: Columns = field(default_factory=Columns)
    _memory: bytearray = field(default_factory=lambda: bytearray(_FIRST_BYTES))
    _zstd: zstandard.ZstdDecompressor = field(default_factory=zstandard.ZstdDecompressor)
    _guess: int = _FIRST_GUESS

    def count(self, job: Job) -> None:
        """Adds a batch whose bytes are not needed, because its records are in `columns` already."""
        self.jobs.append(job)
        self.rows += job.count

    def add(self, job: Job, data: bytes | memoryview) -> None:
        """Adds a batch, or a piece of one, with its uncompressed records; the place of the job is where they are put."""
        start, self.size = self.size, self.size + len(data)
        missing = self.size - len(self._memory)
        if missing > 0:
            self._memory.extend(bytes(max(missing, len(self._memory))))
        with memoryview(self._memory) as memory:
            memory[start : self.size] = data
        self.count(Job(job.header, start, self.size, job.position, job.count))

    def take(self) -> Found:
        """Returns everything that was gathered, and empties the pile."""
        found = Found(self.jobs, bytes(memoryview(self._memory)[: self.size]), self.columns)
        self.jobs, self.size, self.rows, self.columns = [], 0, 0, Columns()
        if len(self._memory) > _KEPT_BYTES:  # after a record that was much larger than others
            self._memory = bytearray(_FIRST_BYTES)
        return found

    def at_once(self, codec: int, section: memoryview, max_bytes: int) -> bytes | None:
        """Returns the decompressed records of a batch of zstd if they are as large as declared, or not much larger than those
        before; None if `pieces` must be asked."""
        try:
            if codec != ZSTD or zstandard.frame_content_size(section) > min(_LARGEST_GUESS, max_bytes):
                return None
            most = min(self._guess, max_bytes)
            return self._zstd.decompress(section, max_output_size=most, allow_extra_data=False)
        except zstandard.ZstdError:
            return None  # larger than guessed, several frames, or damaged, which decompressing step by step finds out

    def pieces(self, codec: int, section: memoryview, max_bytes: int) -> Iterator[tuple[bytes, int]]:
        """Yields the decompressed records of a batch in pieces, as wire.record_pieces does. Raises CompressionError, and TooLarge
        for more than `max_bytes`."""
        size = 0
        for piece, end in record_pieces(codec, section, max_bytes, max_bytes):
            size += end
            yield piece, end
        if codec == ZSTD:
            self._guess = min(max(self._guess, 2 * size), _LARGEST_GUESS)
