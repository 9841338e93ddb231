"""A cluster as a single broker that can be stopped, killed and started again, for drivers that know one broker: each time
it is the next node's turn.
"""

from __future__ import annotations

from compat_tests.cluster.mixed import Mixed

_PATIENCE_S = 120.0


class InTurn:
    """`start` waits until all replicas are in sync again, so that the next node may go."""

    def __init__(self, cluster: Mixed) -> None:
        self.cluster = cluster
        self._turn = 0

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def _node(self) -> int:
        nodes = list(self.cluster.brokers)
        return nodes[self._turn % len(nodes)]

    def stop(self) -> None:
        """Stops a node in order. Raises AssertionError if it did not end as it should."""
        self.cluster.stop_in_order(self._node)

    def kill(self) -> None:
        self.cluster.brokers[self._node].kill()

    def start(self) -> None:
        """Raises BrokerFailed, and AssertionError if not all replicas come to be in sync."""
        self.cluster.brokers[self._node].start()
        self._turn += 1
        self.cluster.wait_for_full_isr(_PATIENCE_S)
