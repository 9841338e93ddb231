"""What the controller takes from the broker's settings, and what a topic's settings come to, each with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.log.config import TOPIC_SETTINGS, in_topic_unit, validate_overrides
from ottla.log.settings import ConfigError, Setting
from ottla.server.config import BROKER_SETTINGS
from ottla.server.listener_settings import PROTOCOLS, reachable_host
from ottla.server.metadata.image import BROKER, Endpoint, MetadataImage
from ottla.server.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from ottla.server.config import BrokerConfig

DYNAMIC_TOPIC: Final = 1
"""Sources of a setting's value, as DescribeConfigs and CreateTopics number them."""
DYNAMIC_BROKER: Final = 2
DYNAMIC_DEFAULT_BROKER: Final = 3
STATIC_BROKER: Final = 4
DEFAULT: Final = 5

_UNASSIGNED: Final = ZERO_UUID  # directory of a replica that its broker has not placed yet (KIP-858)


class EffectiveConfig(NamedTuple):
    """One setting as it counts for a topic. `value` is text, None where it is not set."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool


class InternalTopic(NamedTuple):
    """How an internal topic is made."""

    partition_count: int
    replication_factor: int
    configs: dict[str, str]


class BrokerSettings:
    """`directory_ids` are those of the log directories."""

    def __init__(self, config: BrokerConfig, directory_ids: Mapping[str, bytes]) -> None:
        self._config = config
        self.directory_ids = tuple(directory_ids.values())
        self.node_id: int = self._value("node.id")
        self.num_partitions: int = self._value("num.partitions")
        self.default_replication_factor: int = self._value("default.replication.factor")
        self.controller_endpoints = tuple(
            Endpoint(address.name, reachable_host(address.host), address.port, PROTOCOLS[address.protocol])
            for address in config.controller_listeners
            if address.port
        )
        """Where this node would be reached as a controller. Nobody listens there yet; it is written down for Kafka's sake."""
        self.names_voters_in_log = bool(
            self.controller_endpoints
            and self._value("controller.quorum.bootstrap.servers")
            and not self._value("controller.quorum.voters")
        )
        """Whether the configuration leaves the voters to the log (KIP-853) instead of listing them."""

    def _value(self, name: str) -> Any:
        return self._config.values[name]

    def directory_of(self, broker_id: int, registered: tuple[bytes, ...]) -> bytes:
        """Where a new replica will lie, as far as it is known now: with one log directory there is no choice."""
        directories = self.directory_ids if broker_id == self.node_id else registered
        return directories[0] if len(directories) == 1 else _UNASSIGNED

    def internal_topic(self, name: str) -> InternalTopic:
        """Of `__consumer_offsets` and `__transaction_state`, in Kafka's own configuration."""
        if name == CONSUMER_OFFSETS:
            overrides = {
                "compression.type": "producer",
                "cleanup.policy": "compact",
                "segment.bytes": str(self._value("offsets.topic.segment.bytes")),
            }
            return InternalTopic(
                self._value("offsets.topic.num.partitions"), self._value("offsets.topic.replication.factor"), overrides
            )
        assert name == TRANSACTION_STATE, name
        overrides = {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(self._value("transaction.state.log.min.isr")),
            "segment.bytes": str(self._value("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        }
        return InternalTopic(
            self._value("transaction.state.log.num.partitions"),
            self._value("transaction.state.log.replication.factor"),
            overrides,
        )

    def effective_topic_configs(self, image: MetadataImage, overrides: Mapping[str, str]) -> list[EffectiveConfig]:
        """Every topic setting that clients may see, sorted by name, for a topic with these overrides."""
        layers = [
            (DYNAMIC_BROKER, image.config_of(BROKER, str(self.node_id))),
            (DYNAMIC_DEFAULT_BROKER, image.config_of(BROKER, "")),
            (STATIC_BROKER, self._config.texts),
        ]
        return [
            EffectiveConfig(name, *_effective(setting, overrides.get(name), layers), setting.sensitive)
            for name, setting in sorted(TOPIC_SETTINGS.items())
            if not setting.internal
        ]

    def validate_topic(self, overrides: Mapping[str, str]) -> None:
        """All settings of one topic, alone and against each other and the broker's. ConfigError."""
        validate_overrides(overrides, self._config.values)


def _effective(setting: Setting, override: str | None, layers: Sequence[tuple[int, Mapping[str, str]]]) -> tuple[str | None, int]:
    """Text and source. A broker setting of another unit counts where no setting of a stronger source does."""
    if override is not None:
        return override, DYNAMIC_TOPIC
    for source, texts in layers:
        for name in setting.synonyms:
            if name in texts:
                try:
                    return setting.format(in_topic_unit(name, BROKER_SETTINGS[name].parse(texts[name]))), source
                except ConfigError:
                    continue  # written by somebody with other bounds; server.config.overlaid ignores it too
    return setting.format(setting.default), DEFAULT
