"""`ClientSecurity`: how this node connects to a listener of other nodes that is not PLAINTEXT, by TLS, SASL or both.

It has the settings of its own listener of that name, as in Kafka: nodes of a cluster are configured alike. The keystore is what
this node shows if the other one asks for a certificate, the truststore says whose certificates are taken, and the login module of
the mechanism has, beside the users whom a listener knows, the `username` and `password` by which this node logs in to others.

Contexts of TLS are made anew when the files of the stores have changed, which is looked at for each new connection. What cannot
be used then is said in the log, and the old context stays. No broker that talks to others in plain text loads this module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.config_def import ConfigError, Secret
from ottla.security import sasl_client
from ottla.server.security.offered_mechanisms import ENABLED, login_module, nonces
from ottla.server.security.settings import look_at_stores

if TYPE_CHECKING:
    import ssl
    from random import Random

    from ottla.security.jaas import Module
    from ottla.security.keystores import ReadFile
    from ottla.security.sasl_client import Messages
    from ottla.server.security.settings import ListenerSecurity

MOST_ITERATIONS: Final = 16_384
"""So many iterations a user of SCRAM can have at most, in Kafka as here (server/metadata/scram.py). The event loop computes them,
so whoever asks for more is not answered."""

logger = logging.getLogger("ottla.server.peers")


class SaslLogin(NamedTuple):
    """The name and password by which this node logs in to others, by a mechanism of security/sasl_client.py."""

    mechanism: str
    name: str
    password: Secret
    make_nonce: Callable[[], str]

    def begin(self) -> Messages:
        """Returns the messages of a new login."""
        return sasl_client.log_in(self.mechanism, self.name, self.password.reveal(), self.make_nonce(), MOST_ITERATIONS)


class Surroundings(NamedTuple):
    """The means by which settings are carried out: a reader of files, randomness, the wall time in ms, the sections of the JAAS
    file."""

    read: ReadFile
    random: Random
    now_ms: Callable[[], int]
    sections: Callable[[], Mapping[str, tuple[Module, ...]]]


class ClientSecurity:
    """The security of connections to one listener of other nodes; see the module's docstring. `current` returns the settings as
    they are now, and `mechanism` is the name of the setting that names the mechanism of SASL. Raises ConfigError, which begins
    with a setting, if anything cannot be used.
    """

    def __init__(self, current: Callable[[], ListenerSecurity], mechanism: str, surroundings: Surroundings) -> None:
        security = current()
        self.current = current
        self._surroundings = surroundings
        self._seen: object = None
        self._context: ssl.SSLContext | None = None
        self.login = _make_login(security, mechanism, surroundings) if security.uses_sasl else None
        """The way in which this node logs in; None if it does not."""
        if security.uses_tls:
            self._seen = look_at_stores(security, self._surroundings.read)
            self._context = self._make(security)

    def context(self) -> ssl.SSLContext | None:
        """Returns the context for a new connection, None if it is not encrypted. Any thread may call this."""
        if self._context is None:
            return None
        security = self.current()
        seen = look_at_stores(security, self._surroundings.read)
        if seen != self._seen:
            self._seen = seen
            try:
                self._context = self._make(security)
            except ConfigError as error:
                logger.error("connections to other nodes keep the certificates that they had: %s", error)
        return self._context

    def _make(self, security: ListenerSecurity) -> ssl.SSLContext:
        from ottla.server.security.tls import make_client_context

        return make_client_context(security, self._surroundings.read, self._surroundings.now_ms())


def _make_login(security: ListenerSecurity, setting: str, surroundings: Surroundings) -> SaslLogin:
    """Returns how this node logs in at the listeners of this name. Raises ConfigError."""
    mechanism: str = security[setting]
    if mechanism not in sasl_client.MECHANISMS:
        raise ConfigError(
            f"{setting}: ottla does not log in to other nodes by {mechanism}; use {', '.join(sasl_client.MECHANISMS[:-1])} or "
            f"{sasl_client.MECHANISMS[-1]}"
        )
    module, place = login_module(mechanism, security, surroundings.sections())
    name, password = (module.option(option) for option in ("username", "password"))
    if name is None or password is None:
        raise ConfigError(f"{place}: it has no username and password, by which this node logs in to others ({setting}); add both")
    return SaslLogin(mechanism, name, Secret(password), nonces(surroundings.random))


def check_enabled(security: ListenerSecurity, setting: str) -> None:
    """Raises ConfigError if the other nodes, which are configured alike, could not log in to this one by the mechanism that they
    use."""
    if security.uses_sasl and security[setting] not in security[ENABLED]:
        raise ConfigError(
            f"{setting}: {security[setting]} is not enabled at listener {security.name}, so no broker could log in to another; "
            f"add it to {security.written_name(ENABLED)}"
        )
