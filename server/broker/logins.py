"""The logins of a broker's listeners: made of the settings at the start, and anew when settings change. Only a broker that has a
listener with SASL loads this.

What is wrong with the settings is found before anything is opened. While the broker runs, only the settings of _CHANGEABLE may
change; how logins are checked is up to server.properties, so no client can turn a check off. A change that does not load leaves
the listener with what it has, and says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ottla.log.config_def import ConfigError
from ottla.server.dispatch.chain import Chain
from ottla.server.dispatch.routes import Dispatch
from ottla.server.metadata.tokens import settings_of
from ottla.server.security.credentials import Credentials
from ottla.server.security.failures import Failures
from ottla.server.security.kerberos_config import KRB5_CONFIG, KerberosConfig
from ottla.server.security.key_sets import ALLOWED_URLS, KeySets
from ottla.server.security.login import Logins, LoginSettings
from ottla.server.security.offered_mechanisms import JAAS_FILE, Parts, load_mechanisms, read_jaas_file
from ottla.server.security.settings import ListenerSecurity
from ottla.server.settings.broker_settings import LISTENER_PREFIX, base_name

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.network.listener import Listener
    from ottla.server.requests.context import BrokerContext
    from ottla.server.security.mechanism import Mechanism
    from ottla.server.settings.broker_config import BrokerConfig

_CHANGEABLE: Final = (
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
)
"""The settings of a listener that a client may change while the broker runs."""
_log = logging.getLogger("ottla.server.logins")


class ListenerLogins:
    """The logins of all listeners of one broker. Raises ConfigError if one of them cannot be made as the settings say."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, random: Random, read_bytes: Callable[[str], bytes], network: Network
    ) -> None:
        self._config = config
        self._clock = clock
        self._key_sets = KeySets(read_bytes, network.dial, clock)
        values = config.values
        self._parts = Parts(
            Credentials(settings_of(values).secret_key, clock, random),
            read_jaas_file(values[JAAS_FILE], read_bytes),
            random,
            clock.now_ms,
            values[ALLOWED_URLS],
            self._key_sets.open_now,
            KerberosConfig(values[KRB5_CONFIG]),
        )
        delay, free = values["connection.failed.authentication.delay.ms"], values["ottla.login.failures.per.minute"]
        self._failures = Failures(clock, delay, free)
        self._securities = {
            address.name: security
            for address in config.all_listeners
            if (security := ListenerSecurity(address.name, address.protocol, config.texts, values)).uses_sasl
            and (address.port or not config.is_controllers(address.name))  # otherwise it stays closed
        }
        self._logins: dict[str, list[Logins]] = {}  # several of a name where a test simulates several nodes
        self._chain = Chain()  # around what is served before a login: it has no links
        try:
            self._mechanisms = {name: load_mechanisms(security, self._parts) for name, security in self._securities.items()}
        except BaseException:
            self.close()
            raise

    def serve(self, listener: Listener, context: BrokerContext, role: str) -> None:
        """Has the clients of a listener log in, if its protocol says so. `role` is that of its dispatch."""
        security = self._securities.get(listener.name)
        if security is None:
            return
        self._parts.credentials.image = context.metadata
        mechanisms = self._mechanisms[listener.name]
        before = Dispatch(context, self._chain, role)
        logins = listener.logins = Logins(
            mechanisms,
            _settings(security, mechanisms, self._config),
            self._clock,
            self._failures,
            before.serve,
            listener.dispatch.serve,
        )
        self._logins.setdefault(listener.name, []).append(logins)

    def reconfigure(self, context: BrokerContext) -> None:
        """Applies the settings as they are now to later logins."""
        texts, values = context.settings.texts, context.settings.values
        self._failures.delay_ms = values["connection.failed.authentication.delay.ms"]
        for name, of_name in self._logins.items():
            old = self._securities[name]
            new = self._changed(old, texts, values)
            if _texts(old) == _texts(new):
                continue
            try:
                mechanisms = load_mechanisms(new, self._parts._replace(open_keys=self._key_sets.open_later))
                settings = _settings(new, mechanisms, self._config)
            except ConfigError as error:
                _log.error("the logins of %s stay as they were: %s", name, error)
                continue
            for logins in of_name:
                logins.mechanisms, logins.settings = mechanisms, settings
            self._securities[name] = new

    def check(self, texts: Mapping[str, str], values: Mapping[str, Any], written: Collection[str]) -> None:
        """Checks the settings that would count, as texts and as values, before a client's change is made that writes those in
        `written`. Raises ConfigError."""
        for name in written:
            if name.startswith(LISTENER_PREFIX) and base_name(name).startswith("sasl.") and base_name(name) not in _CHANGEABLE:
                raise ConfigError(f"{name}: it cannot change while the broker runs; write it into server.properties")
        if not any(base_name(name) in _CHANGEABLE for name in written):
            return
        parts = self._parts._replace(open_keys=self._key_sets.peek)
        for old in self._securities.values():
            new = self._changed(old, texts, values)
            _settings(new, load_mechanisms(new, parts), self._config)

    def _changed(self, old: ListenerSecurity, texts: Mapping[str, str], values: Mapping[str, Any]) -> ListenerSecurity:
        """Returns a listener's settings with those changes in `texts` that count while the broker runs."""
        changes = {name: text for name, text in texts.items() if base_name(name) in _CHANGEABLE}
        return ListenerSecurity(old.name, old.protocol, {**self._config.texts, **changes}, values)

    def close(self) -> None:
        """Ends the watch over logins under way, and the fetches of keys; no more are served. The environment has no Kerberos of
        this broker any more."""
        self._key_sets.close()
        self._parts.kerberos.close()
        for of_name in self._logins.values():
            for logins in of_name:
                logins.close()
        self._chain.close()


def _texts(security: ListenerSecurity) -> dict[str, str]:
    """Returns what is written of _CHANGEABLE for a listener and its mechanisms."""
    return {
        name: text
        for name, text in security.texts("").items()
        if not name.startswith(LISTENER_PREFIX) and name.endswith(_CHANGEABLE)
    }


def _settings(security: ListenerSecurity, mechanisms: dict[str, Mechanism], config: BrokerConfig) -> LoginSettings:
    values = config.values
    return LoginSettings(
        values["sasl.server.max.receive.size"],
        values["socket.request.max.bytes"],
        values["ottla.login.timeout.ms"],
        {name: security.of_mechanism(name, "connections.max.reauth.ms") for name in mechanisms},
    )
