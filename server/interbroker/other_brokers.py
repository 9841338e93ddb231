"""`OtherBrokers`: what this broker asks the others of its cluster as a coordinator, or asks their coordinators.

Every broker that is asked has a connection for each kind of request, to its endpoint on the inter-broker listener as the metadata
name it: a node answers the requests of a connection one after the other, and markers may have to wait for replicas. A connection
is opened with the first request, and replaced when the broker has registered with another address. Fetching as a follower has
connections of its own (server/replication/), too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.server.base.promise import Promise
from ottla.server.peers.outcomes import Closed, Disconnected
from ottla.server.peers.peer import Peer, PeerSettings

if TYPE_CHECKING:
    from random import Random

    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.security.client import ClientSecurity
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.wire.primitives import WireStruct

Address = tuple[str, int]
"""The host and port of a broker."""


class _Connected(NamedTuple):
    address: Address
    peer: Peer


class OtherBrokers:
    """Asks the brokers that the image has, over `inter.broker.listener.name`; `security` says how to connect to it. A request may
    take `request.timeout.ms`. Nothing is connected before the first one, which needs a running event loop.
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        clock: Clock,
        random: Random,
        network: Network,
        security: ClientSecurity | None = None,
    ) -> None:
        self.node_id = config.node_id
        """This broker's own id."""
        self._timeout_ms = config.values["request.timeout.ms"]
        self._settings = PeerSettings.from_broker(config.values)
        self._listener = config.inter_broker_listener
        self._image = image
        self._clock = clock
        self._random = random
        self._network = network
        self._security = security
        self._connected: dict[tuple[int, type[WireStruct]], _Connected] = {}
        self._ending: set[asyncio.Future[None]] = set()
        self.closed = False
        """True once this broker stops asking."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Returns the broker id of a partition's leader, which may be this broker; -1 if there is no leader, and None if there is
        no such partition.
        """
        image = self._image.partition(topic, partition)
        return None if image is None else image.leader

    def ask(self, broker_id: int, request: WireStruct, *, min_version: int = 0) -> Promise[Any]:
        """Sends a request to a broker, in the newest version that both have; `min_version` is the oldest that would do.

        The promise is of the answer. It fails with a PeerError: Disconnected at once if the broker is fenced, or not registered
        on the listener, and otherwise as `Peer.call` says.
        """
        if self.closed:
            return _failed(Closed("this broker is stopping"))
        address = self._address_of(broker_id)
        if address is None:
            return _failed(Disconnected(f"broker {broker_id} is not there: it is fenced, or has no listener {self._listener}"))
        key = broker_id, type(request)
        connected = self._connected.get(key)
        if connected is None or connected.address != address:
            if connected is not None:
                self._end(connected.peer)
            connected = self._connected[key] = _Connected(address, self._connect(*address))
        return connected.peer.call(request, self._timeout_ms, min_version=min_version)

    def _address_of(self, broker_id: int) -> Address | None:
        broker = self._image.brokers.get(broker_id)
        endpoint = broker.endpoints.get(self._listener) if broker is not None and not broker.fenced else None
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _connect(self, host: str, port: int) -> Peer:
        return Peer(
            host,
            port,
            f"broker-{self.node_id}-coordinators",
            network=self._network,
            clock=self._clock,
            random=self._random,
            settings=self._settings,
            security=self._security,
        )

    def _end(self, peer: Peer) -> None:
        ending = asyncio.ensure_future(peer.close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Ends all connections: requests that have no answer fail with Closed."""
        self.closed = True
        for connected in self._connected.values():
            self._end(connected.peer)
        self._connected.clear()
        if self._ending:
            await asyncio.wait(self._ending)


def _failed(error: Exception) -> Promise[Any]:
    promise: Promise[Any] = Promise()
    promise.set_exception(error)
    return promise
