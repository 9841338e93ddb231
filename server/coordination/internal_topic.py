"""An internal topic as its coordinators see it: they append to a partition, read one from its start, and ask who leads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.log.errors import CorruptRecord, StorageError
from ottla.log.validate import Origin
from ottla.server.base.damage import way_out
from ottla.server.base.errors import NotEnoughReplicas, NotLeaderOrFollower
from ottla.server.base.promise import Promise
from ottla.wire.batch import read_header

if TYPE_CHECKING:
    from ottla.log.append_info import AppendInfo
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replica import Replica
    from ottla.server.partitions.replicas import Replicas

Appended = tuple[int, Promise[None] | None]
"""An append to an internal topic returns the batch's base offset and a promise that is kept when the high watermark has passed
the batch. The promise is None if it has passed it already, as it always has where the partition has one replica.

The promise fails with an exception that `append_error` (server/base/errors.py) turns into an error code; it is
NotLeaderOrFollower if this broker stops leading the partition first."""


def flush_and_promise(replica: Replica, info: AppendInfo) -> Promise[None] | None:
    """Flushes an append if a flush is due. Returns the promise that is kept when it is replicated, or None if it is already.
    Raises StorageError.
    """
    if not info.waits:
        return None
    from ottla.server.partitions import acknowledging  # hardly ever needed with one replica

    return acknowledging.flush_and_promise(replica, info.last_offset + 1)


class InternalTopicLog:
    """The partitions of one internal topic that this broker holds."""

    def __init__(self, replicas: Replicas, image: MetadataImage, topic: str) -> None:
        self._replicas = replicas
        self._image = image
        self._topic = topic

    @property
    def in_doubt(self) -> bool:
        """Returns whether this broker does not know at the moment what it leads."""
        return self._replicas.in_doubt

    def partition_count(self) -> int:
        """Returns 0 while the topic does not exist."""
        topic = self._image.topics.get(self._topic)
        return len(topic.partitions) if topic is not None else 0

    def leads(self, partition: int) -> bool:
        """Returns whether this broker leads the partition, by the metadata."""
        image = self._image.partition(self._topic, partition)
        return image is not None and image.leader in self._replicas.nodes

    def leader_epoch(self, partition: int) -> int:
        """Returns the partition's leader epoch, or -1 if there is no such partition."""
        image = self._image.partition(self._topic, partition)
        return image.leader_epoch if image is not None else -1

    def append(self, partition: int, batch: bytes) -> Appended:
        """Appends one batch, and flushes it if `flush.messages` makes a flush due.

        Raises NotLeaderOrFollower if another broker leads the partition, NotEnoughReplicas if it would not be replicated now,
        StorageError if this broker does not hold the partition or cannot make the batch durable, and the other errors of the log.
        """
        replica = self._replica(partition)
        if not replica.is_leader:
            raise NotLeaderOrFollower(f"{self._topic}-{partition} is not led from here")
        if replica.under_min_isr:
            raise NotEnoughReplicas(f"fewer replicas of {self._topic}-{partition} are in sync than min.insync.replicas")
        info = replica.append(batch, origin=Origin.COORDINATOR)
        return info.base_offset, flush_and_promise(replica, info)

    def read(self, partition: int) -> Iterator[bytes]:
        """Yields all batches from the partition's start to its end. Raises StorageError if this broker does not hold the
        partition, and CorruptRecord at a batch that is damaged; it says what an operator can do, or what is done.
        """
        replica = self._replica(partition)
        log, batch = replica.log, b""
        start = log.log_start_offset
        try:
            for batch in log.iterate_batches(start):
                yield batch
        except CorruptRecord as error:
            on_damage = self._replicas.on_damage
            sound_to = read_header(batch).next_offset if batch else start
            raise CorruptRecord(f"{error}. {way_out(log.path) if on_damage is None else on_damage(replica, sound_to)}") from error

    def replicated(self, partition: int) -> Promise[None] | None:
        """Returns a promise that is kept when everything that the partition holds now is replicated, or None if it is already.
        It fails as that of an append.

        Raises StorageError if this broker does not hold the partition, NotLeaderOrFollower if another broker leads it.
        """
        replica = self._replica(partition)
        if not replica.is_leader:
            raise NotLeaderOrFollower(f"{self._topic}-{partition} is not led from here")
        end_offset = replica.log.log_end_offset
        if end_offset <= replica.log.high_watermark:
            return None
        from ottla.server.partitions import acknowledging

        return acknowledging.flush_and_promise(replica, end_offset)

    def delete_before(self, partition: int, offset: int) -> None:
        """Deletes the records below `offset`, as DeleteRecords would. Raises StorageError and the other errors of the log."""
        self._replica(partition).delete_records_before(offset)

    def _replica(self, partition: int) -> Replica:
        replica = self._replicas.get(self._topic, partition)
        if replica is None:
            raise StorageError(f"{self._topic}-{partition} is not on this broker")
        return replica
