"""The listeners of a broker whose security protocol is not PLAINTEXT: made from their settings, and kept up to date with them.

Contexts of TLS are made anew when their settings change, when a client writes the same setting again, when the program gets
SIGHUP, and when a file has changed, which is looked at every RELOAD_PASS_INTERVAL_MS. What cannot be used is refused: to the
client that asked for it, or else in the log, and then the old context stays.

A broker whose listeners encrypt nothing does not load this module, nor what is behind it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.log.config_def import ConfigError
from ottla.log.management.identity import read_identities
from ottla.server.network.tls_listener import TlsListener
from ottla.server.security.settings import STORES, ListenerSecurity
from ottla.server.security.tls import TlsContexts
from ottla.server.settings.broker_settings import base_name

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk
    from ottla.server.base.clock import Clock
    from ottla.server.network.context import NetworkContext
    from ottla.server.network.listener import Listener
    from ottla.server.network.owner import Serves
    from ottla.server.network.socket_settings import SocketSettings
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.settings.current import CurrentSettings
    from ottla.server.settings.listeners import ListenerAddress

logger = logging.getLogger("ottla.server.listener")

RELOAD_PASS_INTERVAL_MS: Final = 60_000


class SecuredListeners:
    """Makes the secured listeners of one broker, whose settings are `current`."""

    interval_ms: Final = RELOAD_PASS_INTERVAL_MS

    def __init__(self, current: CurrentSettings, disk: Disk, clock: Clock) -> None:
        self._current = current
        self._disk = disk
        self._clock = clock
        self._listeners: dict[TlsListener, ListenerAddress] = {}

    def make(self, address: ListenerAddress, network: NetworkContext, dispatch: Serves, settings: SocketSettings) -> Listener:
        """Returns the listener of this address. Raises ConfigError, which begins with a setting, if it cannot be secured as the
        settings say."""
        contexts = TlsContexts(self._security(address, self._current.texts, self._current.values), *self._surroundings())
        listener = TlsListener(address.name, network, dispatch, settings, contexts)
        self._listeners[listener] = address
        logger.info(
            "listener %s is %s, which ends %s", address.name, contexts.subject or "without a name", _day(contexts.expires_ms)
        )
        return listener

    def _surroundings(self) -> tuple[Any, int]:
        return self._disk.read_bytes, self._clock.now_ms()

    @staticmethod
    def _security(address: ListenerAddress, texts: Mapping[str, str], values: Mapping[str, Any]) -> ListenerSecurity:
        return ListenerSecurity(address.name, address.protocol, texts, values)

    def reload(self) -> None:
        """Has each listener take what has changed in its settings and files; says in the log what is new, and what is refused."""
        for listener, address in self._listeners.items():
            security = self._security(address, self._current.texts, self._current.values)
            try:
                changed = listener.tls.reload(security, self._clock.now_ms())
            except ConfigError as error:
                logger.error("listener %s keeps its certificate, because the new one cannot be used: %s", address.name, error)
                continue
            if changed:
                logger.info(
                    "listener %s has a new certificate, %s, which ends %s",
                    address.name,
                    listener.tls.subject,
                    _day(listener.tls.expires_ms),
                )

    def check(self, texts: Mapping[str, str], values: Mapping[str, Any], written: Collection[str]) -> None:
        """Checks the settings that would count, as texts and as values, before a client's change is made that writes those in
        `written`. Raises ConfigError.

        A client may not have the broker read whatever file it likes: a new store has to be in the directory of the present one.
        """
        if not any(base_name(name).startswith("ssl.") for name in written):
            return
        for listener, address in self._listeners.items():
            old = self._security(address, self._current.texts, self._current.values)
            new = self._security(address, texts, values)
            for setting in STORES:
                if new.written_name(setting) in written:
                    _check_place(new.written_name(setting), old[setting], new[setting])
            listener.tls.check(new, self._clock.now_ms())


def check_before_formatting(config: BrokerConfig, disk: Disk, clock: Clock) -> None:
    """Checks the listeners of a broker whose log directories are all new, so that a start that fails leaves nothing behind. In
    used ones there may be settings that were written while a broker ran. Raises ConfigError."""
    if read_identities(disk, config.all_log_dirs).formatted:
        return
    for address in config.all_listeners:
        security = ListenerSecurity(address.name, address.protocol, config.texts, config.values)
        if security.uses_tls:
            TlsContexts(security, disk.read_bytes, clock.now_ms())


def _check_place(name: str, old: str | None, new: str | None) -> None:
    """Raises ConfigError if a store would not be in the directory of the old one."""
    if not new:
        return
    folder = os.path.dirname(os.path.abspath(old)) if old else None
    if folder is None or os.path.dirname(os.path.abspath(new)) != folder:
        where = f"{folder}, where the present one is" if folder else "the file of settings, where there is none"
        raise ConfigError(f"{name}: a client may only name a store in {where}; write other places into server.properties")


def _day(time_ms: int) -> str:
    from datetime import UTC, datetime

    return f"on {datetime.fromtimestamp(time_ms / 1000, UTC).date()}"
