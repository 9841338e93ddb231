"""The settings of a broker's console, and what a start refuses about them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.log.config_def import ConfigError, Secret
from ottla.security.addresses import is_loopback
from ottla.security.console_access import missing_packages, token_problem
from ottla.server.settings.authorizer_settings import AuthorizerSettings
from ottla.server.settings.broker_settings import LISTENER_PREFIX
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
USERS: Final = "ottla.console.users"
KEYSTORE: Final = f"{LISTENER_PREFIX}console.ssl.keystore.location"
OF_USER: Final = "User:"
KEYSTORES: Final = ("ssl.keystore.location", "ssl.keystore.key")


class ConsoleSettings(NamedTuple):
    """`token` is that of the settings; `lets_all_in` says that everybody on this machine needs none. `seen_by` are the users who
    see what is inside the broker and its files, which no access rule covers: with an authorizer its super users, else None for
    all."""

    port: int
    host: str
    token: str | None
    lets_all_in: bool
    read_only: bool
    command_config: str | None
    has_authorizer: bool
    users: str | None
    has_tls: bool
    seen_by: frozenset[str] | None

    @property
    def is_remote(self) -> bool:
        """Returns whether other machines reach the console."""
        return not is_loopback(self.host)

    @property
    def makes_token(self) -> bool:
        """Returns whether each start makes a token and prints it. Where other machines ask, there are users instead."""
        return self.token is None and not self.lets_all_in and not self.is_remote

    @property
    def shows_inside(self) -> bool:
        """Returns whether pages may show what is inside the broker and its files: where there are access rules, only to
        whoever has the token, which is who runs the broker, and to super users."""
        return not (self.has_authorizer and self.lets_all_in)


def read_settings(config: BrokerConfig) -> ConsoleSettings:
    """Returns the settings of the console. Raises ConfigError for what is not safe, or cannot work."""
    values = config.values
    token = values[TOKEN].reveal() if isinstance(values[TOKEN], Secret) else None
    found = ConsoleSettings(
        values[PORT],
        values[HOST],
        token,
        values[NO_TOKEN],
        values[READ_ONLY],
        values[COMMAND_CONFIG],
        bool(values["authorizer.class.name"]),
        values[USERS] or None,
        has_tls=not is_loopback(values[HOST]) or _has_own_keystore(config),
        seen_by=_super_users(config),
    )
    _check_who(found)
    if found.is_remote:
        _check_remote(found, config)
    if missing := missing_packages():
        raise ConfigError(f"{PORT}: the console needs {', '.join(missing)}; pip install '.[console]', or start without it")
    if found.command_config is None and not any(each.protocol == "PLAINTEXT" for each in config.listeners):
        raise ConfigError(
            f"{PORT}: the console is a client, and no listener lets it in without TLS or a login; name a client.properties in "
            f"{COMMAND_CONFIG}, or add a PLAINTEXT listener on 127.0.0.1"
        )
    return found


def _check_who(found: ConsoleSettings) -> None:
    """Raises ConfigError if it is not clear who is let in, or the users cannot be read."""
    token = found.token
    if token is not None and (problem := token_problem(token)):
        raise ConfigError(f"{TOKEN}: {problem}")
    for name, value in ((TOKEN, token), (USERS, found.users)):
        if value is not None and found.lets_all_in:
            raise ConfigError(f"{NO_TOKEN}: lets everybody on this machine in, but {name} is set; set one of them")
    if found.users is not None:
        from ottla.security.password_file import BadPasswordFile, read_users

        try:
            read_users(found.users)
        except BadPasswordFile as error:
            raise ConfigError(f"{USERS}: {error}") from None


def _check_remote(found: ConsoleSettings, config: BrokerConfig) -> None:
    """Raises ConfigError if other machines reach the console, and it has no TLS or no users of its own."""
    try:
        ipaddress.ip_address(found.host)
    except ValueError:
        raise ConfigError(
            f"{HOST}: {found.host!a} is not an address; use 127.0.0.1, or 0.0.0.0 for all of this machine's"
        ) from None
    if found.lets_all_in:
        raise ConfigError(f"{NO_TOKEN}: lets everybody in who reaches the console, and other machines reach {found.host}")
    has_keystore = _has_own_keystore(config) or any(config.values[name] for name in KEYSTORES)
    missing = [] if has_keystore else [KEYSTORE]
    missing += [] if found.users else [USERS]
    if missing:
        raise ConfigError(
            f"{HOST}: other machines reach {found.host}, so the console needs TLS and users of its own; set "
            f"{' and '.join(missing)} (docs/console.md), or listen on 127.0.0.1 and use ssh -L"
        )


def _has_own_keystore(config: BrokerConfig) -> bool:
    """Returns whether the console has a keystore that is not the broker's."""
    return any(f"{LISTENER_PREFIX}console.{name}" in config.texts for name in KEYSTORES)


def _super_users(config: BrokerConfig) -> frozenset[str] | None:
    """Returns the names of the authorizer's super users, None without an authorizer."""
    if not config.values["authorizer.class.name"]:
        return None
    principals = AuthorizerSettings.from_texts(config.texts).super_users
    return frozenset(each.removeprefix(OF_USER) for each in principals if each.startswith(OF_USER))


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
