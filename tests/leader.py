"""A leader in a cluster whose controllers are pretended: what it proposes is kept for the test to answer."""

from __future__ import annotations

from typing import Any

from ottla.server.metadata.isr_changes import Answered, IsrChange, IsrOutcome
from ottla.server.partitions.high_watermark import HighWatermark
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Leader
from ottla.server.replication.isr import Isr
from ottla.server.replication.leading import Leading, LeadingSettings
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import NODE_ID, MemoryBroker
from tests.followers import THREE, TWO
from tests.log.support import batch

LAG = 30.0
TOPIC = "t"


class Controllers:
    """Takes proposals, and answers them when the test says so."""

    def __init__(self) -> None:
        self.open: list[tuple[IsrChange, Answered]] = []

    def propose(self, change: IsrChange, answered: Answered) -> None:
        self.open.append((change, answered))

    @property
    def isr(self) -> dict[int, int]:
        """The in-sync replicas of the one open proposal, with their broker epochs."""
        ((change, _),) = self.open
        return dict(change.isr)

    def answer(self, error_code: int = 0) -> None:
        """Writes the oldest open proposal down, or refuses it."""
        change, answered = self.open.pop(0)
        if error_code:
            answered(IsrOutcome(error_code))
        else:
            isr = tuple(broker_id for broker_id, _ in change.isr)
            answered(IsrOutcome(0, change.leader_epoch, change.partition_epoch + 1, isr))


class Cluster:
    """Broker 1 leads `t-0`, and the brokers 2 and 3, which are alive, follow it: `in_sync` says which of them are in sync. Broker
    epochs are broker ids."""

    def __init__(self, *in_sync: int, min_insync_replicas: int = 1) -> None:
        self.broker = MemoryBroker({})
        self.controllers = Controllers()
        settings = LeadingSettings(LAG, 11, 1)
        self.leading = Leading(NODE_ID, self.broker.image, self.broker.clock, self.controllers, settings)
        self.broker.context.leading = self.leading
        self.broker.replicas.keep_isr = self.leading.keep_isr
        for follower in (TWO, THREE):
            self.broker.register_broker(follower, port=9000 + follower)
        self.broker.create_topic(TOPIC, followers=(TWO, THREE), min_insync_replicas=str(min_insync_replicas))
        self.broker.change_isr(TOPIC, (NODE_ID, *in_sync))

    @property
    def replica(self) -> Replica:
        return self.broker.replica(TOPIC)

    @property
    def high_watermark(self) -> HighWatermark:
        assert isinstance(self.replica.role, Leader)
        assert self.replica.role.high_watermark is not None
        return self.replica.role.high_watermark

    @property
    def isr(self) -> Isr:
        assert isinstance(self.high_watermark.keeper, Isr)
        return self.high_watermark.keeper

    def append(self, records: int = 1) -> None:
        self.replica.append(batch(records))

    def fetch(self, follower: int, offset: int, epoch: int | None = None) -> bool:
        return self.high_watermark.on_fetch(follower, offset, 0, follower if epoch is None else epoch)

    def shrink(self) -> None:
        """Runs the pass that looks for followers that have fallen behind."""
        for _ in self.leading.shrink_steps():
            pass

    def advance(self, seconds: float) -> None:
        self.broker.clock.advance(seconds)

    def fence(self, follower: int) -> None:
        self.broker.image.apply(BrokerRegistrationChangeRecord(follower, follower, fenced=1))

    def begin_shutdown(self, follower: int) -> None:
        self.broker.image.apply(BrokerRegistrationChangeRecord(follower, follower, in_controlled_shutdown=1))

    def change(self, **fields: Any) -> None:
        """Applies a change of the partition that the controllers have made."""
        self.broker.image.apply(PartitionChangeRecord(0, self.broker.topic_id(TOPIC), **fields))
