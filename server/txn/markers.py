"""Writes transaction markers to the partitions of this broker.

A marker is a control batch that ends a producer's transaction in one partition. The coordinator of a transaction has one written
to each of the transaction's partitions: by this module if the partition is on this broker, and by a WriteTxnMarkers request,
which ends here too, if it is on another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.log.errors import LogError, StorageError
from ottla.log.transactions import append_marker
from ottla.server.base.answers import map_answer, recover_answer
from ottla.server.base.errors import NotLeaderOrFollower, code_of
from ottla.server.base.promise import Promise
from ottla.server.coordination.internal_topic import flush_and_promise
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.server.txn.shard import Marker
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.log.append_info import AppendInfo
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replica import Replica
    from ottla.server.partitions.replicas import Replicas


class TransactionalOffsets(Protocol):
    """The part of the group coordinator that markers need: it keeps the offsets that are committed in transactions."""

    def is_loaded(self, partition: int) -> bool:
        """Returns whether this partition of `__consumer_offsets` is loaded."""
        ...

    def transaction_ended(
        self, partition: int, producer_id: int, *, committed: bool, replicated: Promise[None] | None = None
    ) -> None:
        """Ends a transaction after its marker was appended to a loaded partition: its offsets count from now on, or are
        dropped. Answers about them wait for `replicated`, the promise of the marker's append if it is not replicated yet.
        """
        ...


class Written(NamedTuple):
    """The outcome of writing a marker. `replica` and `info` are set if it was written."""

    code: ErrorCode
    replica: Replica | None = None
    info: AppendInfo | None = None


def write_marker(replicas: Replicas, offsets: TransactionalOffsets, topic: str, partition: int, marker: Marker) -> Written:
    """Ends a producer's transaction in a partition of this broker, and, if it is one of `__consumer_offsets`, tells its groups.

    The code is UNKNOWN_TOPIC_OR_PARTITION if the partition is not on this broker, NOT_LEADER_OR_FOLLOWER if this broker does not
    lead it or while the groups of the partition are loading, and otherwise the code of the error that the log raised.
    """
    replica = replicas.get(topic, partition)
    if replica is None:
        return Written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    has_groups = topic == CONSUMER_OFFSETS
    if not replica.is_leader or (has_groups and not offsets.is_loaded(partition)):
        return Written(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    try:
        info = append_marker(
            replica.log,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
            leader_epoch=replica.leader_epoch,
            transaction_version=marker.transaction_version,
        )
    except LogError as error:
        return Written(code_of(error))
    replica.wake()
    if has_groups:
        try:
            replicated = flush_and_promise(replica, info)
        except StorageError as error:
            return Written(code_of(error))
        offsets.transaction_ended(partition, marker.producer_id, committed=marker.committed, replicated=replicated)
    return Written(ErrorCode.NONE, replica, info)


class LocalMarkerWriter:
    """Writes the coordinator's markers to the partitions of this broker; it is a `MarkerWriter` (server/txn/shard.py).

    No transaction is complete before its markers are as durable as `flush.messages` requires and on all in-sync replicas.
    """

    def __init__(self, replicas: Replicas, image: MetadataImage, offsets: TransactionalOffsets) -> None:
        self._replicas = replicas
        self._image = image
        self._offsets = offsets

    def __call__(self, topic: str, partition: int, marker: Marker) -> ErrorCode | Promise[ErrorCode]:
        code, replica, info = write_marker(self._replicas, self._offsets, topic, partition, marker)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._image.partition(topic, partition) is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR  # the partition is on this broker, but offline
        if info is None:
            return code
        assert replica is not None
        try:
            replicated = flush_and_promise(replica, info)
        except StorageError as error:
            return code_of(error)
        written = map_answer(replicated, lambda _: ErrorCode.NONE)
        return recover_answer(written, (LogError, NotLeaderOrFollower), code_of)
