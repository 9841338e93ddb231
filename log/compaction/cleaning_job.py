"""The job that the cleaner is sent, and the results that come back. Both can cross to another process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.log.errors import LogError


class CleaningAborted(LogError):
    """The cleaning was called off, and what it wrote is removed. No client ever sees this."""


class MapTooSmall(LogError):
    """One batch has more keys than the map: the log cannot be cleaned with this `log.cleaner.dedupe.buffer.size`. No client ever
    sees this."""


@dataclass(slots=True)
class CleaningJob:
    """Holds all that a cleaning has to know, as plain numbers and text, so that JSON can carry its `fields`, where tuples become
    lists.

    `segments` are (base offset, bytes) of the segments below `uncleanable_offset`, ascending; below `dirty_offset` they were
    cleaned before. `producers` are (id, last offset or -1, epoch) of the producers that the partition knows; `aborted` is as in
    the transaction index. `map_bytes` bounds the map, `bytes_per_second` bounds reading and writing together, and
    `max_decompressed_batch_bytes` bounds what a batch, or a record of it, decompresses to. `hash_seed` is a random number, a
    new one for each cleaning, by which the map hashes keys (`log.compaction.key_hash`).
    """

    topic: str
    partition: int
    path: str
    segments: list[tuple[int, int]]
    dirty_offset: int
    uncleanable_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    producers: Sequence[Sequence[int]]
    aborted: Sequence[tuple[int, int, int, int]]
    map_bytes: int
    load_factor: float
    buffer_bytes: int
    bytes_per_second: float
    max_decompressed_batch_bytes: int
    hash_seed: int

    def fields(self) -> dict[str, Any]:
        """Returns the fields by name. The values are not copied, because there may be a hundred thousand producers."""
        return {name: getattr(self, name) for name in self.__slots__}


class CleanedGroup(NamedTuple):
    """Names a new segment, whose files end in `.cleaned`, and the base offsets of the segments that it replaces. Once it is in
    its place, the log is clean up to `end_offset`, even if the rest of the cleaning never is."""

    base_offset: int
    size: int
    replaces: list[int]
    end_offset: int


@dataclass(slots=True)
class CleaningStats:
    """Counts what a cleaning did, in bytes and records."""

    end_offset: int = 0
    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keyless_records: int = 0
    map_utilization: float = 0.0
