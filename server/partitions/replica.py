"""One partition on this broker, as the rest of the server sees it: a log, who leads it, and who waits for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.log.errors import CorruptRecord, FencedLeaderEpoch, UnknownLeaderEpoch
from ottla.log.validate import Origin
from ottla.server.metadata.names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from ottla.log.partition import AppendInfo, PartitionLog
    from ottla.server.partitions.traffic import Traffic
    from ottla.wire.primitives import Buffer

logger = logging.getLogger("ottla.server.replicas")

_MAX_DAMAGE_LINES: Final = 10


class Replica:
    """One partition on this broker. `traffic` is shared by all partitions of the topic."""

    __slots__ = ("_damage", "is_leader", "leader", "leader_epoch", "log", "partition", "topic", "topic_id", "traffic", "watchers")

    def __init__(self, topic: str, topic_id: bytes, partition: int, log: PartitionLog, traffic: Traffic) -> None:
        self.traffic = traffic
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.log = log
        log.flush_inline = topic in INTERNAL_TOPICS  # a coordinator's append is not done before it is as durable as is wanted
        self.leader = -1
        self.leader_epoch = -1
        self.is_leader = False
        self.watchers: dict[object, Callable[[], None]] = {}
        """What to call when this partition changes, by owner: once, after which the owner watches again (purgatory.py)."""
        self._damage: tuple[str, ...] = ()

    def append(self, records: Buffer | None, *, origin: Origin = Origin.CLIENT, zstd_allowed: bool = True) -> AppendInfo:
        """Write one batch as the leader and wake who waits. Raises the errors of PartitionLog.append_as_leader."""
        info = self.log.append_as_leader(records, leader_epoch=self.leader_epoch, origin=origin, api_version_zstd_ok=zstd_allowed)
        traffic = self.traffic
        traffic.appends += 1
        traffic.bytes_in += len(records)  # type: ignore[arg-type]  # None would have been refused
        traffic.messages_in += info.last_offset - info.base_offset + 1
        if self.watchers:
            self.wake()
        return info

    def wake(self) -> None:
        """Has every delayed operation that watches checked again: records came, or the partition changed hands."""
        watchers, self.watchers = self.watchers, {}
        for wake in watchers.values():
            wake()

    def tell_damage(self, error: CorruptRecord) -> None:
        """A reader came upon it, and will come again and again: a line in the log for each of the first few places is enough."""
        what = str(error)
        if what not in self._damage and len(self._damage) < _MAX_DAMAGE_LINES:
            self._damage += (what,)
            logger.error("%s-%d is damaged, and whoever reads there is told so: %s", self.topic, self.partition, what)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """The leader epoch a client believes in (-1: it has none). FencedLeaderEpoch, UnknownLeaderEpoch."""
        if current_leader_epoch in (-1, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"epoch {current_leader_epoch} is over, {self.leader_epoch} is current")
        raise UnknownLeaderEpoch(f"epoch {current_leader_epoch} has not begun, {self.leader_epoch} is current")
