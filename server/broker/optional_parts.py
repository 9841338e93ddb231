"""Makes the parts of a broker that most brokers never need, each when it is first asked for (server/requests/context.py).

A part gets what it uses as arguments and knows nothing of the broker around it; this module is the one place that knows both. The
module of a part is imported only when the part is made: a broker without transactions, share groups or telemetry loads none of
them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.server.metadata.names import CONSUMER_OFFSETS

if TYPE_CHECKING:
    from ottla.server.base.turns import Workers
    from ottla.server.group.coordinator import GroupCoordinator
    from ottla.server.interbroker.latest_offsets import LatestOffsets
    from ottla.server.interbroker.share_persister import SharePersister
    from ottla.server.partitions.flushing import Flushing
    from ottla.server.requests.context import BrokerContext
    from ottla.server.share.group_state import ShareGroupState
    from ottla.server.share.share_partitions import SharePartitions
    from ottla.server.share_state.coordinator import ShareCoordinator
    from ottla.server.telemetry.subscriptions import ClientTelemetry
    from ottla.server.txn.coordinator import TransactionCoordinator
    from ottla.server.txn.shard import MarkerWriter
    from ottla.server.txn.verification import Verifier


def group_coordinator(broker: BrokerContext) -> GroupCoordinator:
    """Makes a group coordinator that has loaded nothing yet."""
    from ottla.server.coordination.internal_topic import InternalTopicLog
    from ottla.server.group.coordinator import GroupCoordinator
    from ottla.server.group.coordinator_config import GroupCoordinatorConfig

    return GroupCoordinator(
        InternalTopicLog(broker.replicas, broker.metadata, CONSUMER_OFFSETS),
        broker.clock,
        GroupCoordinatorConfig.from_broker(broker.config.values),
        broker.metadata,
        broker.random,
        others_coordinate=broker.config.follows_controllers,
    )


def transaction_coordinator(broker: BrokerContext) -> TransactionCoordinator:
    """Makes a transaction coordinator that has loaded nothing yet."""
    from ottla.server.txn.markers import LocalMarkerWriter
    from ottla.server.txn.opening import open_transaction_coordinator

    write_marker: MarkerWriter = LocalMarkerWriter(broker.replicas, broker.metadata, broker.groups)
    if broker.other_brokers is not None:
        from ottla.server.interbroker.transaction_markers import MarkerChannel

        write_marker = MarkerChannel(broker.other_brokers, broker.clock, write_marker)
    return open_transaction_coordinator(
        broker.config, broker.metadata, broker.replicas, broker.clock, broker.producer_ids, write_marker
    )


def transaction_verifier(broker: BrokerContext) -> Verifier:
    """Makes what asks the coordinators of transactions."""
    if broker.other_brokers is not None:
        from ottla.server.interbroker.transaction_verification import VerificationChannel

        return VerificationChannel(broker.other_brokers, broker.transaction_coordinator)
    from ottla.server.txn.verification import verify_here

    return partial(verify_here, broker.transaction_coordinator)


def share_coordinator(broker: BrokerContext) -> ShareCoordinator:
    """Makes a share coordinator that has loaded nothing yet."""
    from ottla.server.share_state.opening import open_share_coordinator

    return open_share_coordinator(broker.config, broker.metadata, broker.replicas, broker.clock, broker.controller)


def share_persister(broker: BrokerContext) -> ShareCoordinator | SharePersister:
    """Makes what keeps the state of share groups: the share coordinator of this broker, or what asks those of all brokers."""
    if broker.other_brokers is None:
        return broker.share_coordinator()
    from ottla.server.interbroker.share_persister import SharePersister

    return SharePersister(broker.other_brokers, broker.clock, broker.share_coordinator)


def latest_offsets(broker: BrokerContext) -> LatestOffsets | None:
    """Makes what asks other brokers how far their partitions go; None if there are no others."""
    if broker.other_brokers is None:
        return None
    from ottla.server.interbroker.latest_offsets import LatestOffsets

    return LatestOffsets(broker.other_brokers, broker.clock)


def share_group_state(broker: BrokerContext) -> ShareGroupState:
    """Makes the state of share groups, which opens the share coordinator only when it needs it."""
    from ottla.server.share.group_state import ShareGroupState

    return ShareGroupState(broker.groups, broker.share_persister, broker.metadata, broker.clock)


def share_partitions(broker: BrokerContext) -> SharePartitions:
    """Makes the broker's share partitions, which follow the metadata from now on."""
    from ottla.server.share.sessions import ShareSessions
    from ottla.server.share.share_partitions import SharePartitions

    persister, fetch_sessions = broker.share_persister(), broker.fetch_sessions
    sessions = ShareSessions(fetch_sessions.max_bytes // 2, fetch_sessions.lend)
    return SharePartitions(
        persister, broker.settings, broker.metadata, broker.replicas, broker.clock, broker.controller, broker.workers, sessions
    )


def client_telemetry(broker: BrokerContext) -> ClientTelemetry:
    """Makes the telemetry of clients, which follows the metadata from now on."""
    from ottla.server.telemetry.subscriptions import ClientTelemetry

    values = broker.config.values
    max_bytes, keeps = values["telemetry.max.bytes"], values["ottla.client.metrics"]
    return ClientTelemetry(broker.metadata, broker.clock, broker.random, max_bytes, broker.workers, keeps=keeps)


def flushing(broker: BrokerContext) -> Flushing:
    """Makes what flushes logs in threads."""
    from ottla.server.partitions.flushing import Flushing

    return Flushing(broker.clock)


def workers() -> Workers:
    """Makes the pool for long work, which is done in the loop's threads."""
    from ottla.server.base.turns import Workers

    return Workers()


def pattern_workers() -> Workers:
    """Makes the pool for regular expressions: one thread."""
    from ottla.server.base.turns import Workers

    return Workers(threads=1)
