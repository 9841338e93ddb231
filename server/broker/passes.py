"""Schedules the recurring work of a broker: which pass runs how often. server/base/scheduler.py runs them.

The passes for transactions, share state and the cleaner do nothing as long as these are not loaded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.log.disk.checkpoint import HIGH_WATERMARKS
from ottla.log.management.passes import delete_steps, expiration_steps, retention_steps
from ottla.server.base.scheduler import flush_in_threads

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk
    from ottla.log.management.manager import LogManager
    from ottla.server.base.scheduler import Scheduler
    from ottla.server.metadata.cluster import Pass
    from ottla.server.metrics.sources import Sources
    from ottla.server.partitions.cleaning import LogCleaner
    from ottla.server.requests.context import BrokerContext

FLUSH_PASS_INTERVAL_MS: Final = 1_000
"""The longest time between two looks for flushes that are due because of a roll or flush.ms."""
DELETE_PASS_INTERVAL_MS: Final = 1_000
"""The time between two looks for files that are past their file.delete.delay.ms."""
REMOVED_PASS_INTERVAL_MS: Final = 5_000
"""The time between two looks for partitions whose directory somebody has removed. A look lists the log directories, and takes
about a microsecond a partition."""
EXPIRE_TRANSACTIONAL_IDS: Final = "transaction.remove.expired.transaction.cleanup.interval.ms"


def schedule_passes(
    scheduler: Scheduler, context: BrokerContext, logs: LogManager, compaction: Compaction, of_cluster: Iterable[Pass] = ()
) -> None:
    """Gives the scheduler all passes, and those that the cluster asks for."""
    values, settings, clock = context.config.values, context.settings, context.clock

    def now(action: Callable[[int], object]) -> Callable[[], object]:
        return lambda: action(clock.now_ms())

    def in_slices(steps: Callable[[LogManager, int], Iterator[None]]) -> Callable[[], object]:
        return now(lambda ms: scheduler.in_slices(steps(logs, ms)))

    every, coordinators = scheduler.every, CoordinatorPasses(context)
    every("retention", values["log.retention.check.interval.ms"], in_slices(retention_steps))
    flush_interval_ms = min(values["log.flush.scheduler.interval.ms"], FLUSH_PASS_INTERVAL_MS)
    every("flush", flush_interval_ms, now(lambda ms: flush_in_threads(scheduler, logs, ms)))
    every("checkpoint", values["log.flush.offset.checkpoint.interval.ms"], lambda: scheduler.in_slices(logs.checkpoint_steps()))
    every("delete", DELETE_PASS_INTERVAL_MS, in_slices(delete_steps))
    every("removed directories", REMOVED_PASS_INTERVAL_MS, lambda: scheduler.in_slices(context.replicas.drop_removed()))
    every("producer expiration", values["producer.id.expiration.check.interval.ms"], in_slices(expiration_steps))
    if values["log.cleaner.enable"]:
        every("cleaner", lambda: settings["log.cleaner.backoff.ms"], compaction.run_pass)
    every("offset expiration", values["offsets.retention.check.interval.ms"], coordinators.expire_offsets)
    abort_interval_ms = values["transaction.abort.timed.out.transaction.cleanup.interval.ms"]
    every("transaction timeout", abort_interval_ms, coordinators.abort_overdue)
    every("transactional id expiration", values[EXPIRE_TRANSACTIONAL_IDS], coordinators.expire_transactional_ids)
    snapshot_interval_ms = values["share.coordinator.cold.partition.snapshot.interval.ms"]
    if context.leading is not None:
        leading = context.leading
        every("in-sync replicas", leading.shrink_interval_ms, lambda: scheduler.in_slices(leading.shrink_steps()))
    every("cold share partitions", snapshot_interval_ms, coordinators.snapshot_cold)
    every("share state pruning", values["share.coordinator.state.topic.prune.interval.ms"], coordinators.prune_share_state)
    if context.fetchers is not None:
        interval_ms = values["replica.high.watermark.checkpoint.interval.ms"]
        every("high watermark checkpoint", interval_ms, lambda: scheduler.in_slices(logs.checkpoint_steps([HIGH_WATERMARKS])))
    for each in of_cluster:
        every(each.name, each.interval_ms, each.action)


class CoordinatorPasses:
    """Runs the passes of coordinators that may not be loaded."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def expire_offsets(self) -> None:
        if self._context.existing_groups is not None:
            self._context.existing_groups.expire()

    def abort_overdue(self) -> Awaitable[None] | None:
        transactions = self._context.existing_transaction_coordinator
        return transactions.abort_overdue() if transactions is not None else None

    def expire_transactional_ids(self) -> None:
        if self._context.existing_transaction_coordinator is not None:
            self._context.existing_transaction_coordinator.expire()

    def snapshot_cold(self) -> None:
        if self._context.existing_share_coordinator is not None:
            self._context.existing_share_coordinator.snapshot_cold()

    def prune_share_state(self) -> None:
        if self._context.existing_share_coordinator is not None:
            self._context.existing_share_coordinator.prune()


class Compaction:
    """Runs the cleaner's pass. Nothing of the cleaner is loaded as long as there is no compacted topic."""

    def __init__(self, context: BrokerContext, logs: LogManager, disk: Disk, sources: Sources | None) -> None:
        self._context = context
        self._logs = logs
        self._disk = disk
        self._sources = sources
        self._cleaner: LogCleaner | None = None

    def run_pass(self) -> Awaitable[None] | None:
        """Compacts the logs that need it. Returns None while there is nothing to compact."""
        if self._cleaner is None:
            if not any("compact" in log.config.cleanup_policy for log in self._logs.logs.values()):
                return None
            from ottla.server.partitions.cleaning import LogCleaner

            settings = self._context.settings
            self._cleaner = LogCleaner(self._logs, self._disk, self._context.clock, self._context.random, lambda: settings.values)
            if self._sources is not None:
                self._sources.cleaner = self._cleaner.manager
        return self._cleaner.run_pass()

    def stop(self) -> None:
        """Stops the cleaning that is in progress."""
        if self._cleaner is not None:
            self._cleaner.stop()
