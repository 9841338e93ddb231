"""Opens the transaction coordinator of a broker over the broker's own partitions of `__transaction_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.coordination.internal_topic import InternalTopicLog
from ottla.server.metadata.feature_levels import TRANSACTION_VERSION
from ottla.server.metadata.names import TRANSACTION_STATE
from ottla.server.txn.coordinator import TransactionCoordinator, TransactionSettings

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replicas import Replicas
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.txn.producer_ids import ProducerIds
    from ottla.server.txn.shard import MarkerWriter


def open_transaction_coordinator(
    config: BrokerConfig,
    image: MetadataImage,
    replicas: Replicas,
    clock: Clock,
    producer_ids: ProducerIds,
    write_marker: MarkerWriter,
) -> TransactionCoordinator:
    """Returns the coordinator, which brings markers to partitions by `write_marker`. It loads a partition of
    `__transaction_state` with the first request for it, or by `refresh`.
    """
    values = config.values
    return TransactionCoordinator(
        InternalTopicLog(replicas, image, TRANSACTION_STATE),
        clock,
        TransactionSettings(values["transaction.max.timeout.ms"], values["transactional.id.expiration.ms"]),
        next_producer_id=producer_ids.next_id,
        transaction_version=lambda: image.features.get(TRANSACTION_VERSION, 0),
        write_marker=write_marker,
    )
