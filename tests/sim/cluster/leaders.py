"""Looks at what leaders of a simulated cluster do: when their high watermarks move, and when they take records.

under-min-isr     the high watermark has moved while fewer replicas were in sync than min.insync.replicas (KIP-966)
hw-stuck          the high watermark has stayed below what all replicas in sync have, for longer than any rule wants
led-while-fenced  a broker that stood still for longer than its session took a record where another one leads by now

As in Kafka, a broker that is only cut off from the controllers goes on as a leader until it hears that it is not one. One that
stood still knows by its clock that it may have missed something, and promises more (server/quorum/absence.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from compat_tests.anomalies.records import Anomaly
from ottla.server.partitions.roles import Leader
from tests.sim.cluster.world import LAG_S

if TYPE_CHECKING:
    from ottla.server.partitions.high_watermark import HighWatermark
    from ottla.server.partitions.replica import Replica
    from tests.sim.cluster.world import ClusterWorld, Node

STUCK_S: Final = 1.5 * LAG_S + 0.6
"""A follower that is about to join holds the high watermark back for up to `replica.lag.time.max.ms`, and whether it still is
about to is looked at every half of that."""
RETURN_S: Final = 0.1
_LOOKED_AT_S: Final = 0.001


class _Mark(NamedTuple):
    """A high watermark, and the epochs in which it was seen."""

    leader_epoch: int
    partition_epoch: int
    offset: int


class Watermarks:
    """The high watermarks of all leaders. `now` is the clock of the simulation."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last: dict[tuple[int, str], _Mark] = {}
        self._behind_since: dict[tuple[int, str], float] = {}

    def look(self, node: Node, replica: Replica, watermark: HighWatermark) -> Iterator[Anomaly]:
        """Yields what is wrong with the high watermark of a partition that a node leads."""
        key = f"{replica.topic}-{replica.partition}"
        place, wanted = (node.life, key), watermark.min_in_sync
        mark = _Mark(replica.leader_epoch, watermark.partition_epoch, replica.log.high_watermark)
        last, self._last[place] = self._last.get(place), mark
        if last is not None and last[:2] == mark[:2] and mark.offset > last.offset and len(watermark.in_sync) < wanted:
            what = f"{node.host} moved it from {last.offset} to {mark.offset} with {sorted(watermark.in_sync)} in sync"
            yield Anomaly("under-min-isr", key, what)
        counted = [watermark.followers[each].end_offset for each in watermark._counted if each in watermark.followers]
        replicated = min([replica.log.log_end_offset, *counted])
        if mark.offset >= replicated or len(watermark.in_sync) < wanted or node.is_paused:
            self._behind_since.pop(place, None)
            return
        since = self._behind_since.setdefault(place, self._now())
        if self._now() - since > STUCK_S:
            what = f"{node.host} leaves it at {mark.offset}; {sorted(watermark._counted)} have {replicated} since {since:.2f}"
            yield Anomaly("hw-stuck", key, what)


async def watch_return(world: ClusterWorld, node: Node, note: Callable[[str, str, str], object]) -> None:
    """Looks at a node that begins to run again now, until it must know what has happened since."""
    life, partitions = node.life, world.quorum.controller.partitions
    ends = {}
    for replica in node.replicas():
        state = partitions[replica.topic_id, replica.partition]
        if isinstance(replica.role, Leader) and replica.leader_epoch < state.leader_epoch:
            ends[replica] = replica.log.log_end_offset, replica.leader_epoch
    until = world.loop.time() + RETURN_S
    while ends and node.life == life and world.loop.time() < until:
        for replica, (end, epoch) in list(ends.items()):
            if replica.leader_epoch != epoch:
                del ends[replica]
            elif replica.log.log_end_offset > end:
                key = f"{replica.topic}-{replica.partition}"
                what = f"{node.host} wrote {end} to {replica.log.log_end_offset} in epoch {epoch}, which is over"
                note("led-while-fenced", key, what)
        await asyncio.sleep(_LOOKED_AT_S)
