"""CurrentSettings answers which value of a broker's setting counts now.

A setting may be written at three levels: in what the broker was started with, for all brokers while they ran, and for this broker
while it ran. The last two are records of the cluster's metadata. Each level beats the ones before it. Where a value comes from,
level by level, is the business of sources.py; here is only the result, for the code that acts on it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.log.config_def import ConfigError
from ottla.server.settings.broker_settings import BROKER_SETTINGS

if TYPE_CHECKING:
    from ottla.server.settings.broker_config import BrokerConfig

_log = logging.getLogger("ottla.server.config")

ALL_BROKERS: Final = ""
"""The name under which the metadata keep what was set for all brokers."""


class DynamicTexts(Protocol):
    """Looks up what was set while brokers ran."""

    def __call__(self, broker: str, /) -> Mapping[str, str]:
        """Returns the settings written for the broker of this id, or for ALL_BROKERS, as text by name. Whoever answers must give
        the same object until one of them changes, and another one then."""
        ...


class CurrentSettings:
    """The settings of one broker as they are now. `current["num.partitions"]` is a parsed value.

    Nobody has to notify it of a change: each question looks the dynamic settings up, which costs two look-ups in a dictionary.
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
        """Returns the parsed value of one setting. Raises KeyError where neither Kafka nor ottla has such a setting."""
        return self.values[name]

    @property
    def values(self) -> Mapping[str, Any]:
        """Returns all settings of Kafka's and of ottla's, parsed, by name; the same object until a dynamic setting changes."""
        common, own = self._dynamic(ALL_BROKERS), self._dynamic(self._own_name)
        if self._common is not common or self._own is not own:
            self._common, self._own, self._values = common, own, overlaid(self.config.values, common, own)
        return self._values

    @property
    def common(self) -> Mapping[str, str]:
        """Returns what was set for all brokers while they ran, as text."""
        return self._dynamic(ALL_BROKERS)

    @property
    def own(self) -> Mapping[str, str]:
        """Returns what was set for this broker while it ran, as text."""
        return self._dynamic(self._own_name)

    @property
    def texts(self) -> Mapping[str, str]:
        """Everything that somebody wrote, the strongest level only, as text; names that no table has are among them."""
        return {**self.config.texts, **self.common, **self.own}

    def values_with(self, broker: str, texts: Mapping[str, str]) -> Mapping[str, Any]:
        """Returns what would count if `texts` were all that is set for `broker`: ALL_BROKERS, or any other name for this one."""
        if broker == ALL_BROKERS:
            return overlaid(self.config.values, texts, self.own)
        return overlaid(self.config.values, self.common, texts)


def overlaid(values: Mapping[str, Any], *layers: Mapping[str, str]) -> Mapping[str, Any]:
    """`values` with dynamic settings (text, as in ConfigRecords) laid over them, later layers on top.

    One that has a family (the same in other units) puts the rest of it back to the defaults, so that it counts alone. A text that
    does not parse counts as not there: it was written by somebody with other bounds, and the broker must run.
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
                _log.warning("dynamic setting ignored: %s", error)
                continue
            result.update((each, BROKER_SETTINGS[each].default) for each in setting.synonyms)
            result[name] = value
    return result
