"""The kit of one test: what it controls, over all starts of its broker."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Broker
    from ottla.server.dispatch.routes import Dispatch
    from ottla.server.network.owner import Serves


class Kit:
    """Holds what a test controls. `around` is handed to each broker that is started for the test (`Broker(around=)`).

    `clock` is that of real time, for what the kit itself waits for, never a clock that the test moves. `random` decides what
    happens by chance; the same seed gives the same chances.
    """

    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        """Returns the broker that was started last."""
        assert self._broker is not None
        return self._broker

    def around(self, broker: Broker, dispatch: Dispatch) -> Serves:
        """Returns what serves the requests of the broker's listeners in place of `dispatch`. The broker calls this in its start,
        before any client can connect, once for each dispatch."""
        self._broker = broker
        return dispatch

    def describe(self) -> dict[str, Any]:
        """Returns what `state` answers."""
        broker = self.broker
        return {"bootstrap": broker.bootstrap, "cluster_id": broker.cluster_id, "node_id": broker.config.node_id}
