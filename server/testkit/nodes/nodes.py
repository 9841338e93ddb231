"""The nodes of a cluster that one broker simulates.

Each node has an id, listeners and a rack of its own, and requests at its listeners are served as by a broker with that id: what
it does not lead or coordinate is refused (leadership.py). Behind them all is the one broker, so there is one copy of each
partition. Leaders, epochs, in-sync replicas and the loading of coordinators are real, since the metadata has the records of a
real cluster (simulated_cluster.py); copies are not.

The nodes outlive the broker: they keep ids, ports and racks when it is restarted or reset.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ottla.log.config_def import ConfigError
from ottla.log.management.identity import read_identities
from ottla.server.base.randomness import random_uuid
from ottla.server.broker.start import find_endpoints, make_fetch_sessions
from ottla.server.dispatch.chain import Place
from ottla.server.metadata.image import PartitionChanged
from ottla.server.replication.read_replicas import RACK_AWARE
from ottla.server.settings.broker_settings import MOST_TEST_NODES
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.nodes.leadership import Leadership
from ottla.server.testkit.nodes.near_replicas import NearReplicas
from ottla.server.testkit.nodes.node import Node, State
from ottla.server.testkit.nodes.node_context import NodeContext
from ottla.server.testkit.nodes.simulated_cluster import SimulatedCluster
from ottla.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.files import Disk
    from ottla.server.base.network import Network
    from ottla.server.broker.simulated_nodes import OpensNodes
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.network.listener import Listener
    from ottla.server.partitions.replica import Replica
    from ottla.server.requests.context import BrokerContext
    from ottla.server.settings.broker_config import BrokerConfig

NODES: Final = "ottla.test.nodes"
_MARK: Final = "SIMULATED"
_MOST_REPLICAS: Final = 3


class Nodes:
    """All nodes of a simulated cluster, the one of the broker's own id first. `network` is that of the broker."""

    def __init__(self, config: BrokerConfig, network: Network) -> None:
        """Raises ConfigError if the configuration does not go with several nodes."""
        if config.follows_controllers:
            raise ConfigError(f"{NODES}: a broker of a cluster (process.roles=broker) cannot simulate nodes; leave it at 1")
        if len(config.log_dirs) > 1:
            raise ConfigError(f"{NODES}: the nodes need one log directory, not {len(config.log_dirs)}; name one in log.dirs")
        self._network = network
        self._broker: OpensNodes | None = None
        first = config.node_id
        self._nodes = {node_id: Node(node_id, config.rack) for node_id in range(first, first + config.values[NODES])}
        self._own = self._nodes[first]
        self._highest = max(self._nodes)
        self._known: tuple[dict[str, int], dict[str, int]] = (
            {address.name: address.port for address in config.listeners},
            {address.name: address.port for address in config.advertised_listeners},
        )

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    @property
    def ids(self) -> AbstractSet[int]:
        """See SimulatedNodes."""
        return self._nodes.keys()

    @property
    def alive(self) -> frozenset[int]:
        """The ids of the nodes that may lead."""
        return frozenset(node.id for node in self if node.is_alive)

    @property
    def ports(self) -> set[int]:
        """The ports of all nodes, which stay theirs."""
        return {port for node in self for port in node.ports.values()}

    def bootstrap(self) -> str:
        """See SimulatedNodes."""
        return ",".join(node.bootstrap for node in self)

    def get(self, node_id: int) -> Node:
        """Returns a node by its id. Raises Refused."""
        node = self._nodes.get(node_id)
        if node is None:
            raise Refused(f"there is no node {node_id}; there are {', '.join(map(str, self._nodes))}", HTTPStatus.NOT_FOUND)
        return node

    # The life of the broker

    def choose_cluster_id(self, disk: Disk, config: BrokerConfig, wanted: str | None, random: Random) -> str | None:
        """Returns the id of a simulated cluster, which says that it is one, or `wanted`; None if its directories have one. It is
        a UUID, as those of all clusters. Raises ConfigError if the directories are those of a cluster that is not simulated."""
        if wanted is not None and not wanted.startswith(_MARK):
            raise ConfigError(f"cluster id: that of simulated nodes begins with {_MARK}; do not choose one, instead of {wanted}")
        formatted = read_identities(disk, config.all_log_dirs).formatted
        for path, found in formatted.items():
            if not found.cluster_id.startswith(_MARK):
                raise ConfigError(
                    f"log.dirs: {path} belongs to the cluster {found.cluster_id}, whose nodes are not simulated; use an empty "
                    f"directory (--data-dir DIR), or one node ({NODES}=1)"
                )
        if wanted is not None or formatted:
            return wanted
        prefix = f"{_MARK}{len(self._nodes)}-"
        return prefix + uuid_to_text(random_uuid(random))[len(prefix) :]

    def make_cluster(self, *parts: Any) -> SimulatedCluster:
        """See SimulatedNodes."""
        return SimulatedCluster(self, *parts)

    def own_context(self, context: BrokerContext) -> NodeContext:
        """See SimulatedNodes."""
        for node in self:
            node.listeners = []
        return self._context_of(self._own, context, context.config)

    def _context_of(self, node: Node, shared: BrokerContext, config: BrokerConfig) -> NodeContext:
        near = NearReplicas(node.id, shared.metadata) if config.values["replica.selector.class"] == RACK_AWARE else None
        sessions = make_fetch_sessions(config.values, shared.clock, shared.random)
        return NodeContext(shared, config, sessions, near)

    async def open(self, broker: OpensNodes) -> None:
        """See SimulatedNodes."""
        assert broker.context is not None
        self._broker = broker
        self._take(self._own, broker.listeners, broker.config)
        for node in self:
            if node is not self._own and node.state is not State.DOWN:
                await self._open_node(node)
        image = broker.context.metadata
        replicas = broker.context.replicas
        replicas.on_role = replicas.on_configured = partial(_note_min_isr, image)
        image.subscribe(partial(_forget_moved, broker.context))
        broker.chain.put(Place.NODES, Leadership(image))

    def started(self) -> None:
        """Closes the listeners of the broker's own node if that is down; a broker that starts has opened them."""
        if self._own.state is State.DOWN:
            self._close(self._own)

    def reset(self) -> None:
        """Has all nodes up again."""
        for node in self:
            node.state = State.UP

    async def _open_node(self, node: Node) -> None:
        broker = self._broker
        assert broker is not None
        assert broker.context is not None
        config = self._config_of(node, broker.config)
        opened: list[Listener] = []
        try:
            await broker.open_node(self._context_of(node, broker.context, config), opened)
        except BaseException:
            for listener in opened:
                listener.drop()
            raise
        broker.simulated_listeners.extend(opened)  # whoever stops the broker closes these as well
        self._take(node, opened, config)

    def _take(self, node: Node, listeners: list[Listener], config: BrokerConfig) -> None:
        node.listeners = list(listeners)
        node.ports = {listener.name: listener.port for listener in listeners}
        node.endpoints = find_endpoints(config, listeners, self._network)

    def _config_of(self, node: Node, own: BrokerConfig) -> BrokerConfig:
        """Returns the settings of a node, which are the broker's but for id, rack and addresses. Where the broker has a certain
        port, the other nodes have the ports that follow."""
        config = copy.copy(own)
        config.values = {**own.values, "node.id": node.id, "broker.id": node.id, "broker.rack": node.rack or ""}
        bound, advertised = self._known
        at = node.id - self._own.id

        def port(name: str, known: Mapping[str, int]) -> int:
            return known[name] + at if known.get(name) else 0

        config.listeners = tuple(
            each._replace(port=node.ports.get(each.name) or port(each.name, bound)) for each in own.listeners
        )
        config.advertised_listeners = tuple(each._replace(port=port(each.name, advertised)) for each in own.advertised_listeners)
        return config

    # Nodes that come and go

    async def change(self, node: Node, state: State, rack: str | None) -> None:
        """Gives a node another state or rack. Raises StorageError, and OSError if its address is taken; the node is then as it
        was, but for connections that are closed."""
        was_down, is_down = node.state is State.DOWN, state is State.DOWN
        try:
            if was_down and not is_down:
                await self._listen(node)
            if is_down:
                self._close(node)  # first, so that it tells no client that others lead
            self._set(node, state, rack)
        except BaseException:
            if was_down:
                self._close(node)
            elif is_down:
                await self._listen(node)
            raise

    def _set(self, node: Node, state: State, rack: str | None) -> None:
        """Gives a node a state and a rack that the metadata has as well. Raises StorageError, with nothing changed."""
        before, was_alive = (node.state, node.rack), node.is_alive
        node.state, node.rack = state, rack
        try:
            self._cluster().update(node, was_alive=was_alive)
        except BaseException:
            node.state, node.rack = before
            raise

    async def add(self, rack: str | None) -> Node:
        """Adds a node, which has no partitions yet, and returns it. Raises Refused if there are too many, StorageError, and
        OSError; nothing is left of the node then."""
        if len(self._nodes) >= MOST_TEST_NODES:
            raise Refused(f"a broker simulates {MOST_TEST_NODES} nodes at most; remove one first", HTTPStatus.CONFLICT)
        node = Node(self._highest + 1, rack)
        await self._open_node(node)
        try:
            for listener in node.listeners:
                await listener.accept()
            self._nodes[node.id] = node
            self._cluster().update(node, was_alive=False)
        except BaseException:
            self._take_away(node)
            raise
        self._highest = node.id
        return node

    def remove(self, node: Node) -> None:
        """Takes a node away for good. Raises Refused if it is the broker's own or has the only replica of a partition, and
        StorageError."""
        if node is self._own:
            raise Refused(f"node {node.id} is the broker itself, which can be down, but not gone", HTTPStatus.CONFLICT)
        cluster = self._cluster()
        cluster.check_forget(node)
        if node.is_alive:
            self._set(node, State.FENCED, node.rack)
        cluster.forget(node)
        self._take_away(node)

    def _take_away(self, node: Node) -> None:
        """Closes the listeners of a node, and forgets it and them."""
        self._close(node)
        assert self._broker is not None
        for listener in node.listeners:
            self._broker.simulated_listeners.remove(listener)
        self._nodes.pop(node.id, None)

    def move(self, topic: str, index: int, leader: int | None, isr: list[int] | None) -> None:
        """Gives a partition a leader or other in-sync replicas. Raises Refused, and StorageError."""
        self._cluster().move(topic, index, leader, isr)

    async def create(self, topic: str) -> None:
        """Creates an internal topic, if it is not there. Raises StorageError."""
        await self._cluster().create(topic)

    def _cluster(self) -> SimulatedCluster:
        assert self._broker is not None
        cluster = self._broker.cluster
        assert isinstance(cluster, SimulatedCluster)
        return cluster

    async def _listen(self, node: Node) -> None:
        """Opens the listeners of a node that was down."""
        if not node.listeners:
            await self._open_node(node)
        else:
            for listener in node.listeners:
                await listener.open(self._host_of(listener), listener.port)
        for listener in node.listeners:
            await listener.accept()

    def _host_of(self, listener: Listener) -> str | None:
        assert self._broker is not None
        return next(address.host for address in self._broker.config.listeners if address.name == listener.name)

    @staticmethod
    def _close(node: Node) -> None:
        for listener in node.listeners:
            listener.drop()


# What the broker does not notice by itself


def _forget_moved(context: BrokerContext, event: object) -> None:
    """Drops what share groups have of a partition that another node leads now; the broker itself leads it as before."""
    share_partitions = context.existing_share_partitions
    match event:
        case PartitionChanged(topic=topic, partition=index, image=image, previous=previous) if previous is not None:
            if share_partitions is not None and previous.leader_epoch != image.leader_epoch:
                share_partitions.forget_partition(topic.topic_id, index)


def _note_min_isr(image: MetadataImage, replica: Replica) -> None:
    """Has acks=all refused while fewer replicas are in sync than `min.insync.replicas` wants. The broker itself counts the
    followers that are others."""
    partition = image.partition(replica.topic, replica.partition)
    if partition is not None:
        wanted = min(replica.log.config.min_insync_replicas, len(partition.replicas))
        replica.under_min_isr = replica.is_leader and len(partition.isr) < wanted


def defaults(nodes: int) -> dict[str, str]:
    """Returns the settings of a cluster of so many nodes, where nobody gives them: each node leads a partition of the internal
    topics, so that coordinators differ, and topics have replicas."""
    return {
        "offsets.topic.num.partitions": str(nodes),
        "transaction.state.log.num.partitions": str(nodes),
        "share.coordinator.state.topic.num.partitions": str(nodes),
        "default.replication.factor": str(min(nodes, _MOST_REPLICAS)),
    }
