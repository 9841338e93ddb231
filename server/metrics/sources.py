"""Holds the parts of a running broker that metrics are read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.compaction.cleaner_manager import LogCleanerManager
    from ottla.log.management.manager import LogManager
    from ottla.server.dispatch.measured import RequestMetrics
    from ottla.server.group.shard import GroupShard
    from ottla.server.metadata.cluster import Cluster
    from ottla.server.metrics.loop_lag import LoopLag
    from ottla.server.network.listener import Listener
    from ottla.server.requests.context import BrokerContext


@dataclass(slots=True)
class Sources:
    """Holds the parts of one broker, which sets `serving`: true from the end of its start until it begins to stop."""

    context: BrokerContext
    requests: RequestMetrics
    listeners: Sequence[Listener]
    logs: LogManager
    serving: bool = False
    cleaner: LogCleanerManager | None = None
    """None until there is a compacted log."""
    cluster: Cluster | None = None
    loop_lag: LoopLag | None = None
    """None until the metrics are served."""

    def group_shards(self) -> list[GroupShard]:
        """Returns the shards of groups that are loaded; none if no request has concerned groups yet."""
        groups = self.context.existing_groups
        return [] if groups is None else groups.loaded_shards()
