"""`Leading`: the partitions that this broker leads and others follow, in a cluster whose controllers are others.

Each has an `Isr` (isr.py), made when the leadership begins (`keep_isr`, which server/partitions/replica.py calls). A pass every
half of `replica.lag.time.max.ms` looks for followers that have fallen behind: those that no longer fetch say nothing by
themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.server.partitions.roles import Leader
from ottla.server.replication.isr import Isr
from ottla.server.replication.throttle import UNLIMITED, Throttle

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.metadata.isr_changes import IsrChanges
    from ottla.server.partitions.high_watermark import HighWatermark
    from ottla.server.partitions.replica import Replica


class LeadingSettings(NamedTuple):
    """The settings of one broker about the partitions that it leads."""

    max_lag_s: float
    quota_windows: int
    quota_window_s: int

    @classmethod
    def from_broker(cls, values: Mapping[str, Any]) -> LeadingSettings:
        """Reads the broker's settings, given by name."""
        return cls(
            values["replica.lag.time.max.ms"] / 1000,
            values["replication.quota.window.num"],
            values["replication.quota.window.size.seconds"],
        )


class Leading:
    """All partitions led here that have followers."""

    def __init__(self, node_id: int, image: MetadataImage, clock: Clock, changes: IsrChanges, settings: LeadingSettings) -> None:
        self.node_id = node_id
        self.image = image
        self.clock = clock
        self.changes = changes
        self.max_lag = settings.max_lag_s
        self.throttle = Throttle(node_id, clock, settings.quota_windows, settings.quota_window_s)
        """The limit on what may be sent to replicas of `leader.replication.throttled.replicas`."""
        self.expands = 0
        """The number of additions to in-sync replicas that the controllers have accepted."""
        self.shrinks = 0
        """The same of removals."""
        self.failed_updates = 0
        """The number of proposals that they have refused."""
        self._isrs: dict[Replica, Isr] = {}

    def __len__(self) -> int:
        return len(self._isrs)

    @property
    def shrink_interval_ms(self) -> int:
        """Returns how often `shrink_steps` should be run."""
        return max(1, int(self.max_lag * 500))

    def keep_isr(self, replica: Replica, role: Leader, high_watermark: HighWatermark) -> Isr:
        """Returns the keeper of the in-sync replicas of a partition whose leadership begins here."""
        isr = self._isrs[replica] = Isr(replica, role, high_watermark, self)
        return isr

    def shrink_steps(self) -> Iterator[None]:
        """Proposes to take out followers that have fallen behind, partition by partition; others may have a turn between two."""
        for replica, isr in list(self._isrs.items()):
            if isr.is_over:
                if self._isrs.get(replica) is isr:
                    del self._isrs[replica]
            else:
                isr.shrink()
            yield

    # The replication quota

    def holds_back(self, replica: Replica, follower: int) -> bool:
        """Returns whether a follower gets no records of a partition now, because the quota is used up."""
        throttle = self.throttle
        return throttle.limit < UNLIMITED and self._is_throttled(replica, follower) and throttle.is_exceeded()

    def note_sent(self, replica: Replica, follower: int, size: int) -> None:
        """Counts records that a follower gets of a partition."""
        if self.throttle.limit < UNLIMITED and self._is_throttled(replica, follower):
            self.throttle.record(size)

    def _is_throttled(self, replica: Replica, follower: int) -> bool:
        role = replica.role
        high_watermark = role.high_watermark if isinstance(role, Leader) else None
        if high_watermark is None or follower in high_watermark.in_sync:
            return False
        return self.throttle.covers(replica.partition, replica.log.config.leader_replication_throttled_replicas)
