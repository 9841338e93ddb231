"""The settings of the broker that the controller uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
    from ottla.server.base.network import Network
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.settings.sources import Sources

_UNASSIGNED: Final = ZERO_UUID  # directory of a replica that its broker has not placed yet (KIP-858)


ListenerCheck = Callable[[Mapping[str, str], Mapping[str, Any], Collection[str]], None]
"""Is called with the settings of a broker as they would count, as texts and as values, and the names of those that a client
writes. Raises ConfigError if the broker's listeners could not use them."""


class InternalTopic(NamedTuple):
    """The partitions, replicas and settings with which an internal topic is made."""

    partition_count: int
    replication_factor: int
    configs: dict[str, str]


class ControllerSettings:
    """The broker's settings as the controller needs them. `directory_ids` has the id of each log directory by its path."""

    def __init__(self, config: BrokerConfig, directory_ids: Mapping[str, bytes], network: Network) -> None:
        self._config = config
        self.check_listeners: ListenerCheck | None = None
        """Set by a broker that has listeners with a security protocol."""
        self.directory_ids = tuple(directory_ids.values())
        self.ids_by_path: Mapping[str, bytes] = dict(directory_ids)
        self.node_id: int = self._value("node.id")
        self.nodes: AbstractSet[int] = frozenset((self.node_id,))
        """The broker ids that stand for this broker: its own, or several if a test has it simulate a cluster."""
        self.num_partitions: int = self._value("num.partitions")
        self.default_replication_factor: int = self._value("default.replication.factor")
        self.controller_endpoints = tuple(
            Endpoint(address.name, reachable_host(address.host, network), address.port, PROTOCOLS[address.protocol])
            for address in config.controller_listeners
            if address.port
        )
        """The addresses at which this node is reached as a controller."""
        self.controller_listener: str = next(iter(self._value("controller.listener.names") or ()), "CONTROLLER").upper()
        """The name of the listener through which controllers talk to each other."""
        self.names_voters_in_log = bool(
            self.controller_endpoints
            and self._value("controller.quorum.bootstrap.servers")
            and not self._value("controller.quorum.voters")
        )
        """True if the voters are kept in the metadata log (KIP-853) instead of listed in the configuration."""

    @property
    def broker_values(self) -> Mapping[str, Any]:
        """The settings with which the broker was started."""
        return self._config.values

    def _value(self, name: str) -> Any:
        return self._config.values[name]

    def given(self, name: str) -> int:
        """Returns a number of the configuration, or -1, which stands for the controller's default, if it does not name it."""
        return int(self._value(name)) if name in self._config.texts else -1

    def alive(self, image: MetadataImage) -> frozenset[int]:
        """Returns the ids of the brokers that may be elected: this one, or those that a test simulates and that are active."""
        if len(self.nodes) == 1:
            return frozenset(self.nodes)
        return frozenset(each for each in self.nodes if each in image.brokers and image.brokers[each].active)

    def directory_of(self, broker_id: int, registered: tuple[bytes, ...]) -> bytes:
        """Returns the id of the log directory of a new replica, as far as it is known: with a single directory there is no
        choice."""
        directories = self.directory_ids if broker_id == self.node_id else registered
        return directories[0] if len(directories) == 1 else _UNASSIGNED

    def cordoned_ids(self, image: MetadataImage) -> tuple[bytes, ...]:
        """Returns the ids of the log directories that by the present settings get no new partitions (KIP-1066)."""
        values = current_settings(self._config, image).values
        paths = cordoned_paths(values, self.ids_by_path)
        return tuple(directory_id for path, directory_id in self.ids_by_path.items() if path in paths)

    def internal_topic(self, name: str) -> InternalTopic:
        """Returns how `__consumer_offsets`, `__transaction_state` or `__share_group_state` is made, with Kafka's
        configuration."""
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
                "retention.ms": "-1",  # the coordinator deletes what is not needed any more
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
        from ottla.server.settings.sources import Sources  # imported here, because a start does not need it and is to be quick

        return Sources(current_settings(self._config, image))

    def validate_topic(self, overrides: Mapping[str, str]) -> None:
        """Checks all settings of one topic, alone, against each other and against the broker's. Raises ConfigError."""
        validate_overrides(overrides, self._config.values)

    @property
    def listener_names(self) -> tuple[str, ...]:
        """The names of the listeners for clients; those for controllers are not among them."""
        return tuple(address.name for address in self._config.listeners)

    @property
    def log_dirs(self) -> Sequence[str]:
        """The log directories as absolute paths."""
        return self._config.log_dirs

    def validate_broker(
        self, image: MetadataImage, name: str, texts: Mapping[str, str], written: Collection[str] = ()
    ) -> Mapping[str, Any]:
        """Checks `texts`, which would be all dynamic settings of this broker, or with the name "" of all brokers, against the
        others. `written` are those among them that a client writes.

        Returns the values that would count then. Raises ConfigError.
        """
        current = current_settings(self._config, image)
        values = current.values_with(name, texts)
        check_broker(values, texts)
        if self.check_listeners is not None:
            self.check_listeners(current.texts_with(name, texts), values, written)
        return values

    def validate_group(self, image: MetadataImage, overrides: Mapping[str, Value]) -> None:
        """Checks `overrides`, which would be all settings of one group, parsed, against the broker's bounds and each other.
        Raises ConfigError."""
        check_group(overrides, current_settings(self._config, image).values)


def current_settings(config: BrokerConfig, image: MetadataImage) -> CurrentSettings:
    """Returns the settings of a broker, which follow this image."""
    return CurrentSettings(config, partial(image.config_of, BROKER))


def cordoned_paths(values: Mapping[str, Any], log_dirs: Iterable[str]) -> frozenset[str]:
    """Returns those of `log_dirs` that cordoned.log.dirs names; `*` names all."""
    named: Sequence[str] = values["cordoned.log.dirs"]
    if not named:
        return frozenset()
    paths = {os.path.abspath(path) for path in named}
    return frozenset(path for path in log_dirs if "*" in named or path in paths)
