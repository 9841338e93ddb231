"""Transactions on this broker: the coordinator over its internal topic, markers in its partitions, and who may produce.

What server/txn/ decides meets the partitions here. The only broker of its cluster brings markers to itself; where there are
others, theirs go by WriteTxnMarkers, and this module is the place to send it from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.log.errors import LogError, StorageError
from ottla.log.transactions import append_marker
from ottla.server.base.errors import code_of
from ottla.server.coordination.internal_topic import InternalTopicLog
from ottla.server.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.server.partitions.replica import Replica
from ottla.server.txn.coordinator import TransactionCoordinator, TransactionSettings
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.shard import Marker
from ottla.server.txn.state import TopicPartition
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.log.partition import AppendInfo
    from ottla.server.requests.context import BrokerContext

TRANSACTION_VERSION = "transaction.version"


class Written(NamedTuple):
    """What became of a marker. `replica` and `info` where it was written."""

    code: ErrorCode
    replica: Replica | None = None
    info: AppendInfo | None = None


def write_marker(broker: BrokerContext, topic: str, partition: int, marker: Marker) -> Written:
    """Ends a producer's transaction in a partition of this broker; in `__consumer_offsets` also what it committed.

    UNKNOWN_TOPIC_OR_PARTITION: it is not here. NOT_LEADER_OR_FOLLOWER, also while the groups of a partition are loading. Else the
    codes of what the log raises.
    """
    replica = broker.replicas.get(topic, partition)
    if replica is None:
        return Written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    has_groups = topic == CONSUMER_OFFSETS
    if not replica.is_leader or (has_groups and not broker.groups.is_loaded(partition)):
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
        broker.groups.transaction_ended(partition, marker.producer_id, committed=marker.committed)
    return Written(ErrorCode.NONE, replica, info)


def bring_marker(broker: BrokerContext, topic: str, partition: int, marker: Marker) -> ErrorCode:
    """`write_marker` as the coordinator needs it (server/txn/shard.py): no transaction is complete before its markers are as
    durable as `flush.messages` wants them.
    """
    code, replica, info = write_marker(broker, topic, partition, marker)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and broker.metadata.partition(topic, partition) is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR  # it is ours, and not to be had now
    if info is not None and info.waits:
        assert replica is not None
        try:
            replica.log.flush()
        except StorageError as error:
            return code_of(error)
        replica.wake()
    return code


def open_coordinator(broker: BrokerContext) -> TransactionCoordinator:
    """The coordinator, which loads a partition of `__transaction_state` when it is asked for, or by `refresh`."""
    values = broker.config.values
    return TransactionCoordinator(
        InternalTopicLog(broker.replicas, broker.metadata, TRANSACTION_STATE),
        broker.clock,
        TransactionSettings(values["transaction.max.timeout.ms"], values["transactional.id.expiration.ms"]),
        broker.config.node_id,
        next_producer_id=broker.producer_ids.next_id,
        transaction_version=lambda: broker.metadata.features.get(TRANSACTION_VERSION, 0),
        write_marker=partial(bring_marker, broker),
    )


class Entry(NamedTuple):
    """A transactional batch on its way into a partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int


def refused_entries(
    broker: BrokerContext, transactional_id: str, entries: Sequence[Entry], *, add: bool, generic_error: bool
) -> dict[TopicPartition, ErrorCode]:
    """Which of these batches may not go in, for their partitions are not in the transaction (KIP-890).

    `add`: they are put into it (transactions version 2); otherwise they have to be there. All are of one producer.
    `generic_error`: the client knows TRANSACTION_ABORTABLE; older ones hear INVALID_TXN_STATE.
    """
    entries = [entry for entry in entries if not _is_under_way(broker, entry)]
    if not entries:
        return {}
    if TRANSACTION_STATE not in broker.metadata.topics:
        return {entry.partition: ErrorCode.COORDINATOR_NOT_AVAILABLE for entry in entries}
    _, producer_id, producer_epoch = entries[0]
    partitions = [entry.partition for entry in entries]
    coordinator = broker.transaction_coordinator()
    codes: dict[TopicPartition, ErrorCode]
    try:
        if add:
            coordinator.add_partitions(transactional_id, producer_id, producer_epoch, partitions, client_version=2)
            return {}
        codes = coordinator.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)
    except TransactionError as error:
        codes = dict.fromkeys(partitions, error.code_for(knows_fencing=False))
    return {partition: _told(code, generic_error) for partition, code in codes.items() if code}


def _is_under_way(broker: BrokerContext, entry: Entry) -> bool:
    """The partition's log has the open transaction of this very producer and epoch: nobody need be asked."""
    replica = broker.replicas.get(*entry.partition)
    state = replica.log.producers.get(entry.producer_id) if replica is not None else None
    return state is not None and state.has_open_transaction and state.producer_epoch == entry.producer_epoch


COMES_AND_GOES = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a coordinator says who will say something else soon."""


def _told(code: ErrorCode, generic_error: bool) -> ErrorCode:
    """The coordinator's words, as a producer hears them."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and not generic_error:
        return ErrorCode.INVALID_TXN_STATE
    return code


def missing_partitions(broker: BrokerContext, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Those that the cluster does not have."""
    return {each for each in partitions if broker.metadata.partition(*each) is None}
