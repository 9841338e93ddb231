"""Makes the parts of a broker that most brokers never need, each when it is first asked for (server/requests/context.py).

A part gets what it uses as arguments and knows nothing of the broker around it; this module is the one place that knows both. The
module of a part is imported only when the part is made: a broker without transactions, share groups or telemetry loads none of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.server.base.turns import Workers
    from ottla.server.partitions.flushing import Flushing
    from ottla.server.requests.context import BrokerContext
    from ottla.server.share.group_state import ShareGroupState
    from ottla.server.share.share_partitions import SharePartitions
    from ottla.server.share_state.coordinator import ShareCoordinator
    from ottla.server.telemetry.subscriptions import ClientTelemetry
    from ottla.server.txn.coordinator import TransactionCoordinator


def transaction_coordinator(broker: BrokerContext) -> TransactionCoordinator:
    """Makes a transaction coordinator that has loaded nothing yet."""
    from ottla.server.txn.opening import open_transaction_coordinator

    return open_transaction_coordinator(
        broker.config, broker.metadata, broker.replicas, broker.clock, broker.producer_ids, broker.groups
    )


def share_coordinator(broker: BrokerContext) -> ShareCoordinator:
    """Makes a share coordinator that has loaded nothing yet."""
    from ottla.server.share_state.opening import open_share_coordinator

    return open_share_coordinator(broker.config, broker.metadata, broker.replicas, broker.clock, broker.controller)


def share_group_state(broker: BrokerContext) -> ShareGroupState:
    """Makes the state of share groups, which opens the share coordinator only when it needs it."""
    from ottla.server.share.group_state import ShareGroupState

    return ShareGroupState(broker.groups, broker.share_coordinator, broker.metadata, broker.clock)


def share_partitions(broker: BrokerContext) -> SharePartitions:
    """Makes the broker's share partitions, which follow the metadata from now on."""
    from ottla.server.share.share_partitions import SharePartitions

    persister = broker.share_coordinator()
    return SharePartitions(
        persister, broker.settings, broker.metadata, broker.replicas, broker.clock, broker.controller, broker.workers
    )


def client_telemetry(broker: BrokerContext) -> ClientTelemetry:
    """Makes the telemetry of clients, which follows the metadata from now on."""
    from ottla.server.telemetry.subscriptions import ClientTelemetry

    values = broker.config.values
    max_bytes, keeps = values["telemetry.max.bytes"], values["ottla.client.metrics"]
    return ClientTelemetry(broker.metadata, broker.clock, broker.random, max_bytes, keeps=keeps)


def flushing(broker: BrokerContext) -> Flushing:
    """Makes what flushes logs in threads."""
    from ottla.server.partitions.flushing import Flushing

    return Flushing(broker.clock)


def workers() -> Workers:
    """Makes what does long work in the loop's threads."""
    from ottla.server.base.turns import Workers

    return Workers()
