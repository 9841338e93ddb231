"""Opens and closes, with the broker, the address at which metrics and health are served."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.log.config_def import ConfigError
from ottla.server.metrics.health import reasons_not_ready

if TYPE_CHECKING:
    from ottla.server.base.network import Network
    from ottla.server.metrics.sources import Sources

PORT = "ottla.metrics.port"
HOST = "ottla.metrics.host"
BACKLOG = 100


class MetricsServer:
    """Serves `/metrics`, `/healthz` and `/readyz` of one broker. `url` is known once it is open."""

    def __init__(self, sources: Sources, network: Network) -> None:
        """Raises ConfigError if prometheus_client or h11 is not installed."""
        try:
            from ottla.server.http.responder import HttpConnection, HttpServer, Page
            from ottla.server.metrics.exposition import CONTENT_TYPE, Exposition
            from ottla.server.metrics.loop_lag import LoopLag
        except ImportError as error:
            package = str(error.name).replace("_", "-")
            raise ConfigError(f"{PORT}: metrics need {error.name}, which is not installed: pip install {package}") from error
        exposition = Exposition(sources)

        def metrics() -> Page:
            return Page(exposition.pieces(), content_type=CONTENT_TYPE, is_long=True)

        def alive() -> Page:
            return Page((b"alive\n",))

        def ready() -> Page:
            reasons = reasons_not_ready(sources)
            return Page((("\n".join(reasons) + "\n").encode(),), 503) if reasons else Page((b"ready\n",))

        self._connect = HttpConnection
        self._http = HttpServer({"/metrics": metrics, "/healthz": alive, "/readyz": ready}, sources.context.clock)
        self._network = network
        self._lag = sources.loop_lag = LoopLag(sources.context.clock)
        self._server: asyncio.Server | None = None
        self.url = ""

    async def open(self, host: str, port: int) -> None:
        """Binds the address and serves; port 0 means a free port. Raises ConfigError if the address cannot be bound."""
        try:
            sock = self._network.bind(host, port)
        except OSError as error:
            raise ConfigError(
                f"{PORT}: {host}:{port}: {error.strerror}; choose another (--metrics-port N, 0 for a free one), or another {HOST}"
            ) from error
        port = sock.getsockname()[1]
        self._server = await self._network.serve(lambda: self._connect(self._http), sock, BACKLOG)
        await self._server.start_serving()
        self._lag.start()
        self.url = f"http://{f'[{host}]' if ':' in host else host or 'localhost'}:{port}"

    def close(self) -> None:
        """Gives up the address and closes all connections at once."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._http.abort()
        self._lag.stop()
