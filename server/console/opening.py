"""Opens a console's port beside a broker that `ottla serve` runs: bound before the broker starts, so that an address that is
not available is reported at once, and watched once the broker serves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ottla.log.config_def import ConfigError
from ottla.security.console_access import address_of
from ottla.server.base.clock import LoopClock
from ottla.server.console.port import ConsolePort
from ottla.server.console.settings import HOST, PORT, addresses_for, read_settings
from ottla.server.inspect.ended_sessions import EndedSessions
from ottla.server.inspect.subject import Subject
from ottla.server.settings.listeners import CONSOLE

if TYPE_CHECKING:
    from random import Random

    from ottla.security.keystores import Identity, ReadFile
    from ottla.server.base.network import Network
    from ottla.server.broker.broker import Broker
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.testkit.console_questions import ConsoleQuestions

BACKLOG: Final = 64
_log: Final = logging.getLogger("ottla.server.console")


class OpenedConsole:
    """The console of a broker. `random` is for what nobody can guess; `read` returns the bytes of a file, and `now_ms` the time
    of day, by which a certificate is valid or not."""

    def __init__(self, config: BrokerConfig, network: Network, random: Random, read: ReadFile, now_ms: Callable[[], int]) -> None:
        """Binds the port. Raises ConfigError."""
        self._config = config
        self._read = read
        self._now_ms = now_ms
        self._settings = read_settings(config)
        self._keys = self._load_keys() if self._settings.has_tls else None
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
        self._token = random.randbytes(24).hex() if self._settings.makes_token else self._settings.token
        self._key = random.randbytes(32).hex()
        self._ended_sessions = EndedSessions()
        self._port: ConsolePort | None = None

    @property
    def url(self) -> str:
        """The address for browsers, with the token if it is a new one: whoever chose one knows it, and may not want it
        in a log."""
        shown = f"?token={quote(self._token or '', safe='')}" if self._settings.makes_token else ""
        return address_of(self._host, self._bound, None if self._keys is None else self._keys.host_names) + shown

    def _load_keys(self) -> Identity:
        """Returns the key for TLS, with its certificate. Raises ConfigError."""
        from ottla.security.keystores import load_identity  # a console without TLS has no use for it
        from ottla.server.security.settings import ListenerSecurity

        security = ListenerSecurity(CONSOLE, "SSL", self._config.texts, self._config.values)
        found = load_identity(security, self._read, self._now_ms())
        if self._settings.is_remote and not found.host_names:
            raise ConfigError(
                f"{security.written_name('ssl.keystore.location')}: the certificate names no host (subjectAltName), so no "
                "browser accepts it; make one with this machine's name"
            )
        return found

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
            "users": settings.users,
            "seen_by": None if settings.seen_by is None else sorted(settings.seen_by),
            "host": self._host,
            "port": self._bound,
            "token": self._token,
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
            living if under_test is None else under_test.living,
            clock,
            shows_inside=settings.shows_inside,
            more=more,
            ended_sessions=self._ended_sessions,
        )
        if under_test is not None:
            under_test.mark_faults_for(subject)
        self._port = ConsolePort(self._socket, subject, clock)
        self._port.watch(lambda: orders | self._tls_orders() | self._ended_sessions.orders())

    def _tls_orders(self) -> dict[str, Any]:
        """Returns what a process is told of TLS: the key and the certificate as they are now, if they can be used."""
        if self._keys is not None:
            try:
                self._keys = self._load_keys()
            except ConfigError as error:
                _log.error("the console goes on with the certificate that it has: %s", error)
        keys = self._keys
        return {"tls": None, "names": []} if keys is None else {"tls": keys.pem().decode(), "names": keys.host_names}

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
