"""Batches of offsets in one delivery state, and how two lists of them become one (KIP-932).

Where batches overlap, the later state counts: the higher delivery count, and with equal counts the higher delivery state. So the
order in which they arrived does not matter. What lies below the start offset is left out, and neighbours in the same state become
one batch, so there is one list for any history, and both brokers answer it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final, NamedTuple

NO_OFFSET: Final = -1


class StateBatch(NamedTuple):
    """Offsets `first_offset`..`last_offset`, both included. Compared by offsets, then by how late the state is."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int
    """0 available, 2 acknowledged, 4 archived. Acquired (1) and archiving (3) are never kept."""

    @property
    def lateness(self) -> tuple[int, int]:
        return self.delivery_count, self.delivery_state


def combine(kept: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """One list in the order of offsets, without overlaps, from `start_offset` on (NO_OFFSET: everything)."""
    work = [batch for each in (*kept, *new) if (batch := _cut(each, start_offset)) is not None]
    heapq.heapify(work)
    done: list[StateBatch] = []
    while work:
        batch = heapq.heappop(work)
        if work and work[0].first_offset <= batch.last_offset:
            for piece in _parted(batch, heapq.heappop(work)):
                heapq.heappush(work, piece)
        elif done and done[-1].last_offset + 1 == batch.first_offset and done[-1].lateness == batch.lateness:
            done[-1] = done[-1]._replace(last_offset=batch.last_offset)
        else:
            done.append(batch)
    return tuple(done)


def _cut(batch: StateBatch, start_offset: int) -> StateBatch | None:
    if start_offset == NO_OFFSET or batch.first_offset >= start_offset:
        return batch
    return batch._replace(first_offset=start_offset) if batch.last_offset >= start_offset else None


def _parted(first: StateBatch, second: StateBatch) -> Iterable[StateBatch]:
    """Two batches that overlap, of which `second` does not begin before `first`, as batches that do not."""
    if first.lateness == second.lateness:
        yield first._replace(last_offset=max(first.last_offset, second.last_offset))
        return
    if second.lateness < first.lateness:
        yield first
        if second.last_offset > first.last_offset:
            yield second._replace(first_offset=first.last_offset + 1)
        return
    if first.first_offset < second.first_offset:
        yield first._replace(last_offset=second.first_offset - 1)
    yield second
    if first.last_offset > second.last_offset:
        yield first._replace(first_offset=second.last_offset + 1)
