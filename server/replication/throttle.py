"""Replication quotas (KIP-73): how much of what moves between brokers may go over the network, so that a reassignment leaves room
for clients.

There is one for what this broker sends as a leader (`leader.replication.throttled.rate`) and one for what it fetches as a
follower (`follower.replication.throttled.rate`). Each holds for the partitions that a topic's setting of the same name, with
`.throttled.replicas`, lists: `*` for all, or `<partition>:<broker id>` for single replicas. A replica that is in sync is never
held back. As in Kafka the rate is that of the last `replication.quota.window.num` windows of
`replication.quota.window.size.seconds` each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock

ALL: Final = "*"
UNLIMITED: Final = (1 << 63) - 1
"""The default of the rates: no limit."""


class Throttle:
    """One of the two quotas. `limit` is its rate in bytes per second, which may be assigned at any time."""

    def __init__(self, node_id: int, clock: Clock, windows: int, window_s: float) -> None:
        self.limit = UNLIMITED
        self._node_id = node_id
        self._clock = clock
        self._windows = windows
        self._window_s = window_s
        self._used: deque[tuple[float, int]] = deque()
        """(begin of a window, bytes), oldest first."""
        self._total = 0

    def covers(self, partition: int, replicas: Sequence[str]) -> bool:
        """Returns whether the quota holds for the replica that this broker has of a partition; `replicas` is the topic's list."""
        return bool(replicas) and (ALL in replicas or f"{partition}:{self._node_id}" in replicas)

    def record(self, size: int) -> None:
        """Counts bytes of a replica that the quota holds for."""
        now = self._clock.monotonic()
        if not self._used or now - self._used[-1][0] >= self._window_s:
            self._forget_old(now)
            self._used.append((now, 0))
        begin, used = self._used[-1]
        self._used[-1] = begin, used + size
        self._total += size

    def is_exceeded(self) -> bool:
        """Returns whether more was used, over the windows that count, than the limit allows."""
        now = self._clock.monotonic()
        self._forget_old(now)
        if not self._used:
            return False
        elapsed = max(now - self._used[0][0], self._window_s)
        return self._total / elapsed > self.limit

    def _forget_old(self, now: float) -> None:
        span = self._windows * self._window_s
        while self._used and now - self._used[0][0] >= span:
            self._total -= self._used.popleft()[1]
