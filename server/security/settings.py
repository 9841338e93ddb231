"""ListenerSecurity: what one listener's security settings are, with Kafka's precedence.

A setting of TLS or SASL may be written for one mechanism of a listener, for the listener, or for the broker:

    listener.name.<listener>.<mechanism>.<setting>
    listener.name.<listener>.<setting>
    <setting>

The longest name that is written counts, else the default. Names of listeners and mechanisms are in lower case there. A name may
be written at several levels (for this broker while it runs, for all brokers, in the file); CurrentSettings knows which level
counts, so a name that is written dynamically never overrides a longer one from the file.

A ListenerSecurity is a value: after a change of settings there is a new one, and comparing `texts` of the two says what changed.
No broker whose listeners are all PLAINTEXT loads this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.server.settings.broker_settings import BROKER_SETTINGS, LISTENER_PREFIX, OF_ONE_MECHANISM

TLS: Final = frozenset({"SSL", "SASL_SSL"})
"""The security protocols whose connections are encrypted."""
SASL: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
"""The security protocols whose clients log in by SASL."""
STORES: Final = ("ssl.keystore.location", "ssl.truststore.location")
"""The settings that name files of keys and certificates."""


class ListenerSecurity:
    """The security settings of the listener `name`, whose security protocol is `protocol`.

    `texts` are the broker's settings as they are written, the strongest level of each name (`CurrentSettings.texts`), and
    `values` the parsed values of those without a listener's name (`CurrentSettings.values`).
    """

    __slots__ = ("_prefix", "_texts", "_values", "name", "protocol")

    def __init__(self, name: str, protocol: str, texts: Mapping[str, str], values: Mapping[str, Any]) -> None:
        self.name = name
        self.protocol = protocol
        self._prefix = f"{LISTENER_PREFIX}{name.lower()}."
        self._texts = texts
        self._values = values

    @property
    def uses_tls(self) -> bool:
        """Returns whether connections are encrypted."""
        return self.protocol in TLS

    @property
    def uses_sasl(self) -> bool:
        """Returns whether clients have to log in before anything else."""
        return self.protocol in SASL

    def __getitem__(self, setting: str) -> Any:
        """Returns the parsed value of a setting for this listener. Raises KeyError if there is no such setting, and ConfigError,
        which begins with the name as it is written, if the text does not parse."""
        return self.of_mechanism("", setting)

    def of_mechanism(self, mechanism: str, setting: str) -> Any:
        """Returns the parsed value of a setting for one SASL mechanism of this listener. Raises what `__getitem__` raises."""
        return self.at(self.written_name(setting, mechanism))

    def written_name(self, setting: str, mechanism: str = "") -> str:
        """Returns the name under which the value of `setting` is written, for messages and for those who have to know how it is
        written: the longest, or `setting` itself if it is written nowhere."""
        return next((name for name in self.names_of(setting, mechanism) if name in self._texts), setting)

    def names_of(self, setting: str, mechanism: str = "") -> tuple[str, ...]:
        """Returns the names under which `setting` may be written, in the order in which they count."""
        own = f"{self._prefix}{setting}"
        if mechanism and setting in OF_ONE_MECHANISM:
            return f"{self._prefix}{mechanism.lower()}.{setting}", own, setting
        return own, setting

    def at(self, name: str) -> Any:
        """Returns the parsed value that is written under exactly this name, or the default if it is not written. Raises what
        `__getitem__` raises."""
        setting = BROKER_SETTINGS[_setting_of(name, self._prefix)]
        if setting.name == name:
            return self._values[name]
        text = self._texts.get(name)
        return setting.default if text is None else setting._replace(name=name).parse(text)

    def texts(self, beginning: str) -> dict[str, str]:
        """Returns what is written for this listener and for all, of the settings whose names have this beginning, by their names
        without the listener's: what is compared to see whether something changed. Do not log it: passwords are in it."""
        found = {name: text for name, text in self._texts.items() if name.startswith(beginning)}
        own = self._prefix + beginning
        return found | {name[len(self._prefix) :]: text for name, text in self._texts.items() if name.startswith(own)}


def _setting_of(name: str, prefix: str) -> str:
    """Returns the setting that a name with the listener's prefix writes; any other name is a setting itself."""
    if not name.startswith(prefix):
        return name
    rest = name[len(prefix) :]
    return next((setting for setting in OF_ONE_MECHANISM if rest.endswith(f".{setting}")), rest)


def look_at_stores(security: ListenerSecurity, read: Callable[[str], bytes]) -> object:
    """Returns something that is another one once a setting of TLS or a byte in the stores has changed."""
    files = []
    for name in STORES:
        path = security[name]
        try:
            files.append(hashlib.sha256(read(path)).digest() if path else b"")
        except OSError as error:  # the file may be missing for the moment in which it is replaced
            files.append(str(error).encode())
    return security.texts("ssl."), files
