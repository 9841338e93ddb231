"""A `ShareFetch` is one ShareFetch request: it decides which partitions to read, when there is enough, and what the member
acquires.

It reads all partitions that have something to acquire, or room for more, from where they stand, each for its part of `max_bytes`.
There is enough when that comes to `min_bytes`, when one of them cannot be read, or when its records are in a segment that does
not grow any more. Otherwise the request waits for its partitions to grow or for records to be available again; when its time is
up it gets what there is. Records are acquired only when they are answered.

A partition that is not available at the beginning is answered with its error at the end, and does not keep the request from
waiting for the others.

All of this is in steps (server/base/turns.py), since a request may be about thousands of partitions. What happens to a partition
between two of them is treated as if it had happened before: a member acquires what is available when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.errors import CorruptRecord, LogError, OffsetOutOfRange
from ottla.server.base.errors import code_of
from ottla.server.base.turns import Steps
from ottla.server.partitions.purgatory import Watchable
from ottla.server.partitions.replica import Replica
from ottla.server.share.acquiring import Acquired, Wanted, acquire
from ottla.server.share.log_reads import LogBatch, aborted_batches, batches_in, cut
from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import SessionKey, TopicIdPartition
from ottla.server.share.share_partition import SharePartition
from ottla.server.share.share_partitions import SharePartitions
from ottla.server.share.states import ACQUIRED
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.log.disk.files import FileSlice
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replicas import Replicas


class Limits(NamedTuple):
    """The limits of a request. Bytes and records are of all partitions together; `strict` is the mode RECORD_LIMIT."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    strict: bool


class Fetched(NamedTuple):
    """The result for one partition: an error, or records and the offsets that were acquired of them."""

    partition: TopicIdPartition
    error: ShareError | None = None
    records: FileSlice | None = None
    acquired: Sequence[Acquired] = ()


class _Source(NamedTuple):
    """A partition that the request fetches from."""

    name: TopicIdPartition
    replica: Replica
    partition: SharePartition


class _Read(NamedTuple):
    source: _Source
    fetch_offset: int
    records: FileSlice | None
    error: LogError | None = None


class ShareFetch:
    """One request. Call `open` before anything else; each `attempt` is one to answer it."""

    __slots__ = ("_failed", "_image", "_key", "_limits", "_replicas", "_shares", "_sources")

    def __init__(
        self, replicas: Replicas, image: MetadataImage, shares: SharePartitions, key: SessionKey, limits: Limits
    ) -> None:
        self._replicas = replicas
        self._image = image
        self._shares = shares
        self._key = key
        self._limits = limits
        self._sources: list[_Source] = []
        self._failed: list[Fetched] = []

    def open(self, partitions: Iterable[TopicIdPartition]) -> Steps[None]:
        """Opens the partitions from which the request fetches."""
        if not (self._limits.max_records and self._limits.max_bytes):
            return
        for name in partitions:
            try:
                self._sources.append(self._open(name))
            except ShareError as error:
                self._failed.append(Fetched(name, error))
            yield None

    @property
    def waits_for_nothing(self) -> bool:
        """Returns whether there is nothing that the fetch could wait for."""
        return not self._sources

    @property
    def watched(self) -> Iterable[Watchable]:
        """Yields what the fetch waits for: records in the log, and records that become available to the group again."""
        for source in self._sources:
            yield source.replica
            yield source.partition

    def _open(self, name: TopicIdPartition) -> _Source:
        replica = self._replicas.get_by_id(*name)
        if replica is None:
            topic = self._image.topics_by_id.get(name[0])
            code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else self._replicas.why_missing(topic.name, name[1])
            raise ShareError(code, None)
        return _Source(name, replica, self._shares.load(self._key.group_id, replica))

    def attempt(self, last: bool) -> Steps[list[Fetched] | None]:
        """Returns the results for the answer, or None if the request should wait. The last attempt always returns results."""
        if not self._sources:
            return self._failed
        reads, is_enough = yield from self._read()
        if not last and not is_enough:
            return None
        left = self._limits.max_records
        fetched = []
        for read in reads:
            result = self._acquire(read, left)
            left -= sum(acquired.size for acquired in result.acquired)
            fetched.append(result)
            yield None
        return fetched + self._failed

    def _is_loaded(self, source: _Source) -> bool:
        """Returns whether the group still has this share partition here."""
        return self._shares.get(self._key.group_id, source.name) is source.partition

    def _ready(self) -> Steps[list[tuple[_Source, int]]]:
        """Finds the partitions from which something can be acquired, with the offset to read; those that have not moved since
        they were last read come first.
        """
        first: list[tuple[_Source, int]] = []
        others: list[tuple[_Source, int]] = []
        for source in self._sources:
            partition = source.partition
            if self._is_loaded(source) and partition.can_acquire():
                offset = partition.next_fetch_offset()
                (first if partition.looked_at == offset else others).append((source, offset))
            yield None
        return first + others

    def _read(self) -> Steps[tuple[list[_Read], bool]]:
        """Reads the partitions; returns what was read, and whether it is worth an answer now."""
        ready = yield from self._ready()
        reads: list[_Read] = []
        found, is_enough = 0, False
        for source, offset in ready:
            log = source.replica.log
            source.partition.looked_at = offset
            limit = min(self._limits.max_bytes // len(ready), max(0, self._limits.max_bytes - found))
            source.replica.traffic.fetches += 1
            try:
                records = log.read(offset, limit, upto=self._upto(source), min_one_batch=not found)
            except LogError as error:
                reads.append(_Read(source, offset, None, error))
                is_enough = True
            else:
                if records is not None:
                    found += len(records)
                    is_enough |= records.file is not log.segments.active.file
                reads.append(_Read(source, offset, records))
            yield None
        return reads, is_enough or (bool(reads) and found >= self._limits.min_bytes)

    def _upto(self, source: _Source) -> int:
        log = source.replica.log
        return log.last_stable_offset if self._read_committed else log.high_watermark

    @property
    def _read_committed(self) -> bool:
        return self._shares.settings(self._key.group_id).read_committed

    def _acquire(self, read: _Read, left: int) -> Fetched:
        source, partition = read.source, read.source.partition
        try:
            if read.error is not None:
                raise read.error
            if read.records is None or not self._is_loaded(source):
                return Fetched(source.name)
            log = source.replica.log
            with log.directory.guard(f"reading {log.path}"):
                limits = self._limits
                batches = batches_in(read.records, partition.end, min(left, partition.settings().max_record_locks))
                wanted = Wanted(self._key.member_id, left, limits.batch_size, limits.strict)
                acquired = acquire(partition, wanted, read.fetch_offset, batches)
                if acquired and self._read_committed:
                    aborted = aborted_batches(log, read.fetch_offset, read.records, batches)
                    acquired = _without_aborted(partition, acquired, aborted)
        except OffsetOutOfRange:
            # The log's start is now beyond where the group stands; the member will fetch again.
            partition.raise_start(source.replica.log.log_start_offset)
            return Fetched(source.name, ShareError(ErrorCode.NONE, NONE_TEXT))
        except LogError as error:
            source.replica.traffic.failed_fetches += 1
            if isinstance(error, CorruptRecord):
                source.replica.log_damage(error)
            return Fetched(source.name, ShareError(code_of(error), None))
        if not acquired:
            return Fetched(source.name)
        records = cut(read.records, batches, acquired[0].first, acquired[-1].last)
        source.replica.traffic.bytes_out += len(records)
        return Fetched(source.name, None, records, acquired)


NONE_TEXT: Final = "NONE"
"""The error message that Kafka sends with error code NONE in this case."""


def _without_aborted(partition: SharePartition, acquired: list[Acquired], aborted: Sequence[LogBatch]) -> list[Acquired]:
    """Removes the records of aborted transactions from what was just acquired, and archives them."""
    for batch in aborted:
        partition.archive(batch.base_offset, batch.last_offset, ACQUIRED)
        left = []
        for offsets in acquired:
            if offsets.last < batch.base_offset or offsets.first > batch.last_offset:
                left.append(offsets)
                continue
            if offsets.first < batch.base_offset:
                left.append(offsets._replace(last=batch.base_offset - 1))
            if offsets.last > batch.last_offset:
                left.append(offsets._replace(first=batch.last_offset + 1))
        acquired = left
    if aborted:
        partition.advance()
    return acquired
