"""Opens what the coordinators of a broker in a quorum ask the others by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.interbroker.other_brokers import OtherBrokers
from ottla.server.peers.peer import Peer, PeerSettings

if TYPE_CHECKING:
    from random import Random

    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.security.client import ClientSecurity
    from ottla.server.settings.broker_config import BrokerConfig


def open_other_brokers(
    config: BrokerConfig,
    image: MetadataImage,
    clock: Clock,
    random: Random,
    network: Network,
    security: ClientSecurity | None = None,
) -> OtherBrokers:
    """Returns what asks the other brokers over `inter.broker.listener.name`; `security` says how to connect to it. Nothing is
    connected yet."""
    settings = PeerSettings.from_broker(config.values)
    client_id = f"broker-{config.node_id}-coordinators"

    def connect(host: str, port: int) -> Peer:
        return Peer(host, port, client_id, network=network, clock=clock, random=random, settings=settings, security=security)

    return OtherBrokers(image, config.inter_broker_listener, connect)
