"""Binds the address at which an HttpServer is reached, names it by its URL, and gives it up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.log.config_def import ConfigError
from ottla.server.http.responder import HttpConnection, HttpServer

if TYPE_CHECKING:
    from ottla.server.base.network import Network

BACKLOG: Final = 100


class HttpPort:
    """Serves an HttpServer at an address. `url` is known once it is open.

    `name` is that of its settings: `metrics` stands for ottla.metrics.port, ottla.metrics.host and --metrics-port.
    """

    def __init__(self, server: HttpServer, network: Network, name: str) -> None:
        self._http = server
        self._network = network
        self._name = name
        self._server: asyncio.Server | None = None
        self.url = ""

    async def open(self, host: str, port: int) -> None:
        """Binds the address and serves; port 0 means a free port. Raises ConfigError if the address cannot be bound."""
        name = self._name
        try:
            sock = self._network.bind(host, port)
        except OSError as error:
            raise ConfigError(
                f"ottla.{name}.port: {host}:{port}: {error.strerror}; choose another (--{name}-port N, 0 for a free one), or "
                f"another ottla.{name}.host"
            ) from error
        self._server = await self._network.serve(lambda: HttpConnection(self._http), sock, BACKLOG)
        await self._server.start_serving()
        self.url = f"http://{f'[{host}]' if ':' in host else host or 'localhost'}:{sock.getsockname()[1]}"

    def close(self) -> None:
        """Gives up the address and closes all connections at once."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._http.abort()
