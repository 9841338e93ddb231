"""When an append may be acknowledged: flushed as `flush.messages` asks, and, for acks=all, on all in-sync replicas.

`AppendInfo.waits` says whether there is anything to wait for; with one replica and without `flush.messages` there never is, and
this module is not loaded. A Produce waits for flushes that many share (flushing.py) and for the high watermark
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


def when_acknowledged(
    replica: Replica,
    end_offset: int,
    flushing: Callable[[], Flushing],
    acknowledged: OnAcknowledged,
    *,
    by_all: bool,
) -> None:
    """Calls `acknowledged` once, now or later, when everything below `end_offset` is flushed as asked and, with `by_all`, on all
    in-sync replicas. It gets a StorageError if the flush failed and NotLeaderOrFollower if this broker stopped leading first.
    """
    wait = partial(_wait_for_replicas, replica, replica.role, end_offset, acknowledged) if by_all else acknowledged
    if replica.log.awaits_flush(end_offset):
        flushing().when_durable(replica, end_offset, wait)
    else:
        wait(None)


def flush_and_promise(replica: Replica, end_offset: int) -> Promise[None] | None:
    """Flushes here and now if that is due, and promises that everything below `end_offset` is on all in-sync replicas. None where
    it is already. Raises StorageError; the promise fails with NotLeaderOrFollower if this broker stops leading first.
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

    _wait_for_replicas(replica, replica.role, end_offset, acknowledged, None)
    return None if promise.done() else promise


def _wait_for_replicas(
    replica: Replica, role: object, end_offset: int, acknowledged: OnAcknowledged, error: Exception | None
) -> None:
    """After the flush, which failed with `error` if that is not None. `role` is what the replica was when it appended."""
    high_watermark = role.high_watermark if isinstance(role, Leader) else None
    if error is not None or high_watermark is None:
        acknowledged(error)
    elif replica.role is role:
        high_watermark.when_passed(end_offset, acknowledged)
    else:
        acknowledged(NotLeaderOrFollower(f"{replica.topic}-{replica.partition} is not led from here any more"))
