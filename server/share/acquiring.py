"""Decides which of the offsets that were read from the log a member acquires (KIP-932).

A member acquires whole batches of the log, several of them as one as long as they stay below its batch size, so that it can
acknowledge many records with few batches. A request's limit of records is therefore soft: the batch that crosses it is acquired
whole. Only the mode `RECORD_LIMIT` (KIP-1206) enforces it, and leaves the rest of that batch to the next fetch.

Records that were acquired before and are available again come in the same batches as before. Records that were delivered often
come in ever smaller portions, and finally one by one before they are given up, so that a record that makes its consumers fail is
isolated and does not take its neighbours with it. From half of the delivery limit on (and never before the third delivery) a
portion is half the batch, then a quarter, and so on; the last delivery is of a single record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.server.share.log_reads import LogBatch
from ottla.server.share.share_partition import SharePartition
from ottla.server.share.states import ACQUIRED, AVAILABLE, InFlightBatch, Run

RECORD_LIMIT: Final = 1

MIN_DELIVERIES_BEFORE_THROTTLING: Final = 2


class Acquired(NamedTuple):
    """Offsets that a member has just acquired, both ends included."""

    first: int
    last: int
    delivery_count: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Wanted(NamedTuple):
    """A member's request. `max_records` is what is left of its limit."""

    member_id: str
    max_records: int
    batch_size: int
    strict: bool
    """True if the mode is RECORD_LIMIT."""


def acquire(partition: SharePartition, wanted: Wanted, fetch_offset: int, read: Sequence[LogBatch]) -> list[Acquired]:
    """Lets the member acquire what it may of the batches that were `read` from the log for `fetch_offset`. Returns the
    offsets.
    """
    if wanted.max_records <= 0 or not read or read[-1].last_offset < partition.start:
        return []
    return _Acquisition(partition, wanted, fetch_offset, read).run()


class _Acquisition:
    __slots__ = ("_acquired", "_count", "_deadline", "_fetch_offset", "_last", "_limit", "_partition", "_read", "_wanted")

    def __init__(self, partition: SharePartition, wanted: Wanted, fetch_offset: int, read: Sequence[LogBatch]) -> None:
        self._partition = partition
        self._wanted = wanted
        self._fetch_offset = fetch_offset
        self._read = read
        self._acquired: list[Acquired] = []
        self._count = 0
        self._deadline: float | None = None
        room = partition.settings().max_record_locks - partition.in_flight
        self._last = read[-1].last_offset
        self._limit = min(wanted.max_records, room)
        if self._limit <= 0 and fetch_offset <= partition.end:  # no room, but records in between are available again
            self._limit = min(wanted.max_records, partition.end - fetch_offset + 1)
            self._last = min(self._last, partition.end)

    def run(self) -> list[Acquired]:
        partition = self._partition
        if self._limit <= 0:
            return []
        base = self._read[0].base_offset
        if self._fetch_offset < base:  # the records between were compacted away
            partition.archive(self._fetch_offset, base - 1, AVAILABLE)
        index = partition.floor(base)
        first = base
        if index < 0:
            first = max(base, partition.start)
        elif partition.batches[index].last >= base:
            first = partition.batches[index].first
        known = partition.from_to(partition.floor(min(base, first) - 1) + 1, self._last)
        if not known:
            self._acquire_new(first, self._last)
            return self._acquired
        more = self._acquire_known(known, first, base)
        if more and known[-1].last < self._last:
            self._acquire_new(known[-1].last + 1, self._last)
        if more and self._left() > 0:
            partition.look_past_gap(self._last + 1)
        elif self._acquired:
            partition.look_past_gap(self._acquired[-1].last + 1)
        return self._acquired

    def _left(self) -> int:
        return self._limit - self._count

    def _give(self, first: int, last: int, delivery_count: int) -> None:
        self._acquired.append(Acquired(first, last, delivery_count))
        self._count += last - first + 1

    def _held(self, first: int, last: int, delivery_count: int) -> Run:
        if self._deadline is None:
            self._deadline = self._partition.lock()
        return Run(first, last, ACQUIRED, delivery_count, self._wanted.member_id, self._deadline)

    # Offsets that were acquired before

    def _acquire_known(self, known: list[InFlightBatch], first: int, base: int) -> bool:
        """Acquires what is available in batches that were acquired before. Returns whether the member may acquire more."""
        partition, settings = self._partition, self._partition.settings()
        threshold = throttling_threshold(settings.delivery_count_limit)
        for batch in known:
            if self._left() <= 0:
                return False
            if partition.gaps_unknown:
                if first < batch.first:
                    self._acquire_new(first, batch.first - 1)
                first = batch.last + 1
                if self._left() <= 0:
                    return False
            available = [run for run in batch.overlapping(base, self._last) if run.state is AVAILABLE]
            throttled = any(run.delivery_count >= threshold for run in available)
            if throttled and self._count:
                return False  # the next fetch gets it, alone
            too_large = self._wanted.strict and len(batch) > self._left()
            if batch.within(base, self._last) and not (batch.by_offset or too_large or throttled):
                if available:
                    run = batch.whole
                    batch.put(self._held(run.first, run.last, run.delivery_count + 1))
                    self._give(run.first, run.last, run.delivery_count + 1)
                continue
            if available:
                batch.by_offset = True
                if self._acquire_some(batch, available) and throttled:
                    return False
        return self._left() > 0

    def _acquire_some(self, batch: InFlightBatch, available: list[Run]) -> int:
        """Acquires records of a batch that is treated record by record. Returns how many."""
        limit = self._partition.settings().delivery_count_limit
        threshold = throttling_threshold(limit)
        most = self._left() if self._wanted.strict else len(batch)
        portion: int | None = None
        given: list[Acquired] = []
        count = 0
        for run in available:
            last_try = limit > MIN_DELIVERIES_BEFORE_THROTTLING and run.delivery_count == limit - 1
            if last_try and count:
                break
            if portion is None and run.delivery_count >= threshold:
                portion = max(1, len(batch) >> (run.delivery_count - threshold + 1))
            size = min(run.last - run.first + 1, most - count)
            if last_try:
                size = 1
            elif portion is not None and count < portion:
                size = min(size, portion - count)
            held = self._held(run.first, run.first + size - 1, run.delivery_count + 1)
            batch.put(held)
            if given and given[-1].last + 1 == held.first and given[-1].delivery_count == held.delivery_count:
                given[-1] = given[-1]._replace(last=held.last)
            else:
                given.append(Acquired(held.first, held.last, held.delivery_count))
            count += size
            if last_try or count in (most, portion):
                break
        self._acquired += given
        self._count += count
        return count

    # New offsets

    def _acquire_new(self, first: int, last: int) -> None:
        partition, most = self._partition, self._left()
        if not partition.batches:
            first = max(first, partition.end)
        if most < last - first + 1:
            whole = self._end_of_batch(first + most - 1)
            last = min(whole, last) if partition.gaps_unknown else whole
        if last < first:
            return
        if self._wanted.strict and last - first + 1 > most:
            held = self._held(first, first + most - 1, 1)
            partition.add(InFlightBatch([held, Run(held.last + 1, last, AVAILABLE, 0)], by_offset=True))
            partition.find_next = True
            self._give(held.first, held.last, 1)
        else:
            for start, end in self._portions(first, last):
                partition.add(InFlightBatch([self._held(start, end, 1)]))
                self._give(start, end, 1)
        if partition.batches[0].first == first:
            partition.start = first
        partition.end = max(partition.end, last)
        partition.look_past_gap(self._acquired[-1].last + 1)

    def _end_of_batch(self, offset: int) -> int:
        """Returns the last offset of the log's batch that contains the offset, or the offset itself if none does."""
        for batch in self._read:
            if batch.last_offset >= offset:
                return batch.last_offset if batch.base_offset <= offset else offset
        return offset

    def _portions(self, first: int, last: int) -> list[tuple[int, int]]:
        """Returns the offsets, split between batches of the log wherever the member's batch size is reached."""
        size = self._wanted.batch_size
        portions = []
        if not self._wanted.strict and last - first + 1 > size:
            for batch in self._read:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= max(1, size):
                    portions.append((first, batch.base_offset - 1))
                    first = batch.base_offset
        portions.append((first, last))
        return portions


def throttling_threshold(delivery_count_limit: int) -> int:
    """Returns the number of deliveries from which on a record comes in smaller portions."""
    return max(MIN_DELIVERIES_BEFORE_THROTTLING, (delivery_count_limit + 1) // 2)
