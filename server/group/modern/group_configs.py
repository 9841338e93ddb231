"""`GroupConfigs` returns settings that may be set for each group: the group's own value within the broker's bounds, or else the
broker's.

A group's `consumer.session.timeout.ms` is kept between the broker's `group.consumer.min.session.timeout.ms` and `...max...`,
whatever was set for it. Without it the broker's own `group.consumer.session.timeout.ms` counts, which can be changed for all
brokers while they run. The same is true of the other kinds of groups, whose settings begin with the name of the kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.server.group.cluster import Cluster

_GROUP_RESOURCE: Final = 32
_BROKER_RESOURCE: Final = 4
_ALL_BROKERS: Final = ""


class GroupConfigs:
    """The settings of groups. `broker` holds the values that the broker was started with, by name."""

    def __init__(self, broker: Mapping[str, object], cluster: Cluster) -> None:
        self._broker = broker
        self._cluster = cluster

    def text(self, group_id: str, name: str) -> str | None:
        """Returns the text that was set for the group, or None."""
        return self._cluster.config_of(_GROUP_RESOURCE, group_id).get(name)

    def number(self, group_id: str, name: str) -> int:
        """Returns a number that may be set for the group, such as `consumer.session.timeout.ms`."""
        text = self.text(group_id, name)
        value = None if text is None else _number(text)
        if value is None:
            return self.broker_number(f"group.{name}")
        kind, _, what = name.partition(".")
        low, high = self._broker.get(f"group.{kind}.min.{what}"), self._broker.get(f"group.{kind}.max.{what}")
        value = min(value, high) if isinstance(high, int) else value
        return max(value, low) if isinstance(low, int) else value

    def broker_number(self, name: str) -> int:
        """Returns the present value of one of the broker's numbers: a value that was set for all brokers takes precedence."""
        text = self._cluster.config_of(_BROKER_RESOURCE, _ALL_BROKERS).get(name)
        value = None if text is None else _number(text)
        found = self.broker_value(name) if value is None else value
        assert isinstance(found, int), name
        return found

    def broker_value(self, name: str) -> object:
        """Returns the value of a setting that the broker was started with, or the setting's default."""
        if name in self._broker:
            return self._broker[name]
        from ottla.server.settings.broker_settings import BROKER_SETTINGS  # only tests have groups without a broker

        return BROKER_SETTINGS[name].default


def _number(text: str) -> int | None:
    """Returns the number, or None for a text that is not one: another broker may have written anything."""
    try:
        return int(text)
    except ValueError:
        return None
