"""A network namespace for each node of a cluster, with this process's own namespace as the router between them, so that packets
from one node to another can be dropped on their way without a word to either: in one direction, or in both.

Clients in this process reach every node, whatever is cut. The process must be root in namespaces of its own for networks and
mounts (`unshare --map-root-user --net --mount`): they take everything that is made here with them when it ends.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
FROM, TO, BOTH = "from", "to", "both"
"""The packets of a node that are dropped."""
OF_NETWORKS: Final = {"cut": BOTH, "cut-from": FROM, "cut-to": TO}
"""The faults of networks, by their names in plans and on command lines."""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Networks:
    """One namespace for each of these nodes, by their ids."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self._at = {node: index for index, node in enumerate(nodes, 1)}
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)  # where `ip netns` keeps its names
        _ip("link", "set", "lo", "up")
        FORWARDING.write_text("1")
        for node, index in self._at.items():
            name = f"node-{node}"
            _ip("netns", "add", name)
            _ip("link", "add", f"to-{node}", "type", "veth", "peer", "name", "uplink", "netns", name)
            _ip("address", "add", f"10.77.{index}.1/24", "dev", f"to-{node}")
            _ip("link", "set", f"to-{node}", "up")
            _ip("-n", name, "address", "add", f"{self.host(node)}/24", "dev", "uplink")
            for link in ("lo", "uplink"):
                _ip("-n", name, "link", "set", link, "up")
            _ip("-n", name, "route", "add", "default", "via", f"10.77.{index}.1")

    def host(self, node: int) -> str:
        """Returns a node's address."""
        return f"10.77.{self._at[node]}.2"

    def inside(self, node: int) -> tuple[str, ...]:
        """Returns what to put before a command to run it in a node's namespace, as the same process."""
        return "nsenter", f"--net=/run/netns/node-{node}"

    @contextmanager
    def cut(self, node: int, way: str) -> Iterator[None]:
        """While it is entered, packets between the node and all other nodes are dropped: those from it, those to it, or both."""
        own = self.host(node)
        others = [self.host(other) for other in self._at if other != node]
        pairs = [(own, other) for other in others if way in (FROM, BOTH)] + [
            (other, own) for other in others if way in (TO, BOTH)
        ]
        try:
            for source, target in pairs:
                _ip("rule", "add", "from", source, "to", target, "blackhole")
            yield
        finally:
            for source, target in pairs:
                _ip("rule", "delete", "from", source, "to", target, "blackhole")
