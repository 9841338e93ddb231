"""Opens and closes, with the broker, the address at which metrics and health are served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.log.config_def import ConfigError
from ottla.server.metrics.health import reasons_not_ready

if TYPE_CHECKING:
    from ottla.server.base.network import Network
    from ottla.server.metrics.sources import Sources

PORT = "ottla.metrics.port"


class MetricsServer:
    """Serves `/metrics`, `/healthz` and `/readyz` of one broker. `url` is known once it is open."""

    def __init__(self, sources: Sources, network: Network) -> None:
        """Raises ConfigError if prometheus_client or h11 is not installed."""
        try:
            from ottla.server.http.port import HttpPort
            from ottla.server.http.responder import HttpServer, Page
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

        pages = {"/metrics": metrics, "/healthz": alive, "/readyz": ready}
        self._port = HttpPort(HttpServer(pages, sources.context.clock), network, "metrics")
        self._lag = sources.loop_lag = LoopLag(sources.context.clock)

    @property
    def url(self) -> str:
        """Returns the URL of the address, without a path."""
        return self._port.url

    async def open(self, host: str, port: int) -> None:
        """Binds the address and serves; port 0 means a free port. Raises ConfigError if the address cannot be bound."""
        await self._port.open(host, port)
        self._lag.start()

    def close(self) -> None:
        """Gives up the address and closes all connections at once."""
        self._port.close()
        self._lag.stop()
