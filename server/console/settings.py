"""The settings of a broker's console, and what a start refuses about them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.log.config_def import ConfigError, Secret
from ottla.server.broker.open_listeners import is_loopback
from ottla.server.settings.listeners import ANY_HOST

if TYPE_CHECKING:
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.settings.listeners import ListenerAddress

PORT: Final = "ottla.console.port"
HOST: Final = "ottla.console.host"
TOKEN: Final = "ottla.console.token"
NO_TOKEN: Final = "ottla.console.no.token"
READ_ONLY: Final = "ottla.console.read.only"
COMMAND_CONFIG: Final = "ottla.console.command.config"
MIN_TOKEN: Final = 16
_NEEDED: Final = ("starlette", "uvicorn", "jinja2", "h11", "confluent_kafka")


class ConsoleSettings(NamedTuple):
    """`token` is that of the settings, None for a new one; `needs_token` is False if everybody on this machine is let in."""

    port: int
    host: str
    token: str | None
    needs_token: bool
    read_only: bool
    command_config: str | None
    has_authorizer: bool

    @property
    def shows_inside(self) -> bool:
        """Whether pages may show what is inside the broker and its files, which no access rule covers: where there are rules,
        only to who has the token, who is whoever runs the broker."""
        return self.needs_token or not self.has_authorizer


def read_settings(config: BrokerConfig) -> ConsoleSettings:
    """Returns the settings of the console. Raises ConfigError for what is not safe, or cannot work."""
    values = config.values
    token = values[TOKEN].reveal() if isinstance(values[TOKEN], Secret) else None
    found = ConsoleSettings(
        values[PORT],
        values[HOST],
        token,
        not values[NO_TOKEN],
        values[READ_ONLY],
        values[COMMAND_CONFIG],
        bool(values["authorizer.class.name"]),
    )
    if not is_loopback(found.host):
        raise ConfigError(
            f"{HOST}: the console has no TLS, so it listens on this machine only, 127.0.0.1 or ::1, not {found.host!a}; "
            "from another one, use ssh -L"
        )
    if token is not None and (len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise ConfigError(f"{TOKEN}: has to be {MIN_TOKEN} letters or more, in ASCII, without spaces")
    if token is not None and not found.needs_token:
        raise ConfigError(f"{NO_TOKEN}: lets everybody on this machine in, but {TOKEN} is set; set one of them")
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"{PORT}: the console needs {', '.join(missing)}; pip install '.[console]', or start without it")
    if found.command_config is None and not any(each.protocol == "PLAINTEXT" for each in config.listeners):
        raise ConfigError(
            f"{PORT}: the console is a client, and no listener lets it in without TLS or a login; name a client.properties in "
            f"{COMMAND_CONFIG}, or add a PLAINTEXT listener on 127.0.0.1"
        )
    return found


def addresses_for(listeners: Sequence[ListenerAddress], ports: Sequence[int], advertised: Sequence[Any]) -> dict[str, str]:
    """Returns where a client on this machine reaches the broker, by security protocol: with PLAINTEXT at the address where it
    listens, at best on loopback, and else at the advertised one, whose name its certificate has. `ports` are those that were
    bound, and `advertised` the endpoints, both by listener."""
    found: dict[str, str] = {}
    order = sorted(
        range(len(listeners)), key=lambda at: (not is_loopback(listeners[at].host), listeners[at].host not in ANY_HOST)
    )
    for at in order:
        listener, endpoint = listeners[at], advertised[at]
        host = endpoint.host
        if listener.protocol == "PLAINTEXT":
            host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.host, listener.host)
        port = ports[at] if listener.protocol == "PLAINTEXT" else endpoint.port
        found.setdefault(listener.protocol, f"{f'[{host}]' if ':' in host else host}:{port}")
    return found
