"""The interface between a broker and the nodes that a test has it simulate: brokers with addresses of their own, which are all
this one."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ottla.server.dispatch.chain import Chain
    from ottla.server.metadata.cluster import Cluster
    from ottla.server.network.listener import Listener
    from ottla.server.requests.context import BrokerContext
    from ottla.server.settings.broker_config import BrokerConfig


class OpensNodes(Protocol):
    """Declares what the nodes need of their broker."""

    config: BrokerConfig
    cluster: Cluster | None
    chain: Chain
    context: BrokerContext | None
    listeners: list[Listener]
    """Those of the broker itself."""
    simulated_listeners: list[Listener]
    """Those of the other nodes."""

    async def open_node(self, context: BrokerContext, listeners: list[Listener]) -> None:
        """Opens the addresses of a node, and adds their listeners; they do not accept yet. `context` is what their requests are
        served from, and has the settings. Raises OSError if an address cannot be bound."""
        ...


class SimulatedNodes(Protocol):
    """Declares what server/testkit/nodes/nodes.py implements."""

    @property
    def ids(self) -> AbstractSet[int]:
        """The broker ids that stand for this broker, its own among them, always as they are."""
        ...

    def make_cluster(self, *parts: Any) -> Any:
        """Makes a cluster of what StandaloneCluster takes, which registers all nodes with the broker."""
        ...

    def own_context(self, context: BrokerContext) -> BrokerContext:
        """Returns what the requests at the broker's own listeners are served from."""
        ...

    async def open(self, broker: OpensNodes) -> None:
        """Opens the listeners of the other nodes by `open_node`, once those of the broker itself are open."""
        ...

    def bootstrap(self) -> str:
        """Returns the addresses of all nodes, for clients to bootstrap from."""
        ...
