"""A simulated cluster: brokers of ottla with disks and a network in memory, and the model of their controllers.

`Node` is one broker with its lives (`lives.py` one folder up). A node that loses its power loses what was not synced, and Kafka
promises nothing if that befalls all in-sync replicas, or if the others die before the controllers know. So power is lost only
while nothing else is broken (`may_lose_power`), and nothing else breaks until that replica counts no more (`is_weak`).
Names on a disk survive in order, as on ext4 and xfs: if the name of an older segment could be lost and that of a newer one not,
the log would begin with the newer one, in Kafka as well.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.memdisk import MemDisk
from tests.sim.cluster.client import ClusterClient
from tests.sim.cluster.controller import SESSION_S, PartitionState
from tests.sim.cluster.loop import ClusterLoop
from tests.sim.cluster.network import Fabric, NodePort
from tests.sim.cluster.quorum import HOST, PORT, Quorum
from tests.sim.lives import BrokerLives
from tests.sim.loop import VirtualClock
from tests.sim.network import Port
from tests.sim.stage import Stage

if TYPE_CHECKING:
    from ottla.server.partitions.replica import Replica
    from ottla.server.requests.context import BrokerContext

BROKERS: Final = 3
LAG_S: Final = 2.0
_SETTINGS: Final = {
    "process.roles": "broker",
    "metadata.log.dir": "/data",
    "controller.quorum.bootstrap.servers": f"{HOST}:{PORT}",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "controller.socket.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "2000",
    "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
    "replica.socket.timeout.ms": "2000",
    "replica.fetch.wait.max.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "num.replica.fetchers": "1",
    "auto.create.topics.enable": "false",
    "num.recovery.threads.per.data.dir": "1",  # no threads, not even when the broker starts or stops
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.enable": "false",
}


class Node(BrokerLives):
    """One broker of the cluster."""

    def __init__(self, world: ClusterWorld, node_id: int, rate: float) -> None:
        self.node_id = node_id
        self.host = f"node-{node_id}"
        self._world = world
        directories = world.random(f"directories of {node_id}").choice(("/data", "/data", "/data,/more"))
        settings = _SETTINGS | {
            "node.id": str(node_id),
            "log.dirs": directories,
            "listeners": f"PLAINTEXT://{self.host}:{Port.NUMBER}",
        }
        super().__init__(world, settings, self._make_port, loses_power=False, name=f"{self.host}: ", ordered_names=True)
        self.clock_rate = rate
        self.clean_epochs: set[int] = set()
        """The broker epochs of the lives that were stopped cleanly, or began to be."""
        self._paused_at = 0.0

    def _make_port(self, life: int, context: contextvars.Context) -> Port:
        world = self._world
        port = NodePort(
            world.loop, world.random(f"{self.host} network {life}"), context, world.fabric, self.host, world.quorum.ask
        )
        world.fabric.hosts[self.host] = port
        return port

    def end(self, left: MemDisk) -> None:
        super().end(left)
        self._world.loop_of_nodes.over.add(self.life)
        self._world.loop_of_nodes.resume(self.life)

    async def stop(self) -> None:
        if self.broker is not None:
            self.clean_epochs.add(self._world.quorum.controller.brokers[self.node_id].epoch)
        await super().stop()

    @property
    def is_paused(self) -> bool:
        return self._world.loop_of_nodes.is_paused(self.life)

    @property
    def context(self) -> BrokerContext | None:
        """The context that the broker of the life under way works with; None before it has that, and while there is no life."""
        return None if self.starting is None else self.starting.context

    def replicas(self) -> list[Replica]:
        """Returns the replicas that the broker has open; none while there is no broker."""
        context = self.context
        return [] if context is None else [replica for replica in context.replicas if not replica.topic.startswith("__")]

    def replica_of(self, state: PartitionState) -> Replica | None:
        """Returns the node's replica of a partition, if it has one."""
        for replica in self.replicas():
            if (replica.topic, replica.partition) == (state.topic, state.index):
                return replica
        return None

    def lost_directories(self) -> list[str]:
        """Returns the log directories that the broker has taken offline, because it could not cut a log that is in them."""
        context = self.context
        return [] if context is None else [each.path for each in context.replicas.logs.directories if each.failed is not None]

    @contextmanager
    def disk_works(self) -> Iterator[None]:
        """Keeps the faults that are ordered of the disk for the broker itself."""
        disk = self.disk
        disk._faults, faults = [], disk._faults
        try:
            yield
        finally:
            disk._faults = faults

    def pause(self) -> None:
        """Stops the process where it is (SIGSTOP)."""
        if not self.is_over:
            self._world.say(f"{self.host} stands still")
            if not self.is_paused:
                self._paused_at = self._world.loop.time()
            self._world.loop_of_nodes.pause(self.life)

    def resume(self) -> None:
        """Lets it go on."""
        if self.is_paused:
            self._world.say(f"{self.host} goes on")
            if self._world.loop.time() - self._paused_at > SESSION_S:
                self._world.on_return(self)
            self._world.loop_of_nodes.resume(self.life)


class ClusterWorld(Stage):
    """See the module's docstring."""

    def __init__(self, seed: int, loop: ClusterLoop) -> None:
        super().__init__(seed, loop)
        self.loop_of_nodes = loop
        self.fabric = Fabric()
        self.quorum = Quorum(loop, self.random("quorum"), self.fabric)
        rates = self.random("clocks")
        self.nodes = {at: Node(self, at, rates.choice((1.0, 1.0, 0.97, 1.03))) for at in range(1, BROKERS + 1)}
        self.on_return: Callable[[Node], object] = lambda _: None
        """Called before a node goes on that stood still for longer than its session."""
        self._clock = VirtualClock(loop)
        self._lost: Node | None = None
        self._lost_epoch = -1

    @property
    def clock(self) -> VirtualClock:
        return self._clock

    def client(self, name: str) -> ClusterClient:
        return ClusterClient(self, self.nodes, name)

    def goes_on(self, life: int) -> bool:
        return life in {node.life for node in self.nodes.values() if not node.is_over}

    async def keep_running(self) -> None:
        """Runs the nodes and the controllers until the task is cancelled."""
        await asyncio.gather(self.quorum.end_sessions(), *(node.keep_running() for node in self.nodes.values()))

    def partitions(self) -> list[PartitionState]:
        """Returns the partitions, as the controllers know them."""
        return list(self.quorum.controller.partitions.values())

    def is_whole(self) -> bool:
        """Returns whether all nodes serve, every partition has a leader, and all replicas are in sync."""
        serve = all(node.broker is not None and not node.is_paused for node in self.nodes.values())
        return serve and all(each.leader > 0 and set(each.isr) == set(each.replicas) for each in self.partitions())

    def is_settled(self) -> bool:
        """Returns whether `is_whole` is true and every high watermark is at its log's end. A new leader's is behind until all
        in-sync replicas have fetched from it, and consumers see no more than that, with Kafka's brokers as well."""
        return self.is_whole() and all(self._is_replicated(each) for each in self.partitions())

    def _is_replicated(self, state: PartitionState) -> bool:
        leader = self.nodes[state.leader].replica_of(state)
        return leader is not None and leader.log.high_watermark == leader.log.log_end_offset

    def is_unaware(self, key: str, node_id: int | None) -> bool:
        """Returns whether a node believes that it leads a partition, and the controllers have let another lead. It is cut off
        from them, and serves what it has, as Kafka's broker does."""
        (state,) = (each for each in self.partitions() if each.key == key)
        context = self.nodes[node_id].context if node_id in self.nodes else None
        if context is None or state.leader == node_id:
            return False
        known = context.metadata.partition(state.topic, state.index)
        return known is not None and known.leader == node_id

    def describe(self) -> str:
        """Returns what `is_whole` looks at, for people."""
        nodes = [f"{node.host} {'serves' if node.broker is not None else 'does not serve'}" for node in self.nodes.values()]
        partitions = [f"{each.key} led by {each.leader}, in sync {each.isr}" for each in self.partitions()]
        return "; ".join(nodes + partitions)

    def may_lose_power(self) -> bool:
        """Returns whether one node may lose what it has not synced: all others have everything."""
        return self.is_whole() and not self.fabric.cut and not self.quorum.away

    def lose_power(self, node: Node) -> None:
        """Cuts the power of a node; what is ordered to break elsewhere does not."""
        self._lost = node
        self._lost_epoch = self.quorum.controller.brokers[node.node_id].epoch
        for each in self.nodes.values():
            each.disk.before_change = None
            each.disk._faults.clear()
        node.cut_power()

    def is_weak(self) -> bool:
        """Returns whether the controllers still count on a node that has lost its power."""
        if self._lost is None:
            return False
        node_id = self._lost.node_id
        same = self.quorum.controller.brokers[node_id].epoch == self._lost_epoch
        if not same or all(node_id not in each.isr for each in self.partitions()):
            self._lost = None
        return self._lost is not None

    def heal(self) -> None:
        super().heal()
        self.fabric.join_all()
        if self.quorum.away:
            self.quorum.fail_over()
        for node in self.nodes.values():
            node.resume()
            node.heal()
            if node.lost_directories():  # it serves what is in the others, until somebody starts it again
                node.kill()
