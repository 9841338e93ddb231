"""The ground that tests of every coordinator stand on: a clock that moves only when the test says so, an internal topic in
memory, and the names of a node and a few topics.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from ottla.log.errors import LogError
from ottla.server.base.clock import TURN_NS, Turns
from ottla.server.base.promise import Promise
from ottla.server.coordination.internal_topic import Appended
from ottla.wire.batch import read_header
from ottla.wire.records import decode_records

NODE_ID = 1
TOPICS = {"t": (bytes(15) + b"\x01", 3), "u": (bytes(15) + b"\x02", 1)}


class Handle:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class CoordinatorClock:
    """A clock that starts at a fixed time; `advance` runs whatever comes due on the way, each at its own time."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self.turns = Turns(partial(self.call_later, 0))
        self._order = itertools.count()
        self.armed = 0
        self._timers: list[tuple[float, int, Handle, Callable[[], object]]] = []

    def now_ms(self) -> int:
        return 1_700_000_000_000 + round(self._now * 1000)

    def monotonic(self) -> float:
        return self._now

    def ticks_ns(self) -> int:
        return round(self.monotonic() * 1_000_000_000)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Handle:
        handle = Handle()
        self.armed += callback != self.turns._end_round
        heapq.heappush(self._timers, (self._now + seconds, next(self._order), handle, callback))
        return handle

    def call_pass(self, name: str, seconds: float, callback: Callable[[], object]) -> Handle:
        return self.call_later(seconds, callback)

    def advance(self, seconds: float) -> None:
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, handle, callback = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            if not handle.cancelled:
                callback()
        self._now = until

    def next_round(self) -> None:
        """Runs what is due now, and leaves what that puts off to the round after."""
        due = [timer for timer in self._timers if timer[0] <= self._now]
        self._timers = [timer for timer in self._timers if timer[0] > self._now]
        heapq.heapify(self._timers)
        for _, _, handle, callback in sorted(due, key=lambda timer: timer[:2]):
            if not handle.cancelled:
                callback()

    @property
    def waiting(self) -> int:
        """Returns the number of timers that will run, but for the one that notes the end of a round."""
        return sum(not handle.cancelled and callback != self.turns._end_round for _, _, handle, callback in self._timers)


def slow_ticks() -> Callable[[], int]:
    """Returns the ticks of a clock at which every look ends a turn."""
    looks = itertools.count()
    return lambda: next(looks) * 2 * TURN_NS


@contextmanager
def slow(clock: Any) -> Iterator[None]:
    """Lets every look at the clock end a turn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "ticks_ns", slow_ticks())
        yield


class CoordinatorLog:
    """The partitions of an internal topic in memory. Appends raise `fail` as long as it is set."""

    epoch = 3
    """Of the leader of every partition."""
    in_doubt = False

    def __init__(self, partitions: int = 4) -> None:
        self.batches: list[list[bytes]] = [[] for _ in range(partitions)]
        self.leaders: list[int | None] = [NODE_ID] * partitions
        self.fail: LogError | OSError | None = None

    def partition_count(self) -> int:
        return len(self.batches)

    def leads(self, partition: int) -> bool:
        return partition < len(self.leaders) and self.leaders[partition] == NODE_ID

    def leader_epoch(self, partition: int) -> int:
        return self.epoch

    def append(self, partition: int, batch: bytes) -> Appended:
        if self.fail is not None:
            raise self.fail
        base_offset = self.end_offset(partition)
        self.batches[partition].append(base_offset.to_bytes(8, "big") + batch[8:])
        return base_offset, None

    def end_offset(self, partition: int) -> int:
        return sum(read_header(batch).records_count for batch in self.batches[partition])

    def read(self, partition: int) -> Iterator[bytes]:
        return iter(list(self.batches[partition]))

    def replicated(self, partition: int) -> Promise[None] | None:
        return None

    def records(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for batches in self.batches for batch in batches for record in decode_records(batch)]
