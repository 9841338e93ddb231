"""Gathers the uncompressed records of several batches, to be walked over as one buffer.

Producers' batches are small, 16 KiB by default, and an Arrow batch is a MiB: so their sections are decompressed one behind the
other into memory that is used again and again. If the bytes themselves are not wanted, each batch is walked over by itself
(`unpack`), and the pile only counts. Decompressing a batch by itself and copying it is faster than decompressing it into place,
because it stays in the processor's cache.

For zstd, which Kafka's users choose for storage, all batches share one decoder: a new one for each would take eight times as long
as the decoding. The size of the output is bounded, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import zstandard

from ottla.wire.batch import BatchHeader
from ottla.wire.columns import Columns
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES, NONE, ZSTD, decompress

_FIRST_BYTES: Final = 2 * 1024 * 1024
_FIRST_GUESS: Final = 128 * 1024
_LARGEST_GUESS: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class Job:
    """A batch whose records lie in buffer[start:end]. `position` is where the batch begins in its file."""

    header: BatchHeader
    start: int
    end: int
    position: int


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
        self.rows += job.header.records_count

    def add(self, job: Job, chunk: bytes) -> None:
        """Adds a batch with its bytes, which are at chunk[start:end] as in the file. Raises CompressionError."""
        section = memoryview(chunk)[job.start : job.end]
        data = section if job.header.codec == NONE else self.unpack(job.header.codec, section)
        start, self.size = self.size, self.size + len(data)
        missing = self.size - len(self._memory)
        if missing > 0:
            self._memory.extend(bytes(max(missing, len(self._memory))))
        with memoryview(self._memory) as memory:
            memory[start : self.size] = data
        self.count(Job(job.header, start, self.size, job.position))

    def take(self) -> Found:
        """Returns everything that was gathered, and empties the pile."""
        found = Found(self.jobs, bytes(memoryview(self._memory)[: self.size]), self.columns)
        self.jobs, self.size, self.rows, self.columns = [], 0, 0, Columns()
        return found

    def unpack(self, codec: int, section: memoryview) -> bytes:
        """Returns the decompressed records of one batch. Raises CompressionError.

        zstd is decompressed in one piece if the result is as large as declared, or not much larger than those before.
        """
        if codec != ZSTD:
            return decompress(codec, section, MAX_DECOMPRESSED_BYTES)
        try:
            declared = zstandard.frame_content_size(section)
            if declared <= MAX_DECOMPRESSED_BYTES:
                return self._zstd.decompress(section, max_output_size=self._guess, allow_extra_data=False)
        except zstandard.ZstdError:
            pass  # larger than guessed, several frames, or damaged, which decompressing step by step finds out
        data = decompress(ZSTD, section, MAX_DECOMPRESSED_BYTES)
        self._guess = min(max(self._guess, 2 * len(data)), _LARGEST_GUESS)
        return data
