"""A client of a simulated cluster: it sends each request to whom it believes to lead the partition that the request is about.

What it believes is what some broker knew when it last asked. It asks again after an error that says that another leads, and after
a request without an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.wire.errors import ErrorCode
from tests.sim.client import TIMEOUT_S, Client, Lost

if TYPE_CHECKING:
    from ottla.server.broker.broker import Broker
    from tests.sim.network import Port
    from tests.sim.stage import Stage

_ELSEWHERE: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
Place = tuple[str, int]
"""A partition, by its topic's name and its index."""


class Node(Protocol):
    """A node of the cluster, as its clients see it."""

    @property
    def port(self) -> Port: ...

    @property
    def broker(self) -> Broker | None: ...

    @property
    def is_paused(self) -> bool: ...


class ClusterClient(Client):
    """See the module's docstring. It has a connection to each broker that it needs."""

    def __init__(self, stage: Stage, nodes: Mapping[int, Node], name: str) -> None:
        super().__init__(stage.loop, lambda: next(iter(nodes.values())).port, name)
        self._stage = stage
        self._nodes = nodes
        self._choice: Random = stage.random(f"{name} asks")
        self._connections = {node_id: self._connect(node_id) for node_id in nodes}
        self._leaders: dict[Place, int] = {}
        self._sent: dict[asyncio.Future[Any], tuple[Client, Place | None]] = {}

    def _connect(self, node_id: int) -> Client:
        node = self._nodes[node_id]
        return Client(self._stage.loop, lambda: node.port, self.name)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._leaders.clear()

    def believe(self, place: Place, leader: int) -> None:
        """Takes a broker for the leader of a partition."""
        self._leaders[place] = leader

    def leader_of(self, place: Place) -> int | None:
        """Returns whom it takes for the leader of a partition, if it knows one."""
        return self._leaders.get(place)

    def send(self, messages: Any, version: int, request: Any) -> asyncio.Future[Any]:
        place = next(_places(request), None)
        connection = self._connections[self._whom_to_ask(place)]
        try:
            answer = connection.send(messages, version, request)
        except Lost:
            self._forget(place)
            raise
        self._sent[answer] = connection, place
        return answer

    def send_only(self, messages: Any, version: int, request: Any) -> None:
        self._connections[self._whom_to_ask(next(_places(request), None))].send_only(messages, version, request)

    async def wait(self, answer: asyncio.Future[Any], timeout_s: float = TIMEOUT_S) -> Any:
        connection, place = self._sent.pop(answer)
        try:
            response = await connection.wait(answer, timeout_s)
        except Lost:
            self._forget(place)
            raise
        if place is not None and not _ELSEWHERE.isdisjoint(_codes(response)):
            self._forget(place)
        return response

    def _forget(self, place: Place | None) -> None:
        """Forgets who leads a partition, if the request was about one."""
        if place is not None:
            self._leaders.pop(place, None)

    def _whom_to_ask(self, place: Place | None) -> int:
        """Returns the id of a broker. Raises Lost if nobody knows a leader."""
        if place is None:
            return self._choice.choice(list(self._connections))
        if place not in self._leaders:
            self._leaders[place] = self._ask_for_leader(place)
        return self._leaders[place]

    def _ask_for_leader(self, place: Place) -> int:
        """Returns whom a broker that serves takes for the leader: what Metadata would be answered. Raises Lost."""
        serving = [node.broker for node in self._nodes.values() if node.broker is not None and not node.is_paused]
        if serving:
            context = self._choice.choice(serving).context
            assert context is not None
            topic = context.metadata.topics.get(place[0])
            leader = topic.partitions[place[1]].leader if topic is not None else -1
            if leader in self._connections:
                return leader
        raise Lost(f"nobody leads {place}", sent=False)


def _places(request: Any) -> Iterator[Place]:
    """Yields the partitions that a request is about, of the APIs whose requests go to leaders."""
    for topic in getattr(request, "topic_data", None) or getattr(request, "topics", None) or ():
        for partition in getattr(topic, "partition_data", None) or getattr(topic, "partitions", None) or ():
            yield getattr(topic, "topic", None) or topic.name, _index(partition)


def _index(partition: Any) -> int:
    for name in ("index", "partition", "partition_index"):
        if hasattr(partition, name):
            return int(getattr(partition, name))
    raise AttributeError(f"{partition} has no number")


def _codes(response: Any) -> Iterator[int]:
    """Yields the error codes of partitions in an answer."""
    for topic in getattr(response, "responses", None) or getattr(response, "topics", None) or ():
        for partition in getattr(topic, "partition_responses", None) or getattr(topic, "partitions", None) or ():
            yield partition.error_code
