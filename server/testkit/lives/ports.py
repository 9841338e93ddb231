"""A network that keeps the ports of its listeners while nobody listens there, so that a broker that comes back has them again.

Beside each socket that listens, a second one is bound to the same address and never listens. As long as it is there, the system
gives the port to nobody who asks for a free one, and who connects is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ottla.server.base.network import OsNetwork

if TYPE_CHECKING:
    from ottla.server.base.network import Socket


class KeptPorts(OsNetwork):
    """The system's network, which keeps every port that was bound until `keep_only` or `close`."""

    def __init__(self) -> None:
        self.on_connection: Callable[[], object] | None = None
        """Is called with each connection that a client opens; None if nobody wants to know."""
        self._kept: dict[int, Socket] = {}

    def bind(self, host: str | None, port: int, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> Socket:
        """See Network."""
        sock = super().bind(host, port, send_buffer_bytes=send_buffer_bytes, receive_buffer_bytes=receive_buffer_bytes)
        bound = sock.getsockname()[1]
        if bound not in self._kept:  # it can be bound only before the other one listens
            try:
                self._kept[bound] = super().bind(host, bound)
            except OSError:
                sock.close()
                raise
        return sock

    async def serve(self, factory: Callable[[], asyncio.BaseProtocol], sock: Socket, backlog: int) -> asyncio.Server:
        """See Network."""

        def accept() -> asyncio.BaseProtocol:
            if self.on_connection is not None:
                self.on_connection()
            return factory()

        return await super().serve(accept, sock, backlog)

    def keep_only(self, ports: Collection[int]) -> None:
        """Gives up the ports that a start bound only for a look."""
        for port in self._kept.keys() - set(ports):
            self._kept.pop(port).close()

    def close(self) -> None:
        """Gives up all ports."""
        self.keep_only(())
