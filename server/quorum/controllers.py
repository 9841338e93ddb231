"""The connections to the controllers for one purpose, one a controller, each opened when it is first asked.

Fetching the metadata has connections of its own, because a Fetch waits at the controller until there is something new, and a
Kafka node answers the requests of a connection in their order: nothing else may wait behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.server.peers.peer import Peer
from ottla.server.quorum.finder import Address


class Controllers:
    """Gives the peer at an address. `connect` makes one. There are as many as controllers were ever named, a handful."""

    def __init__(self, connect: Callable[[Address], Peer]) -> None:
        self._connect = connect
        self._peers: dict[Address, Peer] = {}

    def at(self, address: Address) -> Peer:
        """Returns the controller at this address."""
        if address not in self._peers:
            self._peers[address] = self._connect(address)
        return self._peers[address]

    async def close(self) -> None:
        """Closes all connections; requests that are under way fail with Closed."""
        for peer in list(self._peers.values()):
            await peer.close()
