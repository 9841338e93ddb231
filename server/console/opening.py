"""Opens a console's port beside a broker that `ottla serve` runs: bound before the broker starts, so that an address that cannot
be had is said at once, and watched once it serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ottla.log.config_def import ConfigError
from ottla.server.base.clock import LoopClock
from ottla.server.console.port import ConsolePort
from ottla.server.console.settings import HOST, PORT, addresses_for, read_settings
from ottla.server.inspect.subject import Subject

if TYPE_CHECKING:
    from random import Random

    from ottla.server.base.network import Network
    from ottla.server.broker.broker import Broker
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.testkit.console_questions import ConsoleQuestions

BACKLOG: Final = 64


class OpenedConsole:
    """The console of a broker. `random` is for what nobody can guess."""

    def __init__(self, config: BrokerConfig, network: Network, random: Random) -> None:
        """Binds the port. Raises ConfigError."""
        self._config = config
        self._settings = read_settings(config)
        host = "127.0.0.1" if self._settings.host == "localhost" else self._settings.host
        try:
            self._socket = network.bind(host, self._settings.port)
            self._socket.listen(BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"{PORT}: {host}:{self._settings.port}: {error.strerror}; choose another (--console-port N, 0 for a free one), "
                f"or another {HOST}"
            ) from error
        self._socket.setblocking(False)
        self._host = host
        self._token = self._settings.token or random.randbytes(24).hex()
        self._key = random.randbytes(32).hex()
        self._port: ConsolePort | None = None

    @property
    def url(self) -> str:
        """The address for browsers, with the token if it is a new one: whoever chose one knows it, and may not want it
        in a log."""
        settings = self._settings
        shown = f"?token={quote(self._token, safe='')}" if settings.needs_token and settings.token is None else ""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._bound}/{shown}"

    @property
    def _bound(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def watch(self, living: Callable[[], Broker], under_test: ConsoleQuestions | None = None) -> None:
        """Starts a console with the first connection from now on. `living` returns the broker that runs then; it serves
        already. `under_test` answers what is asked of its test kit, if it has one."""
        broker, settings, clock = living(), self._settings, LoopClock()
        ports = [listener.port for listener in broker.listeners]
        orders = {
            "host": self._host,
            "port": self._bound,
            "token": self._token if settings.needs_token else None,
            "key": self._key,
            "read_only": settings.read_only,
            "command_config": settings.command_config,
            "addresses": addresses_for(self._config.listeners, ports, broker.endpoints),
            "shows_inside": settings.shows_inside,
            "directories": list(self._config.all_log_dirs) if settings.shows_inside else [],
            "is_under_test": under_test is not None and settings.shows_inside,
        }
        more = {} if under_test is None else under_test.questions
        subject = Subject(
            living if under_test is None else under_test.living, clock, shows_inside=settings.shows_inside, more=more
        )
        if under_test is not None:
            under_test.mark_faults_for(subject)
        self._port = ConsolePort(self._socket, subject, clock)
        self._port.watch(orders)

    def end(self) -> None:
        """Stops listening, and asks the console's process to end."""
        if self._port is None:
            self._socket.close()
        else:
            self._port.end()

    async def close(self) -> None:
        """Ends all of it."""
        self.end()
        if self._port is not None:
            await self._port.close()
