"""One broker of a cluster for tests (`ottla.testing.Cluster`), as an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.commands.cluster.process import NodeProcess
    from ottla.commands.cluster.running import RunningCluster


class ClusterBroker:
    """One broker of a `Cluster`, to be killed, stopped and started again on the same port and directory."""

    def __init__(self, cluster: RunningCluster, node: NodeProcess) -> None:
        self._cluster = cluster
        self._node = node

    @property
    def node_id(self) -> int:
        return self._node.place.node_id

    @property
    def port(self) -> int:
        return self._node.place.port

    @property
    def bootstrap(self) -> str:
        """host:port of this broker."""
        return self._node.place.address

    @property
    def pid(self) -> int | None:
        """The id of its process, also when that has ended."""
        return self._node.pid

    @property
    def is_running(self) -> bool:
        return self._node.is_running

    @property
    def log_file(self) -> Path:
        """The file that has all that the broker printed, its log included, over all its starts."""
        return self._node.log

    @property
    def data_dir(self) -> Path:
        return self._node.log.parent / "data"

    def kill(self) -> None:
        """Ends the process at once, as by kill -9, and returns when it has ended. Its controllers notice after
        `broker.session.timeout.ms`."""
        self._node.kill()
        self._node.wait(None)

    def stop(self) -> None:
        """Stops the broker in order."""
        self._node.stop()

    def down(self) -> None:
        """Stops the broker in order, like a node of a Broker: others lead what it led."""
        self.stop()

    def up(self) -> None:
        """Starts it again, like a node of a Broker. It is in sync when it has caught up. Raises ClusterError."""
        self.start()

    def start(self) -> None:
        """Starts it again; it serves when this returns. Raises ClusterError."""
        self._node.start()
        self._cluster.wait_until_ready([self._node])
