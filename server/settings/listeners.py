"""The settings `listeners`, `advertised.listeners` and `listener.security.protocol.map`: where the broker listens, and which
addresses it gives to clients.

An address is `NAME://host:port`. An empty host means all interfaces and is advertised as this machine's name; port 0 means a free
port, and the port that was bound is advertised. An IPv6 host is in brackets. `controller.listener.names` names the listeners for
controllers, which are not offered to clients.

What Kafka refuses is refused: two listeners with the same name or address, a name without a protocol, an advertised address of
all interfaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.config_def import ConfigError

if TYPE_CHECKING:
    from ottla.server.base.network import Network

PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""The numbers of the security protocols in RegisterBroker records."""
ENCRYPTED: Final = frozenset({"SSL", "SASL_SSL"})
"""The security protocols whose connections are encrypted."""
LOGS_IN: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
"""The security protocols whose clients log in before anything else."""
MAX_CREATION_RATE: Final = "max.connection.creation.rate"
"""A setting of the broker and, with the listener's prefix before it, of each listener."""
ANY_HOST: Final = frozenset({"", "0.0.0.0", "::"})

_ADDRESS: Final = re.compile(
    r"(?P<name>[^:/,]+)://(?:\[(?P<v6>[0-9a-fA-F:.%]+)\]|(?P<host>[^:\[\]/]*)):(?P<port>-?[0-9]+)", re.ASCII
)


CONSOLE: Final = "CONSOLE"
"""The console has settings of TLS as a listener of this name would have: `listener.name.console.ssl.keystore.location`."""
OF_CONSOLE: Final = frozenset(
    (
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
    )
)
"""Those that count for it. Any other of them is refused: it would have no effect."""


class ListenerAddress(NamedTuple):
    """One listener. An empty `host` means all interfaces, `port` 0 a free port; `protocol` is the name of a security protocol."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parses `NAME:PROTOCOL,...`; returns the protocols by listener name, in capitals. Raises ConfigError."""
    key = "listener.security.protocol.map"
    result: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = part.rpartition(":")
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if not colon or not name or protocol not in PROTOCOLS:
            raise ConfigError(f"{key}: '{part}' is not NAME:PROTOCOL with a protocol of {', '.join(PROTOCOLS)}")
        if result.setdefault(name, protocol) != protocol:
            raise ConfigError(f"{key}: {name} has two protocols, {result[name]} and {protocol}")
    return result


def parse_addresses(key: str, texts: Iterable[str], protocols: dict[str, str]) -> tuple[ListenerAddress, ...]:
    """Returns the addresses of `listeners` or `advertised.listeners`, which `key` names for messages. Raises ConfigError."""
    result: list[ListenerAddress] = []
    for text in texts:
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise ConfigError(f"{key}: '{text}' is not an address such as PLAINTEXT://127.0.0.1:9092")
        name, port = match["name"].upper(), int(match["port"])
        if not 0 <= port <= 65535:
            raise ConfigError(f"{key}: {port} of {name} is not a port; use 0 to 65535")
        if name not in protocols:
            raise ConfigError(f"{key}: {name} has no security protocol; add {name}:PLAINTEXT to listener.security.protocol.map")
        if any(name == other.name for other in result):
            raise ConfigError(f"{key}: two listeners are named {name}; give each a name of its own")
        result.append(ListenerAddress(name, match["v6"] or match["host"] or "", port, protocols[name]))
    return tuple(result)


def check_open(addresses: Iterable[ListenerAddress]) -> None:
    """Raises ConfigError if the broker cannot listen on all of these addresses."""
    places: dict[int, ListenerAddress] = {}
    for address in addresses:
        other = places.get(address.port) if address.port else None
        if other is not None and not _distinct(address.host, other.host):
            raise ConfigError(f"listeners: {other.name} and {address.name} both want port {address.port}; change one")
        places[address.port] = address


def _distinct(host: str, other: str) -> bool:
    """Returns whether two listeners may share a port, because both hosts are given and differ."""
    return host not in ANY_HOST and other not in ANY_HOST and host != other


def check_advertised(advertised: Iterable[ListenerAddress], listeners: Iterable[ListenerAddress]) -> None:
    """Raises ConfigError if clients could not use these addresses."""
    names = {listener.name for listener in listeners}
    for address in advertised:
        if address.host in ANY_HOST - {""}:
            raise ConfigError(
                f"advertised.listeners: {address.host} is not an address that a client can connect to; name a host or interface"
            )
        if address.name not in names:
            raise ConfigError(f"advertised.listeners: {address.name} is not in listeners ({', '.join(sorted(names))})")


def reachable_host(host: str, network: Network) -> str:
    """Returns the host that is advertised for a listener: its own, or this machine's name if it listens on all interfaces."""
    return network.own_host() if host in ANY_HOST else host
