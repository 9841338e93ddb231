"""CurrentSettings answers which value of a broker's setting counts now, and which of a topic's.

A setting may be written at three levels: in the configuration with which the broker was started, for all brokers while they ran,
and for this broker while it ran. The last two are records of the cluster's metadata. Each level overrides the ones before it.
sources.py says where a value comes from, level by level; here is only the result, for the code that acts on it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.log.config import LogConfig, parseable
from ottla.log.config_def import ConfigError
from ottla.server.settings.broker_settings import BROKER_SETTINGS

if TYPE_CHECKING:
    from ottla.server.settings.broker_config import BrokerConfig

_log = logging.getLogger("ottla.server.config")

ALL_BROKERS: Final = ""
"""The name under which the metadata keeps what was set for all brokers."""


class DynamicTexts(Protocol):
    """Looks up the settings that were written while brokers ran."""

    def __call__(self, broker: str, /) -> Mapping[str, str]:
        """Returns the settings written for the broker of this id, or for ALL_BROKERS, as text by name. The result must be the
        same object until one of them changes, and another one then."""
        ...


class CurrentSettings:
    """The settings of one broker as they are now. `current["num.partitions"]` is a parsed value.

    It need not be notified of changes: each access looks up the dynamic settings, which takes two dictionary look-ups.
    """

    __slots__ = ("_common", "_dynamic", "_own", "_own_name", "_values", "config")

    def __init__(self, config: BrokerConfig, dynamic: DynamicTexts) -> None:
        self.config = config
        self._dynamic = dynamic
        self._own_name = str(config.node_id)
        self._common: Mapping[str, str] = {}
        self._own: Mapping[str, str] = {}
        self._values: Mapping[str, Any] = config.values

    def __getitem__(self, name: str) -> Any:
        """Returns the parsed value of one setting. Raises KeyError if neither Kafka nor ottla has such a setting."""
        return self.values[name]

    @property
    def values(self) -> Mapping[str, Any]:
        """All settings of Kafka and of ottla, parsed, by name; it is the same object until a dynamic setting changes."""
        common, own = self._dynamic(ALL_BROKERS), self._dynamic(self._own_name)
        if self._common is not common or self._own is not own:
            self._common, self._own, self._values = common, own, overlaid(self.config.values, common, own)
        return self._values

    @property
    def common(self) -> Mapping[str, str]:
        """The settings that were written for all brokers while they ran, as text by name."""
        return self._dynamic(ALL_BROKERS)

    @property
    def own(self) -> Mapping[str, str]:
        """The settings that were written for this broker while it ran, as text by name."""
        return self._dynamic(self._own_name)

    @property
    def texts(self) -> Mapping[str, str]:
        """All settings that were written at any level, each as the text of its strongest level, unknown names included."""
        return {**self.config.texts, **self.common, **self.own}

    def of_topic(self, topic: str, own: Mapping[str, str]) -> LogConfig:
        """Returns the settings of a topic for which `own` were set, as text by name: these, else the broker's as they are now. A
        text that does not parse is ignored, with a warning.
        """
        return LogConfig.from_overrides(parseable(topic, own), self.values)

    def values_with(self, broker: str, texts: Mapping[str, str]) -> Mapping[str, Any]:
        """Returns the values that would count if `texts` were all that is set for `broker`: ALL_BROKERS, or any other name for
        this broker."""
        if broker == ALL_BROKERS:
            return overlaid(self.config.values, texts, self.own)
        return overlaid(self.config.values, self.common, texts)

    def texts_with(self, broker: str, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Returns what `self.texts` would be if `texts` were all that is set for `broker`, which is as in `values_with`."""
        if broker == ALL_BROKERS:
            return {**self.config.texts, **texts, **self.own}
        return {**self.config.texts, **self.common, **texts}


def overlaid(values: Mapping[str, Any], *layers: Mapping[str, str]) -> Mapping[str, Any]:
    """Returns `values` overridden by dynamic settings (text, as in ConfigRecords), where later layers override earlier ones.

    If a setting exists in several units, writing one of them puts the others back to their defaults, so that it counts alone. A
    text that does not parse is ignored, with a warning: a version with other bounds wrote it, and the broker must run.
    """
    if not any(layers):
        return values
    result = dict(values)
    for layer in layers:
        for name, text in layer.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None or not setting.dynamic:
                continue
            try:
                value = setting.parse(text)
            except ConfigError as error:
                _log.warning("a dynamic setting is ignored: %s", error)
                continue
            result.update((each, BROKER_SETTINGS[each].default) for each in setting.synonyms)
            result[name] = value
    return result
