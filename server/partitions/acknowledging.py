"""Decides when an append may be acknowledged: once it is flushed as `flush.messages` asks and, for acks=all, once it is on all
in-sync replicas.

`AppendInfo.waits` says whether there is anything to wait for; with one replica and without `flush.messages` there never is, and
this module is not loaded. A Produce waits for a flush that it shares with others (flushing.py) and for the high watermark
(high_watermark.py). A coordinator flushes within its append and waits for the high watermark only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.server.base.errors import NotLeaderOrFollower
from ottla.server.base.promise import Promise
from ottla.server.partitions.roles import Leader

if TYPE_CHECKING:
    from ottla.server.partitions.flushing import Flushing
    from ottla.server.partitions.high_watermark import OnAcknowledged
    from ottla.server.partitions.replica import Replica
    from ottla.server.partitions.roles import Role


def when_acknowledged(
    replica: Replica,
    role: Role,
    end_offset: int,
    flushing: Callable[[], Flushing],
    acknowledged: OnAcknowledged,
    *,
    by_all: bool,
    timeout_ms: int | None = None,
) -> None:
    """Calls `acknowledged(None)` once, now or later, when everything below `end_offset` is flushed as asked and, with `by_all`,
    is on all in-sync replicas. `role` is the replica's role at the time of the append: a request that appends in turns may have
    lost the leadership before it asks.

    Calls it with a StorageError instead if the flush fails, with NotLeaderOrFollower if this broker stops leading the partition
    first, with RequestTimedOut if the replicas do not have it `timeout_ms` after the flush, and with NotEnoughReplicasAfterAppend
    if too few are in sync by then.
    """
    wait = partial(_wait_for_replicas, replica, role, end_offset, timeout_ms, acknowledged) if by_all else acknowledged
    if replica.log.awaits_flush(end_offset):
        flushing().when_durable(replica, end_offset, wait)
    else:
        wait(None)


def flush_and_promise(replica: Replica, end_offset: int) -> Promise[None] | None:
    """Flushes at once if a flush is due. Returns a promise that is kept when everything below `end_offset` is on all in-sync
    replicas, or None if it is already. Raises StorageError if the flush fails; the promise fails with NotLeaderOrFollower if this
    broker stops leading the partition first.
    """
    replica.flush_if_due(end_offset)
    promise: Promise[None] = Promise()

    def acknowledged(error: Exception | None) -> None:
        if promise.done():  # cancelled
            return
        if error is None:
            promise.set_result(None)
        else:
            promise.set_exception(error)

    _wait_for_replicas(replica, replica.role, end_offset, None, acknowledged, None)
    return None if promise.done() else promise


def _wait_for_replicas(
    replica: Replica,
    role: Role,
    end_offset: int,
    timeout_ms: int | None,
    acknowledged: OnAcknowledged,
    error: Exception | None,
) -> None:
    """Waits for the in-sync replicas after the flush, which failed if `error` is not None. `role` is the replica's role at the
    time of the append.
    """
    high_watermark = role.high_watermark if isinstance(role, Leader) else None
    if error is not None or high_watermark is None:
        acknowledged(error)
    elif replica.role is role:
        high_watermark.when_passed(end_offset, acknowledged, timeout_ms)
    else:
        acknowledged(NotLeaderOrFollower(f"{replica.topic}-{replica.partition} is no longer led by this broker"))
