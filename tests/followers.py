"""A leader with two pretended followers, to test what replication promises before anything fetches as a follower."""

from __future__ import annotations

from ottla.server.partitions.follower_state import FollowerState
from ottla.server.partitions.high_watermark import HighWatermark
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Leader
from tests.fakes import NODE_ID, MemoryBroker
from tests.log.support import batch

TWO, THREE = 2, 3


class Led:
    """The partition `t-0`, which this broker leads and the brokers 2 and 3 follow, all in sync."""

    def __init__(self, *, flush_messages: int = 2**63 - 1, min_insync_replicas: int = 1) -> None:
        self.broker = MemoryBroker({})
        self.broker.create_topic(
            "t", followers=(TWO, THREE), flush_messages=str(flush_messages), min_insync_replicas=str(min_insync_replicas)
        )
        found = self.broker.replicas.get("t", 0)
        assert found is not None
        self.replica: Replica = found

    @property
    def high_watermark(self) -> HighWatermark:
        assert isinstance(self.replica.role, Leader)
        assert self.replica.role.high_watermark is not None
        return self.replica.role.high_watermark

    @property
    def offset(self) -> int:
        """Returns the high watermark."""
        return self.replica.log.high_watermark

    def append(self, records: int = 1) -> int:
        """Appends a batch and returns its end offset."""
        return self.replica.append(batch(records)).last_offset + 1

    def fetched(self, two: int | None = None, three: int | None = None) -> None:
        """Lets the followers fetch from these offsets on."""
        for follower, end_offset in ((TWO, two), (THREE, three)):
            if end_offset is not None:
                self.high_watermark.on_fetch(follower, end_offset)

    def change_isr(self, *isr: int) -> None:
        self.broker.change_isr("t", (NODE_ID, *isr))


class Keeper:
    """Stands in for the keeper of the in-sync replicas: says what the test says, and notes what it is told."""

    def __init__(self) -> None:
        self.eligible: set[int] = set()
        self.fenced_out: set[int] = set()
        self.considered: list[int] = []
        self.times_replaced = 0

    def is_fenced_out(self, follower: int, broker_epoch: int) -> bool:
        return follower in self.fenced_out

    def consider(self, follower: int, state: FollowerState) -> None:
        self.considered.append(follower)

    def may_join(self, follower: int, state: FollowerState) -> bool:
        return follower in self.eligible

    def replaced(self) -> None:
        self.times_replaced += 1
