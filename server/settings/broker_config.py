"""BrokerConfig: the values of the settings with which one broker was started.

Texts from a file, the environment and the command line (server/settings/properties.py reads them) are parsed by the tables and
checked against each other, and the result is in `values` by Kafka's names: `config.values["num.partitions"]`. A part that needs a
setting often copies it once into a field of its own (GroupCoordinatorConfig, SocketSettings and so on).

A value that does not parse, or that contradicts another, is a ConfigError with one line that names the key and the remedy. An
unknown name is not an error, here as in Kafka, because plug-ins have settings of their own: `unknown` lists these names, and
`advice()` says what was probably meant.

A broker is its own controller quorum (`process.roles=broker,controller` with itself as the only voter), so the usual
`server.properties` of a combined node runs as it is. Its CONTROLLER listener serves administration (`bootstrap.controllers`). Or
it joins a quorum of Apache Kafka's controllers (`process.roles=broker`), with the `server.properties` of a Kafka broker.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.log.config_def import ConfigError
from ottla.server.settings.broker_settings import BROKER_SETTINGS, OWN_SETTINGS, base_name, is_of_listener
from ottla.server.settings.listeners import (
    CONSOLE,
    OF_CONSOLE,
    ListenerAddress,
    check_advertised,
    check_open,
    parse_addresses,
    parse_protocol_map,
    reachable_host,
)
from ottla.server.settings.rules import check_broker, check_references

if TYPE_CHECKING:
    from ottla.server.base.network import Network


class BrokerConfig:
    """The settings with which a broker was started. They do not change while the broker runs.

    `values` has the parsed values of all settings by name, defaults included. `texts` has the texts as they were given, including
    those of the unknown names that `unknown` lists. `cluster_id` is for formatting an empty directory, and the cluster to which a
    used one must belong; None accepts any.
    """

    def __init__(self, values: dict[str, Any], texts: Mapping[str, str], cluster_id: str | None = None) -> None:
        self.values = values
        self.texts = dict(texts)
        self.cluster_id = cluster_id
        self.unknown = tuple(name for name in texts if not _is_known(name, authorized=bool(values["authorizer.class.name"])))
        protocols = self._protocols()
        controllers = {name.upper() for name in values["controller.listener.names"] or ()}
        everything = parse_addresses("listeners", values["listeners"], protocols)
        self.listeners = tuple(listener for listener in everything if listener.name not in controllers)
        """The listeners for clients, which the broker opens."""
        self.controller_listeners = tuple(listener for listener in everything if listener.name in controllers)
        """The listeners of this node as a controller. Only administrators use them, because the quorum is this node alone."""
        self.advertised_listeners = self._advertised(protocols, controllers)
        """The addresses that clients are given, one for each of `listeners`, in their order. Port 0 stands for the bound
        port, and a host that is every interface for this machine's name (`advertised_for`)."""
        self.log_dirs = _directories(values["log.dirs"] or values["log.dir"])
        """The log directories as absolute paths."""
        self._check_listeners()
        self._check_of_listeners(controllers)
        self._check_roles()
        check_broker(values, self.texts)
        check_references(values, self.texts, {listener.name for listener in self.listeners}, controllers, self.log_dirs)

    @classmethod
    def from_mapping(cls, texts: Mapping[str, str], cluster_id: str | None = None) -> tuple[BrokerConfig, list[str]]:
        """Parses texts by name. Returns the configuration and the unknown names. Raises ConfigError."""
        values: dict[str, Any] = {name: setting.default for name, setting in (BROKER_SETTINGS | OWN_SETTINGS).items()}
        texts = _with_both_ids(texts)
        for name, text in texts.items():
            setting = BROKER_SETTINGS.get(name) or OWN_SETTINGS.get(name)
            if setting is not None:
                values[name] = setting.parse(text)
        config = cls(values, texts, cluster_id)
        return config, list(config.unknown)

    @property
    def node_id(self) -> int:
        """The setting `node.id`."""
        return int(self.values["node.id"])

    @property
    def rack(self) -> str | None:
        """The setting `broker.rack`."""
        return self.values["broker.rack"] or None

    @property
    def metadata_log_dir(self) -> str:
        """The directory of `__cluster_metadata-0`: `metadata.log.dir`, or else the first log directory."""
        path = self.values["metadata.log.dir"]
        return os.path.abspath(path) if path else self.log_dirs[0]

    @property
    def all_log_dirs(self) -> list[str]:
        """The log directories and the one of the metadata log, each once."""
        return list(dict.fromkeys((*self.log_dirs, self.metadata_log_dir)))

    @property
    def all_listeners(self) -> tuple[ListenerAddress, ...]:
        """The listeners of clients, and those of controllers."""
        return (*self.listeners, *self.controller_listeners)

    def is_controllers(self, listener: str) -> bool:
        """Returns whether the listener of this name is for controllers, not for clients."""
        return any(listener == address.name for address in self.controller_listeners)

    def advertised_for(self, name: str, bound_port: int, network: Network) -> ListenerAddress:
        """Returns the address that clients are given for listener `name`, now that its port is known."""
        address = next(address for address in self.advertised_listeners if address.name == name)
        return address._replace(host=reachable_host(address.host, network), port=address.port or bound_port)

    def _protocols(self) -> dict[str, str]:
        """Returns the protocol of each listener name. Without a map those of controllers are PLAINTEXT, as in Kafka."""
        key = "listener.security.protocol.map"
        protocols = parse_protocol_map(self.values[key])
        if key not in self.texts:
            for name in self.values["controller.listener.names"] or ():
                protocols.setdefault(name.upper(), "PLAINTEXT")
        return protocols

    def _advertised(self, protocols: dict[str, str], controllers: set[str]) -> tuple[ListenerAddress, ...]:
        """Returns the advertised addresses in the order of `listeners`; a listener that is not named there advertises itself."""
        given = parse_addresses("advertised.listeners", self.values["advertised.listeners"] or (), protocols)
        check_advertised(given, self.all_listeners)
        named = {address.name: address for address in given if address.name not in controllers}
        if given and not named:
            raise ConfigError(
                "advertised.listeners: none of them is for clients; advertise a listener that is not for controllers"
            )
        return tuple(named.get(listener.name, listener) for listener in self.listeners)

    def _check_listeners(self) -> None:
        if not self.listeners:
            raise ConfigError(
                "listeners: all of them are for controllers (controller.listener.names); add one such as PLAINTEXT://:9092"
            )
        check_open(self.listeners)
        inter_broker = self.values["inter.broker.listener.name"]
        if inter_broker and inter_broker.upper() not in {listener.name for listener in self.listeners}:
            raise ConfigError(f"inter.broker.listener.name: {inter_broker} is not in listeners; name one that is")

    def _check_of_listeners(self, controllers: set[str]) -> None:
        """Raises ConfigError for a setting of one listener that would count for none: a mistake in its name would leave a
        listener open that was meant to be closed."""
        names = {listener.name for listener in self.listeners} | controllers
        for key in self.texts:
            setting = base_name(key)
            if setting == key or setting not in BROKER_SETTINGS:
                continue
            listener = key.split(".", 3)[2].upper()
            if listener == CONSOLE and setting in OF_CONSOLE and self.values["ottla.console.port"] is not None:
                continue
            if listener not in names:
                raise ConfigError(f"{key}: no listener has the name {listener}; use one of listeners, or remove it")
            if not is_of_listener(setting):
                raise ConfigError(f"{key}: {setting} counts for all listeners together; write it as {setting}")

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener by which other brokers talk to this one, and this one to the listeners of that name of others:
        `inter.broker.listener.name`, or else the first with the protocol `security.inter.broker.protocol`. If there is none, it
        is the name of that protocol."""
        protocol = str(self.values["security.inter.broker.protocol"])
        name = self.values["inter.broker.listener.name"]
        fitting = (listener.name for listener in self.listeners if listener.protocol == protocol)
        return str(name).upper() if name else next(fitting, protocol)

    @property
    def inter_broker_protocol(self) -> str:
        """The security protocol of `inter_broker_listener`."""
        name = self.inter_broker_listener
        fitting = (listener.protocol for listener in self.listeners if listener.name == name)
        return next(fitting, str(self.values["security.inter.broker.protocol"]))

    @property
    def controllers_listener(self) -> str:
        """The name of the controllers' listener, the first of `controller.listener.names`."""
        return str(self.values["controller.listener.names"][0]).upper()

    @property
    def controllers_protocol(self) -> str:
        """The security protocol of `controllers_listener`."""
        return self._protocols()[self.controllers_listener]

    @property
    def follows_controllers(self) -> bool:
        """Returns whether the controllers of this broker's cluster are other nodes."""
        return "controller" not in self.values["process.roles"]

    def _check_roles(self) -> None:
        """Raises ConfigError if the node is to be what ottla cannot be: a controller of others."""
        if self.values["authorizer.class.name"]:
            from ottla.server.settings.authorizer_settings import check_authorizer  # loaded only with an authorizer

            check_authorizer(self.values["authorizer.class.name"], self.texts)
        broker_id = self.values["broker.id"]
        if broker_id != self.node_id and "broker.id" in self.texts:
            raise ConfigError(f"broker.id: {broker_id} is not the same as node.id, {self.node_id}; set only node.id")
        if self.node_id < 0:
            raise ConfigError(f"node.id: {self.node_id} is negative; set node.id=1")
        roles = frozenset(self.values["process.roles"])
        if roles not in ({"broker"}, {"broker", "controller"}):
            raise ConfigError(
                f"process.roles: '{','.join(self.values['process.roles'])}' is not possible, because the controllers of a "
                "cluster are Apache Kafka's; set process.roles=broker to join them, or process.roles=broker,controller for a "
                "single node"
            )
        voters = [int(voter.partition("@")[0]) for voter in self.values["controller.quorum.voters"]]
        if self.follows_controllers:
            self._check_controllers(voters)
            return
        for voter in voters:
            if voter != self.node_id:
                raise ConfigError(
                    f"controller.quorum.voters: {voter} is another node, and ottla is a controller only of itself; leave node "
                    f"{self.node_id} as the only voter, or set process.roles=broker to join the quorum"
                )

    def _check_controllers(self, voters: Collection[int]) -> None:
        """Raises ConfigError if the controllers of the cluster are not named, or cannot be reached or be others."""
        if not voters and not self.values["controller.quorum.bootstrap.servers"]:
            raise ConfigError(
                "process.roles: a broker needs to know its controllers; set controller.quorum.bootstrap.servers=host:port"
            )
        if self.node_id in voters:
            raise ConfigError(
                f"node.id: {self.node_id} is a controller's (controller.quorum.voters); give the broker another node.id"
            )
        if self.controller_listeners:
            names = ", ".join(listener.name for listener in self.controller_listeners)
            raise ConfigError(
                f"listeners: {names} is for controllers (controller.listener.names), which this node is not; remove it"
            )
        if self.controllers_listener not in self._protocols():
            raise ConfigError(
                f"controller.listener.names: the protocol of {self.controllers_listener} is not known; add "
                f"{self.controllers_listener}:PLAINTEXT, or whatever the controllers have, to listener.security.protocol.map"
            )


def _is_known(name: str, *, authorized: bool) -> bool:
    """Returns whether a setting means something; those of an authorizer do only if there is one."""
    if base_name(name) in BROKER_SETTINGS or name in OWN_SETTINGS:
        return True
    return authorized and name in ("super.users", "allow.everyone.if.no.acl.found")


def _with_both_ids(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the texts with both `broker.id` and `node.id` set if one of them is: they are the old and the new name of one
    setting."""
    for given, missing in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if given in texts and missing not in texts:
            return {**texts, missing: texts[given]}
    return texts


def _directories(paths: Iterable[str]) -> list[str]:
    result = [os.path.abspath(path) for path in paths if path]
    if not result:
        raise ConfigError("log.dirs: no directory is named; set one")
    if len(set(result)) < len(result):
        raise ConfigError("log.dirs: a directory is named twice; name each only once")
    return result
