"""Logs settings that are in the metadata and have no effect, so that nobody takes it for a promise that they were accepted.

ottla accepts, keeps and describes every setting of Kafka's, because clients and tools rely on that; docs/settings.md lists those
that do nothing here, with the reasons. What a broker is started with is logged by server/program/serve.py. The rest comes from
clients, or with a directory of Apache Kafka's: settings of topics, groups and subscriptions, and the broker's own that were set
while it ran. One line at the start names all of them that there are; later each is named the first time that it is set.

A setting whose value is its default asks for nothing, and is not named; neither is what ottla itself sets for internal topics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.log.config import TOPIC_SETTINGS
from ottla.log.config_def import Setting, text_of
from ottla.server.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC
from ottla.server.metadata.names import INTERNAL_TOPICS
from ottla.server.settings.broker_settings import BROKER_SETTINGS, base_name, is_idle
from ottla.server.settings.group_settings import GROUP_SETTINGS

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage

logger = logging.getLogger("ottla.server.broker")

_TABLES: Final[Mapping[int, Mapping[str, Setting]]] = {TOPIC: TOPIC_SETTINGS, GROUP: GROUP_SETTINGS}
_KINDS: Final = {TOPIC: "topic", BROKER: "broker", GROUP: "group", CLIENT_METRICS: "client-metrics subscription"}
SUBSCRIPTIONS: Final = "subscriptions to client metrics (they need ottla.client.metrics=true)"


class IdleSettings:
    """Logs the settings without effect in one broker's metadata, each once. `asks_clients`: whether clients are asked for the
    metrics that subscriptions name."""

    def __init__(self, image: MetadataImage, *, asks_clients: bool) -> None:
        self._image = image
        self._asks_clients = asks_clients
        self._named: set[str] = set()  # never more than there are settings

    def log_present(self) -> None:
        """Logs one line with all that are in the metadata now, if there are any."""
        counts: dict[str, int] = {}
        for kind, name in self._image.configs:
            for idle in self._idle_of(kind, name):
                counts[idle] = counts.get(idle, 0) + 1
        if counts:
            times = (f"{idle} ({count:,} times)" if count > 1 else idle for idle, count in sorted(counts.items()))
            logger.info("the metadata has settings that have no effect in ottla: %s", ", ".join(times))
            self._named.update(counts)

    def log_new(self, kind: int, name: str) -> None:
        """Logs one line with those of a resource that were not named before, if there are any."""
        new = {idle for idle in self._idle_of(kind, name) if idle not in self._named}
        if new:
            logger.info(
                "these settings are accepted but have no effect in ottla: %s (first set for %s %s)",
                ", ".join(sorted(new)),
                _KINDS[kind],
                name or "defaults",
            )
            self._named.update(new)

    def _idle_of(self, kind: int, name: str) -> Iterable[str]:
        """Returns the names under which a resource's settings without effect are logged."""
        texts = self._image.config_of(kind, name)
        if kind == BROKER:
            return _idle_of_broker(texts)
        if kind == CLIENT_METRICS:
            return () if self._asks_clients or not texts else (SUBSCRIPTIONS,)
        if kind == TOPIC and name in INTERNAL_TOPICS:
            return ()
        return [key for key, text in texts.items() if _asks_in_vain(_TABLES.get(kind, {}).get(key), text)]


def _idle_of_broker(texts: Mapping[str, str]) -> Iterator[str]:
    for key, text in texts.items():
        base = base_name(key)
        if is_idle(key) and (base != key or _asks_in_vain(BROKER_SETTINGS[base], text)):
            yield key if base == key else f"listener.name.*.{base}"


def _asks_in_vain(setting: Setting | None, text: str) -> bool:
    return setting is not None and not setting.effective and text != text_of(setting.default)
