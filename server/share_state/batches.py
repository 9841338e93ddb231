"""Merges lists of state batches (KIP-932): a state batch is a range of offsets in one delivery state.

Where batches overlap, the later state counts: the higher delivery count, and with equal counts the higher delivery state. So the
order in which they arrived does not matter. Offsets below the start offset are dropped, and neighbours in the same state become
one batch. So any history leads to exactly one list, the same as Kafka's.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final, NamedTuple

NO_OFFSET: Final = -1


class StateBatch(NamedTuple):
    """The offsets `first_offset` to `last_offset`, both included, and their state. Batches compare by offsets, then by state."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int
    """0 is available, 2 acknowledged and 4 archived. 3 is archiving: its dead letters are being written. Acquired (1) is never
    kept."""

    @property
    def lateness(self) -> tuple[int, int]:
        return self.delivery_count, self.delivery_state


def combine(kept: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Merges two lists into one in the order of offsets, without overlaps, from `start_offset` on (NO_OFFSET: everything)."""
    work = [rest for batch in (*kept, *new) if (rest := _cut_below(batch, start_offset)) is not None]
    heapq.heapify(work)
    done: list[StateBatch] = []
    while work:
        batch = heapq.heappop(work)
        if work and work[0].first_offset <= batch.last_offset:
            for piece in _resolve_overlap(batch, heapq.heappop(work)):
                heapq.heappush(work, piece)
        elif done and done[-1].last_offset + 1 == batch.first_offset and done[-1].lateness == batch.lateness:
            done[-1] = done[-1]._replace(last_offset=batch.last_offset)
        else:
            done.append(batch)
    return tuple(done)


def _cut_below(batch: StateBatch, start_offset: int) -> StateBatch | None:
    """Returns the part of the batch from `start_offset` on, or None if there is none."""
    if start_offset == NO_OFFSET or batch.first_offset >= start_offset:
        return batch
    return batch._replace(first_offset=start_offset) if batch.last_offset >= start_offset else None


def _resolve_overlap(first: StateBatch, second: StateBatch) -> Iterable[StateBatch]:
    """Yields batches that do not overlap in place of two that do. `second` must not begin before `first`."""
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
