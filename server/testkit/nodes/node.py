"""One node of a simulated cluster: its state and its addresses."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.server.metadata.image import Endpoint
    from ottla.server.network.listener import Listener


class State(StrEnum):
    """The state of a node."""

    UP = "up"
    DOWN = "down"
    """Its port refuses, and others lead."""
    FENCED = "fenced"
    """It answers, but leads nothing and is in no metadata, like a broker that the controllers do not hear of."""
    HIDDEN = "hidden"
    """It leads and answers, but no metadata has its address, like a broker without this listener."""


class Node:
    """One node. `ports` are those of its listeners by their names, as soon as they are known."""

    def __init__(self, node_id: int, rack: str | None) -> None:
        self.id = node_id
        self.rack = rack
        self.state = State.UP
        self.ports: dict[str, int] = {}
        self.listeners: list[Listener] = []
        """Those of the present broker, none if the node was down when it started."""
        self.endpoints: list[Endpoint] = []

    @property
    def is_alive(self) -> bool:
        """Returns whether it may lead."""
        return self.state in (State.UP, State.HIDDEN)

    @property
    def registered_endpoints(self) -> list[Endpoint]:
        """The addresses that metadata has."""
        return [] if self.state is State.HIDDEN else self.endpoints

    @property
    def bootstrap(self) -> str:
        """The host:port of its first listener."""
        return f"{self.endpoints[0].host}:{self.endpoints[0].port}"

    def describe(self) -> dict[str, Any]:
        """Returns the node as JSON has it."""
        return {"id": self.id, "state": self.state, "rack": self.rack, "bootstrap": self.bootstrap}
