"""The nodes of a simulated cluster as Python objects, for `ottla.testing.Broker`: the same calls as over HTTP (control.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.server.testkit.python.calling import Calls


class Node:
    """A node of a simulated cluster. Each method has taken effect when it returns."""

    def __init__(self, node_id: int, call: Calls) -> None:
        self.id = node_id
        self._call = call

    def _shown(self, name: str) -> Any:
        return self._call("node", node=str(self.id))[name]

    @property
    def state(self) -> str:
        """The state of the node: up, down, fenced or hidden."""
        return str(self._shown("state"))

    @property
    def bootstrap(self) -> str:
        """host:port of this node."""
        return str(self._shown("bootstrap"))

    @property
    def rack(self) -> str | None:
        """The rack that it registers; it can be set."""
        rack = self._shown("rack")
        return None if rack is None else str(rack)

    @rack.setter
    def rack(self, rack: str | None) -> None:
        self._call("change_node", {"rack": rack or ""}, node=str(self.id))

    def down(self) -> None:
        """Takes it down: its port refuses, and other in-sync replicas lead what it led."""
        self._change("down", "down")

    def up(self) -> None:
        """Has it up, in whatever state it was. It is in sync at once, and leads what nobody led meanwhile."""
        self._change("up", "up")

    def fence(self) -> None:
        """Fences it: it answers, but is in no metadata and leads nothing."""
        self._change("fence", "fenced")

    def hide(self) -> None:
        """Hides it: it leads and answers, but no metadata has its address."""
        self._change("hide", "hidden")

    def remove(self) -> None:
        """Takes it away for good; others have its replicas."""
        self._call("remove_node", node=str(self.id), method=self._named("remove"))

    def _change(self, method: str, state: str) -> None:
        self._call("change_node", {"state": state}, node=str(self.id), method=self._named(method))

    def _named(self, method: str) -> str:
        return f"nodes[{self.id}].{method}"

    def __repr__(self) -> str:
        return f"<node {self.id}: {self.state}>"


class NodesById(Mapping[int, Node]):
    """The nodes by their ids."""

    def __init__(self, call: Calls) -> None:
        self._call = call

    def __getitem__(self, node_id: int) -> Node:
        if node_id not in iter(self):  # list(self) would ask for their number first
            raise KeyError(node_id)
        return Node(node_id, self._call)

    def __iter__(self) -> Iterator[int]:
        return iter([int(each["id"]) for each in self._call("nodes")])

    def __len__(self) -> int:
        return len(list(iter(self)))


class NodeMoves:
    """The calls by which a test changes the nodes of its broker, which simulates them (`ottla.testing.Broker(nodes=3)`)."""

    def __init__(self, call: Calls) -> None:
        self._call = call

    @property
    def nodes(self) -> NodesById:
        """The nodes by their ids, which count from 1. Every look asks the broker."""
        return NodesById(self._call)

    def add_node(self, rack: str | None = None) -> Node:
        """Adds a node, which has no partitions yet."""
        return Node(int(self._call("add_node", {"rack": rack})["id"]), self._call)

    def change_node(self, node_id: int, *, state: str | None = None, rack: str | None = None) -> dict[str, Any]:
        """Gives a node another state or rack, as the methods of `nodes[node_id]` do."""
        return dict(self._call("change_node", {"state": state, "rack": rack}, node=str(node_id)))

    def move_leader(self, topic: str, partition: int, *, to: int | None) -> dict[str, Any]:
        """Makes a node the leader of a partition, in a new leader epoch; None takes its leader away. A node that has no replica
        takes the place of the present leader. Returns the partition as it is then."""
        return self._move(topic, partition, {"leader": -1 if to is None else to})

    def set_isr(self, topic: str, partition: int, isr: Sequence[int]) -> dict[str, Any]:
        """Says which replicas of a partition are in sync; its leader must be. Returns the partition as it is then."""
        return self._move(topic, partition, {"isr": list(isr)})

    def _move(self, topic: str, partition: int, fields: dict[str, Any]) -> dict[str, Any]:
        return dict(self._call("move_partition", fields, topic=topic, partition=str(partition)))

    def move_coordinator(self, *, group: str | None = None, transactional_id: str | None = None, to: int) -> dict[str, Any]:
        """Makes a node the coordinator of a group or a transactional id, and of all others in the same partition of the internal
        topic. Returns that partition."""
        if (group is None) == (transactional_id is None):
            raise ValueError("either group or transactional_id must be given")
        if group is not None:
            return dict(self._call("move_group", {"node": to}, group=group))
        return dict(self._call("move_transaction", {"node": to}, transactional_id=str(transactional_id)))
