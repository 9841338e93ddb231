"""What the controller takes from the broker's settings. Which of several written values counts: server/settings/sources.py."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.log.config import validate_overrides
from ottla.server.metadata.image import BROKER, Endpoint, MetadataImage
from ottla.server.metadata.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.server.settings.current import CurrentSettings
from ottla.server.settings.listeners import PROTOCOLS, reachable_host
from ottla.server.settings.rules import check_broker, check_group
from ottla.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from ottla.log.config_def import Value
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.settings.sources import Sources

_UNASSIGNED: Final = ZERO_UUID  # directory of a replica that its broker has not placed yet (KIP-858)


class InternalTopic(NamedTuple):
    """How an internal topic is made."""

    partition_count: int
    replication_factor: int
    configs: dict[str, str]


class ControllerSettings:
    """`directory_ids` are those of the log directories."""

    def __init__(self, config: BrokerConfig, directory_ids: Mapping[str, bytes]) -> None:
        self._config = config
        self.directory_ids = tuple(directory_ids.values())
        self.ids_by_path: Mapping[str, bytes] = dict(directory_ids)
        self.node_id: int = self._value("node.id")
        self.num_partitions: int = self._value("num.partitions")
        self.default_replication_factor: int = self._value("default.replication.factor")
        self.controller_endpoints = tuple(
            Endpoint(address.name, reachable_host(address.host), address.port, PROTOCOLS[address.protocol])
            for address in config.controller_listeners
            if address.port
        )
        """Where this node is reached as a controller."""
        self.controller_listener: str = next(iter(self._value("controller.listener.names") or ()), "CONTROLLER").upper()
        """Where controllers talk to each other."""
        self.names_voters_in_log = bool(
            self.controller_endpoints
            and self._value("controller.quorum.bootstrap.servers")
            and not self._value("controller.quorum.voters")
        )
        """Whether the configuration leaves the voters to the log (KIP-853) instead of listing them."""

    @property
    def broker_values(self) -> Mapping[str, Any]:
        """As the broker was started with."""
        return self._config.values

    def _value(self, name: str) -> Any:
        return self._config.values[name]

    def directory_of(self, broker_id: int, registered: tuple[bytes, ...]) -> bytes:
        """Returns where a new replica will lie, as far as it is known now: with one log directory there is no choice."""
        directories = self.directory_ids if broker_id == self.node_id else registered
        return directories[0] if len(directories) == 1 else _UNASSIGNED

    def cordoned_ids(self, image: MetadataImage) -> tuple[bytes, ...]:
        """Returns the log directories that get no new partitions (KIP-1066), as settings are now."""
        values = current_settings(self._config, image).values
        paths = cordoned_paths(values, self.ids_by_path)
        return tuple(directory_id for path, directory_id in self.ids_by_path.items() if path in paths)

    def internal_topic(self, name: str) -> InternalTopic:
        """Of `__consumer_offsets`, `__transaction_state` and `__share_group_state`, in Kafka's own configuration."""
        if name == CONSUMER_OFFSETS:
            overrides = {
                "compression.type": "producer",
                "cleanup.policy": "compact",
                "segment.bytes": str(self._value("offsets.topic.segment.bytes")),
            }
            return InternalTopic(
                self._value("offsets.topic.num.partitions"), self._value("offsets.topic.replication.factor"), overrides
            )
        if name == SHARE_GROUP_STATE:
            overrides = {
                "compression.type": "producer",
                "cleanup.policy": "delete",
                "min.insync.replicas": str(self._value("share.coordinator.state.topic.min.isr")),
                "segment.bytes": str(self._value("share.coordinator.state.topic.segment.bytes")),
                "retention.ms": "-1",  # what is not needed any more is deleted by its coordinator
            }
            return InternalTopic(
                self._value("share.coordinator.state.topic.num.partitions"),
                self._value("share.coordinator.state.topic.replication.factor"),
                overrides,
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

    def sources(self, image: MetadataImage) -> Sources:
        """Returns the broker's settings as the image has them now, level by level."""
        from ottla.server.settings.sources import Sources  # not needed at a start, which is to be quick

        return Sources(current_settings(self._config, image))

    def validate_topic(self, overrides: Mapping[str, str]) -> None:
        """All settings of one topic, alone and against each other and the broker's. Raises ConfigError."""
        validate_overrides(overrides, self._config.values)

    @property
    def listener_names(self) -> tuple[str, ...]:
        """Of clients; the controllers' are not among them."""
        return tuple(address.name for address in self._config.listeners)

    @property
    def log_dirs(self) -> Sequence[str]:
        """Absolute paths."""
        return self._config.log_dirs

    def validate_broker(self, image: MetadataImage, name: str, texts: Mapping[str, str]) -> Mapping[str, Any]:
        """Returns what would be all dynamic settings of this broker, or with "" of all brokers, against the rest. Raises
        ConfigError.

        Returns the values that would count then.
        """
        values = current_settings(self._config, image).values_with(name, texts)
        check_broker(values, texts)
        return values

    def validate_group(self, image: MetadataImage, overrides: Mapping[str, Value]) -> None:
        """What would be all settings of one group, parsed, against the broker's bounds and each other. Raises ConfigError."""
        check_group(overrides, current_settings(self._config, image).values)


def current_settings(config: BrokerConfig, image: MetadataImage) -> CurrentSettings:
    """Returns the settings of a broker as this image has them at each moment."""
    return CurrentSettings(config, partial(image.config_of, BROKER))


def cordoned_paths(values: Mapping[str, Any], log_dirs: Iterable[str]) -> frozenset[str]:
    """Returns those of `log_dirs` that cordoned.log.dirs names; `*` is all."""
    named: Sequence[str] = values["cordoned.log.dirs"]
    if not named:
        return frozenset()
    paths = {os.path.abspath(path) for path in named}
    return frozenset(path for path in log_dirs if "*" in named or path in paths)
