"""One simulated world: a virtual clock, a disk and a network in memory, and the broker that lives and dies on them."""

from __future__ import annotations

import contextvars
from typing import Final

from tests.sim.client import Client
from tests.sim.lives import BrokerLives
from tests.sim.loop import VirtualClock, VirtualLoop
from tests.sim.network import HOST, Port
from tests.sim.stage import Stage

DELIVERY_LIMIT: Final = 5
LOCK_S: Final = 3
"""The time for which a member of a share group holds a record."""
SHARE_SESSION_S: Final = 6
SETTINGS: Final = {
    "node.id": "1",
    "log.dirs": "/data",
    "listeners": f"PLAINTEXT://{HOST}:{Port.NUMBER}",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "num.recovery.threads.per.data.dir": "1",  # no threads, not even when the broker starts or stops
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.cleaner.backoff.ms": "700",
    "log.cleaner.dedupe.buffer.size": "1100000",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.flush.start.offset.checkpoint.interval.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.share.delivery.count.limit": str(DELIVERY_LIMIT),
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_S * 1000),
    "group.share.min.session.timeout.ms": str(SHARE_SESSION_S * 1000),
    "group.share.session.timeout.ms": str(SHARE_SESSION_S * 1000),
    "log.segment.delete.delay.ms": "500",
}


class World(Stage):
    """See the module's docstring. `every_flush`: an append is acknowledged after its fsync, so that not even a power cut may lose
    it.
    """

    def __init__(self, seed: int, loop: VirtualLoop, *, every_flush: bool) -> None:
        super().__init__(seed, loop)
        self.every_flush = every_flush
        settings = SETTINGS | ({"log.flush.interval.messages": "1"} if every_flush else {})
        self.server = BrokerLives(self, settings, self._make_port, loses_power=every_flush)

    def _make_port(self, life: int, context: contextvars.Context) -> Port:
        return Port(self.loop, self.random(f"network {life}" if life else "network"), context)

    @property
    def clock(self) -> VirtualClock:
        return self.server.clock

    def client(self, name: str) -> Client:
        return Client(self.loop, lambda: self.server.port, name)

    def goes_on(self, life: int) -> bool:
        return life == self.lives

    def heal(self) -> None:
        super().heal()
        self.server.heal()
