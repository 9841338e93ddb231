"""The connections of this broker to the other nodes of its cluster where these are not in plain text: by which settings, for
which listener.

| connections to | listener | mechanism of SASL |
|---|---|---|
| controllers | the first of `controller.listener.names` | `sasl.mechanism.controller.protocol` |
| brokers | `inter.broker.listener.name`, or that of `security.inter.broker.protocol` | `sasl.mechanism.inter.broker.protocol` |

`listener.security.protocol.map` gives the protocol of each. Only a broker of a cluster with secured listeners loads this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.server.security.client import ClientSecurity, Surroundings, check_enabled
from ottla.server.security.offered_mechanisms import JAAS_FILE, read_jaas_file
from ottla.server.security.settings import ListenerSecurity

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.files import Disk
    from ottla.security.jaas import Module
    from ottla.server.base.clock import Clock
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.settings.current import CurrentSettings

OF_CONTROLLERS: Final = "sasl.mechanism.controller.protocol"
OF_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"


def towards_controllers(config: BrokerConfig, disk: Disk, clock: Clock, random: Random) -> ClientSecurity:
    """Returns how to connect to the controllers. Raises ConfigError."""
    security = ListenerSecurity(config.controllers_listener, config.controllers_protocol, config.texts, config.values)
    return ClientSecurity(lambda: security, OF_CONTROLLERS, _surroundings(config, disk, clock, random))


def towards_brokers(config: BrokerConfig, disk: Disk, clock: Clock, random: Random) -> ClientSecurity:
    """Returns how to connect to other brokers. Raises ConfigError."""
    security = ListenerSecurity(config.inter_broker_listener, config.inter_broker_protocol, config.texts, config.values)
    check_enabled(security, OF_BROKERS)
    return ClientSecurity(lambda: security, OF_BROKERS, _surroundings(config, disk, clock, random))


def follow_settings(security: ClientSecurity, settings: CurrentSettings) -> None:
    """Has later connections use the settings as they are then."""
    name, protocol = security.current().name, security.current().protocol
    security.current = lambda: ListenerSecurity(name, protocol, settings.texts, settings.values)


def _surroundings(config: BrokerConfig, disk: Disk, clock: Clock, random: Random) -> Surroundings:
    def sections() -> Mapping[str, tuple[Module, ...]]:
        return read_jaas_file(config.values[JAAS_FILE], disk.read_bytes)

    return Surroundings(disk.read_bytes, random, clock.now_ms, sections)
