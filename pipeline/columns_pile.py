"""Where the records of several batches come together uncompressed, to be walked over as one buffer.

Batches of producers are small, 16 KiB by default, and an Arrow batch is some MiB: their sections are decompressed one behind the
other into memory that is used again and again. For zstd, which Kafka's users choose for storage, that goes straight into place,
with one decoder for all: a new one for each batch costs eight times the decoding. What may come out is bounded as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import zstandard

from ottla.wire.batch import BatchHeader
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES, NONE, ZSTD, CompressionError, decompress

_FIRST_BYTES: Final = 8 * 1024 * 1024
_LEAST_ROOM: Final = 1024 * 1024


@dataclass(slots=True)
class Job:
    """A batch whose records lie in buffer[start:end]; end < 0: they were not decompressed, and are as the header says.

    `position`: where the batch begins in its file.
    """

    header: BatchHeader
    start: int
    end: int
    position: int


@dataclass(slots=True)
class Found:
    """Batches and the buffer that holds their records."""

    jobs: list[Job]
    buffer: bytes


@dataclass(slots=True)
class Pile:
    """Batches for one Arrow batch after another. `size` in bytes."""

    jobs: list[Job] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    _memory: bytearray = field(default_factory=lambda: bytearray(_FIRST_BYTES))
    _zstd: zstandard.ZstdDecompressor = field(default_factory=zstandard.ZstdDecompressor)

    def announce(self, header: BatchHeader, position: int) -> None:
        """A batch of which the header tells enough."""
        self.jobs.append(Job(header, 0, -1, position))
        self.rows += header.records_count

    def add(self, header: BatchHeader, section: memoryview, position: int) -> None:
        """A batch with its records as they are in the file. CompressionError."""
        start = self.size
        if header.codec == ZSTD:
            self._inflate(section)
        else:
            data = section if header.codec == NONE else decompress(header.codec, section, MAX_DECOMPRESSED_BYTES)
            self._make_room(len(data))
            self._memory[start : start + len(data)] = data
            self.size += len(data)
        self.jobs.append(Job(header, start, self.size, position))
        self.rows += header.records_count

    def take(self) -> Found:
        """Everything so far; the pile is empty then."""
        found = Found(self.jobs, bytes(memoryview(self._memory)[: self.size]))
        self.jobs, self.size, self.rows = [], 0, 0
        return found

    def _inflate(self, section: memoryview) -> None:
        """A stream that is cut short shows as too few records."""
        start = self.size
        with self._zstd.stream_reader(section, read_across_frames=True) as reader:
            while True:
                self._make_room(_LEAST_ROOM)
                with memoryview(self._memory) as memory, memory[self.size :] as room:
                    try:
                        count = reader.readinto(room)
                    except zstandard.ZstdError as error:
                        raise CompressionError(f"zstd: {error}") from None
                self.size += count
                if self.size - start > MAX_DECOMPRESSED_BYTES:
                    raise CompressionError(f"more than {MAX_DECOMPRESSED_BYTES} bytes come out")
                if count == 0:
                    return

    def _make_room(self, count: int) -> None:
        missing = self.size + count - len(self._memory)
        if missing > 0:
            self._memory.extend(bytes(max(missing, len(self._memory))))
