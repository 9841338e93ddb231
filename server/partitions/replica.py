"""A `Replica` is one partition on this broker as the rest of the server sees it: its log, its leader, and the requests that wait
for it.

With one replica the high watermark is the log's end and moves with each append. With followers it moves when they fetch
(high_watermark.py). Either way `Replica.wake` lets the waiting fetches be attempted again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.log.errors import CorruptRecord, FencedLeaderEpoch, PolicyViolation, UnknownLeaderEpoch
from ottla.log.validate import Origin, validate_for_append
from ottla.server.base.errors import NotLeaderOrFollower
from ottla.server.partitions.roles import Follower, Leader, Role, leave_to_leader

if TYPE_CHECKING:
    from ottla.log.append_info import AppendInfo
    from ottla.log.config import LogConfig
    from ottla.log.joined_write import JoinedWrite
    from ottla.log.partition import PartitionLog
    from ottla.log.validate import ValidatedBatch
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.image import PartitionImage
    from ottla.server.partitions.high_watermark import HighWatermark, IsrKeeper
    from ottla.server.partitions.traffic import Traffic
    from ottla.wire.primitives import Buffer

logger = logging.getLogger("ottla.server.replicas")

_MAX_DAMAGE_LINES: Final = 10
_NOBODY: Final = -1
HIGH_WATERMARK: Final = -1
"""The offset by which DeleteRecords names the high watermark."""


KeepIsr = Callable[["Replica", "Leader", "HighWatermark"], "IsrKeeper"]
"""A function that is called when this broker begins to lead a partition with followers. It returns who proposes changes of the
in-sync replicas to the controllers (server/replication/leading.py)."""


class Replica:
    """One partition on this broker. `traffic` is shared by all partitions of the topic. `keep_isr` is None where this broker is
    its own controller."""

    __slots__ = (
        "_clock",
        "_damage",
        "_keep_isr",
        "is_leader",
        "leader",
        "leader_epoch",
        "log",
        "partition",
        "role",
        "topic",
        "topic_id",
        "traffic",
        "under_min_isr",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        log: PartitionLog,
        traffic: Traffic,
        clock: Clock,
        keep_isr: KeepIsr | None = None,
    ) -> None:
        self._clock = clock
        self._keep_isr = keep_isr
        self.traffic = traffic
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.log = log
        self.leader = _NOBODY
        self.leader_epoch = -1
        self.is_leader = False
        self.under_min_isr = False
        """True if this broker leads and fewer replicas are in sync than `min.insync.replicas` wants: acks=all is refused then."""
        self.role: Role = None
        """The replica's role (roles.py). `is_leader` repeats it as a plain attribute, for code that asks once a request, and is
        False while this broker is in doubt about what it leads."""
        self.watchers: dict[object, Callable[[], None]] = {}
        """The functions to call when this partition changes, by owner. Each is called once; the owner may then watch again
        (purgatory.py)."""
        self._damage: tuple[str, ...] = ()

    def append(
        self,
        records: Buffer | None,
        *,
        origin: Origin = Origin.CLIENT,
        zstd_allowed: bool = True,
        quickly: bool = False,
        validated: ValidatedBatch | None = None,
        hold: bool = False,
    ) -> AppendInfo:
        """Writes one batch as the leader and wakes the requests that wait for records. Raises the errors of
        PartitionLog.append_as_leader, which says what `quickly`, `validated` and `hold` are. If `AppendInfo.waits` is true, the
        acknowledgement has to wait (acknowledging.py).
        """
        info = self.log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            origin=origin,
            zstd_ok=zstd_allowed,
            quickly=quickly,
            validated=validated,
            hold=hold,
        )
        size = len(records)  # type: ignore[arg-type]  # None would have been refused
        messages = info.last_offset - info.base_offset + 1
        joined = info.joined
        if joined is not None:
            joined.count(size, messages, self._note_written)
            return info
        traffic = self.traffic
        traffic.appends += 1
        traffic.bytes_in += size
        traffic.messages_in += messages
        if self.watchers:
            self.wake()
        return info

    def _note_written(self, joined: JoinedWrite) -> None:
        """Counts the appends that were held, now that they are in the file, and wakes the requests that wait for records."""
        traffic = self.traffic
        traffic.appends += joined.appends
        traffic.bytes_in += joined.bytes_in
        traffic.messages_in += joined.messages_in
        if self.watchers:
            self.wake()

    def validation(self, records: Buffer, *, zstd_allowed: bool) -> Callable[[], ValidatedBatch]:
        """Returns a function that validates a client's batch for `append`, and raises what that raises for a batch that is not
        right. It uses nothing that changes, so it may be called in a thread.
        """
        log = self.log
        return partial(validate_for_append, records, log.rules, log.now_ms(), Origin.CLIENT, zstd_allowed=zstd_allowed)

    def delete_records_before(self, offset: int) -> int:
        """Moves the log's start to `offset`, with HIGH_WATERMARK to the high watermark, and returns the new start. Raises
        PolicyViolation if the topic is only compacted, and the errors of PartitionLog.delete_records_before.
        """
        policy = self.log.config.cleanup_policy
        if "delete" not in policy and "compact" in policy:
            raise PolicyViolation(f"{self.topic} is compacted and does not delete")
        return self.log.delete_records_before(self.log.high_watermark if offset == HIGH_WATERMARK else offset)

    def flush_if_due(self, end_offset: int) -> None:
        """Flushes at once what `flush.messages` wants flushed before an append that ends at `end_offset` is acknowledged.
        Coordinators use this, since they cannot wait for a flush that others share. Raises StorageError.
        """
        if self.log.awaits_flush(end_offset):
            self.log.flush()
            self.wake()

    def wake(self) -> None:
        """Lets every delayed operation that watches be checked again, because records came or the partition changed hands."""
        watchers, self.watchers = self.watchers, {}
        for wake in watchers.values():
            wake()

    def log_damage(self, error: CorruptRecord) -> None:
        """Logs damage that a reader came upon. Readers will come upon it again and again, so each place is logged once, up to a
        small number of places.
        """
        what = str(error)
        if what not in self._damage and len(self._damage) < _MAX_DAMAGE_LINES:
            self._damage += (what,)
            logger.error("%s-%d is damaged; clients that read there get an error: %s", self.topic, self.partition, what)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Checks the leader epoch that a client assumes; -1 means that it knows none. Raises FencedLeaderEpoch if it is older
        than the current one and UnknownLeaderEpoch if it is newer.
        """
        if current_leader_epoch in (-1, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"epoch {current_leader_epoch} is over, {self.leader_epoch} is current")
        raise UnknownLeaderEpoch(f"epoch {current_leader_epoch} has not begun, {self.leader_epoch} is current")

    # Following the metadata

    def take_role(self, image: PartitionImage, nodes: Container[int]) -> None:
        """Takes over what the metadata says about this partition: who leads it, and which replicas are in sync. `nodes` are the
        broker ids that stand for this broker: its own, or several if a test has it simulate a cluster."""
        is_new_epoch = image.leader_epoch != self.leader_epoch
        if self.leader_epoch < 0:
            self.log.settle_high_watermark(alone=len(image.replicas) == 1)
        self.leader, self.leader_epoch = image.leader, image.leader_epoch
        if image.leader in nodes:
            self._lead(image, nodes, is_new_epoch)
        else:
            self._stop_leading(Follower(image.leader) if image.leader != _NOBODY else None)
        self.wake()

    def resign(self) -> None:
        """Gives up any role, because the partition is no longer here: it was deleted or reassigned, or its directory failed."""
        self._stop_leading(None)
        self.wake()

    def _lead(self, image: PartitionImage, nodes: Container[int], is_new_epoch: bool) -> None:
        self.log.begin_epoch(image.leader_epoch)
        followers = [replica for replica in image.replicas if replica not in nodes]
        if not isinstance(self.role, Leader):
            self.role = Leader()
            self._count_followers(self.role, followers, image, self.log.log_end_offset)
        elif self.role.high_watermark is None:
            if followers:  # the log was moving its high watermark itself, with what is flushed as asked
                self._count_followers(self.role, followers, image, self.log.high_watermark)
        else:
            high_watermark = self.role.high_watermark
            high_watermark.change_replicas(followers, image.isr, is_new_epoch=is_new_epoch, epoch=image.partition_epoch)
            if not followers:
                self.role.high_watermark = None
                self.log.replicate_by(None)
        if is_new_epoch:
            self.role.epoch_start = self.log.log_end_offset
        self.is_leader = True

    def _count_followers(self, role: Leader, followers: Sequence[int], image: PartitionImage, flushed_end: int) -> None:
        """Lets the high watermark follow this log alone or, beginning with `flushed_end`, the followers as well."""
        if not followers:
            self.log.replicate_by(None)
            self.log.raise_high_watermark(flushed_end)
            return
        from ottla.server.partitions.high_watermark import HighWatermark  # not needed with one replica

        high_watermark = HighWatermark(self, followers, image.isr, flushed_end, self._clock, image.partition_epoch)
        role.high_watermark = high_watermark
        if self._keep_isr is not None:
            high_watermark.keeper = self._keep_isr(self, role, high_watermark)
        self.log.replicate_by(high_watermark.on_append)
        high_watermark.update()

    def _stop_leading(self, role: Follower | None) -> None:
        """Ends the leadership; `role` is the replica's role from now on. Requests that wait for followers are refused."""
        led, self.role, self.is_leader, self.under_min_isr = self.role, role, False, False
        self.log.replicate_by(leave_to_leader)
        if isinstance(led, Leader) and led.high_watermark is not None:
            led.high_watermark.give_up(NotLeaderOrFollower(f"{self.topic}-{self.partition} is no longer led by this broker"))

    def configure(self, config: LogConfig) -> None:
        """Takes over the changed settings of the topic. A new `min.insync.replicas` may let the high watermark move."""
        self.log.config = config
        if isinstance(self.role, Leader) and self.role.high_watermark is not None:
            self.role.high_watermark.configured()

    def replace_log(self, log: PartitionLog) -> None:
        """Puts `log` in the place of the old one after the partition was moved to another log directory. `log` is the copy, which
        is complete and flushed.
        """
        self.log = log
        if isinstance(self.role, Leader) and self.role.high_watermark is not None:
            self.role.high_watermark.on_append(log.log_end_offset)
            self.role.high_watermark.update()
        self.wake()
