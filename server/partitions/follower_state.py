"""The state of one follower as its leader knows it, from the follower's fetches alone: how far it has come, and when it was last
level with the leader.

Kafka's `Replica` is the model (`updateFetchStateOrThrow`, `ReplicaState.isCaughtUp`). A follower that fetches without a pause is
never quite at the end of a leader that is written to all the time. So it also counts as caught up, at the time of its previous
fetch, if it has now reached the end that the leader had then.
"""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = -1
"""An offset or a broker epoch of a follower that has not fetched in this leadership."""
NEVER: Final = float("-inf")


class FollowerState:
    """One follower. Times are seconds of the clock's monotonic time."""

    __slots__ = ("_fetched_at", "_leader_end_then", "broker_epoch", "caught_up_at", "end_offset", "log_start_offset")

    def __init__(self, caught_up_at: float = NEVER) -> None:
        """`caught_up_at` is now for a follower that is in sync when the leadership begins: it gets the time of one lag."""
        self.end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch: int | None = None
        """The broker epoch in its last fetch: -1 if a fetch of an old version had none, None before its first fetch."""
        self.caught_up_at = caught_up_at
        self._fetched_at = NEVER
        self._leader_end_then = UNKNOWN

    def note_fetch(self, end_offset: int, log_start_offset: int, broker_epoch: int, now: float, leader_end: int) -> None:
        """Notes a fetch from `end_offset` on, at a time at which the leader's log ended at `leader_end`."""
        if end_offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif end_offset >= self._leader_end_then:
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self.end_offset = end_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._leader_end_then = max(self._leader_end_then, leader_end)
        self._fetched_at = now

    def is_caught_up(self, leader_end: int, now: float, max_lag: float) -> bool:
        """Returns whether it is at the leader's end, or was within the last `max_lag` seconds."""
        return self.end_offset == leader_end or now - self.caught_up_at <= max_lag
