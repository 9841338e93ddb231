"""Settings that groups may have of their own: the group's, within the broker's bounds, or else the broker's.

A group's `consumer.session.timeout.ms` is held between the broker's `group.consumer.min.session.timeout.ms` and `...max...`,
whatever was written for it; the broker's own `group.consumer.session.timeout.ms` is what holds without it, and may be changed for
all brokers while they run. The same goes for the other kinds of groups, whose names begin with theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.server.group.cluster import Cluster

_GROUP_RESOURCE: Final = 32
_BROKER_RESOURCE: Final = 4
_ALL_BROKERS: Final = ""


class GroupConfigs:
    """`broker` holds the values that the broker was started with, by name."""

    def __init__(self, broker: Mapping[str, object], cluster: Cluster) -> None:
        self._broker = broker
        self._cluster = cluster

    def text(self, group_id: str, name: str) -> str | None:
        """Returns what was set for the group, as it was written, or None."""
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
        """Returns one of the broker's numbers as it is now: what was set for all brokers counts first."""
        text = self._cluster.config_of(_BROKER_RESOURCE, _ALL_BROKERS).get(name)
        value = None if text is None else _number(text)
        found = self.broker_value(name) if value is None else value
        assert isinstance(found, int), name
        return found

    def broker_value(self, name: str) -> object:
        """Returns one of the broker's settings as it was started with, or its default."""
        if name in self._broker:
            return self._broker[name]
        from ottla.server.settings.broker_settings import BROKER_SETTINGS  # a group without a broker: a test

        return BROKER_SETTINGS[name].default


def _number(text: str) -> int | None:
    """Returns None for a text that is no number: other brokers may have written anything."""
    try:
        return int(text)
    except ValueError:
        return None
