"""The directory of a cluster: which nodes it has, where they listen, and the server.properties of each.

    DIR/cluster.json                         what must not change between two starts: ids and ports
    DIR/controller-3001/server.properties    one directory a node; these files are written at each start
    DIR/controller-3001/server.log           what the node printed, all its starts one after the other
    DIR/controller-3001/data/                its log.dirs
    DIR/broker-1/...

`plan` decides, without writing anything, what a cluster is: the one that is in the directory, perhaps with more brokers or with
brokers on other ports; or a new one.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from ottla.commands.cluster.errors import ClusterError
from ottla.log.disk.files import OsDisk
from ottla.wire.primitives import uuid_to_text

HOST: Final = "127.0.0.1"
"""The address on which all nodes listen: a cluster of this command is one of this machine."""
FILE: Final = "cluster.json"
PROPERTIES: Final = "server.properties"
LOG: Final = "server.log"
FIRST_BROKER: Final = 1
FIRST_CONTROLLER: Final = 3001
MOST_NODES: Final = 100
"""The most brokers that a cluster of one machine may have, and the most controllers."""
BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 19092
_FREE_PORTS: Final = range(15_000, 32_000)
"""Below the range from which the kernel takes ports for outgoing connections: none of those can hold a node's port while it is
down, or meet itself there."""

REPLICATION: Final = 3
"""The number of replicas that topics have by default, if there are so many brokers."""

FIXED: Final = frozenset(
    {
        "process.roles",
        "node.id",
        "broker.id",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    }
)
"""The settings that a cluster gives to each of its nodes, so that nobody else can."""


class Place(NamedTuple):
    """A node: its kind, `broker` or `controller`, its node.id and its port, and for a controller the id of its log directory."""

    kind: str
    node_id: int
    port: int
    directory_id: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.node_id}"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


class Layout(NamedTuple):
    """A cluster and its directory."""

    directory: Path
    cluster_id: str
    controllers: tuple[Place, ...]
    brokers: tuple[Place, ...]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, as clients take them for bootstrap.servers."""
        return ",".join(broker.address for broker in self.brokers)

    def folder(self, place: Place) -> Path:
        """Returns the directory of a node."""
        return self.directory / f"{place.kind}-{place.node_id}"

    def settings(self, place: Place, rack: str | None = None) -> dict[str, str]:
        """Returns the server.properties of a node."""
        listener = "PLAINTEXT" if place.kind == "broker" else "CONTROLLER"
        own = {
            "process.roles": place.kind,
            "node.id": str(place.node_id),
            "listeners": f"{listener}://{place.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(controller.address for controller in self.controllers),
            "log.dirs": str(self.folder(place) / "data"),
            **replication(len(self.brokers)),
        }
        return own | ({"broker.rack": rack} if rack is not None and place.kind == "broker" else {})


def replication(brokers: int) -> dict[str, str]:
    """Returns the settings of how many replicas topics have that are created without a number, in a cluster of so many brokers.
    Controllers need them, too: they create the topics. With fewer than three brokers, one that is left goes on alone."""
    replicas, in_sync = str(min(REPLICATION, brokers)), str(2 if brokers >= REPLICATION else 1)
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


# What a cluster is


def plan(directory: Path, nodes: int | None, controllers: int | None, port: int | None, random: Random) -> Layout:
    """Returns the cluster of a directory; None stands for what was not asked for: 3 brokers, 1 controller, and 9092 as the first
    broker's port. Port 0 stands for free ports for all nodes. Raises ClusterError."""
    directory = directory.absolute()
    if "," in str(directory):
        raise ClusterError(f"--dir: {directory}: log.dirs cannot name a path with a comma; choose another directory")
    found = load(directory)
    if found is None:
        _check_new(directory)
        return _new(directory, nodes or 3, controllers or 1, port, random)
    if controllers not in (None, len(found.controllers)):
        raise ClusterError(
            f"--controllers: the cluster in {directory} has {len(found.controllers)}, and the number stays as it is; leave the "
            "option out, or choose another --dir"
        )
    count = nodes or len(found.brokers)
    if count < len(found.brokers):
        raise ClusterError(
            f"--nodes: the cluster in {directory} has {len(found.brokers)} brokers, with data that would be missing; leave the "
            "option out, or choose another --dir"
        )
    ids = [broker.node_id for broker in found.brokers]
    ids += range(max(ids) + 1, max(ids) + 1 + count - len(ids))
    used = [place.port for place in found.controllers]
    if port:
        ports = _ports(port, count, random, used)
    else:
        ports = [broker.port for broker in found.brokers]
        if port == 0:  # those that are in use give way
            ports = [each if is_free(each) else _free_ports(1, random, [*used, *ports])[0] for each in ports]
        ports += _free_ports(count - len(ports), random, [*used, *ports])
    return found._replace(brokers=tuple(Place("broker", *each) for each in zip(ids, ports, strict=True)))


def _check_new(directory: Path) -> None:
    """Raises ClusterError if a new cluster cannot be put there."""
    try:
        if not any(directory.iterdir()):
            return
    except FileNotFoundError:
        return
    except OSError as error:
        raise ClusterError(f"--dir: {directory}: {error.strerror}; choose another directory") from error
    raise ClusterError(f"--dir: {directory} is not empty, and no cluster is in it; choose another directory")


def _new(directory: Path, nodes: int, controllers: int, port: int | None, random: Random) -> Layout:
    broker_ports = _ports(BROKER_PORT if port is None else port, nodes, random, ())
    controller_ports = _ports(0 if port == 0 else CONTROLLER_PORT, controllers, random, broker_ports)
    return Layout(
        directory,
        _new_id(random),
        tuple(Place("controller", FIRST_CONTROLLER + at, each, _new_id(random)) for at, each in enumerate(controller_ports)),
        tuple(Place("broker", FIRST_BROKER + at, each) for at, each in enumerate(broker_ports)),
    )


def _new_id(random: Random) -> str:
    """Returns the text of a random uuid that does not begin like an option."""
    while (text := uuid_to_text(random.randbytes(16))).startswith("-"):
        pass
    return text


def _ports(first: int, count: int, random: Random, used: Iterable[int]) -> list[int]:
    """Returns that port and the ones behind it, or free ones for 0. Raises ClusterError."""
    if first == 0:
        return _free_ports(count, random, used)
    if first + count > 65_536:
        raise ClusterError(f"--port: {count} brokers from {first} on need ports above 65535; choose a lower one")
    ports = list(range(first, first + count))
    if both := sorted(set(ports).intersection(used)):
        raise ClusterError(f"--port: {both[0]} is a controller's; choose another")
    return ports


def _free_ports(count: int, random: Random, used: Iterable[int]) -> list[int]:
    found: list[int] = []
    taken = set(used)
    while len(found) < count:
        port = random.choice(_FREE_PORTS)
        if port not in taken and is_free(port):
            taken.add(port)
            found.append(port)
    return found


def is_free(port: int) -> bool:
    """Returns whether a node could listen at this port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def check_ports(layout: Layout) -> None:
    """Raises ClusterError if something else listens at a node's port."""
    for place in (*layout.controllers, *layout.brokers):
        if not is_free(place.port):
            remedy = (
                "stop what listens there, or choose another --port (0 for free ones)"
                if place.kind == "broker"
                else "stop what listens there, or begin in another --dir with --port 0"
            )
            raise ClusterError(f"listeners: {place.address}, of {place.name}, is in use; {remedy}")


def check_overrides(overrides: Sequence[str]) -> None:
    """Raises ClusterError for a setting that is no `key=value`, or that only the cluster can give to a node."""
    for text in overrides:
        key, equals, _ = text.partition("=")
        if not equals or not key.strip():
            raise ClusterError(f"--override: '{text}' is not key=value")
        if key.strip() in FIXED:
            raise ClusterError(f"--override: every node has a {key.strip()} of its own, which the cluster sets; leave it out")


# Files


def load(directory: Path) -> Layout | None:
    """Returns the cluster that is in a directory, if there is one. Raises ClusterError if its file cannot be read."""
    path = directory / FILE
    try:
        content = json.loads(path.read_bytes())
        return Layout(
            directory, str(content["cluster_id"]), *(_places(content, f"{kind}s", kind) for kind in ("controller", "broker"))
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClusterError(f"--dir: {path}: {error.strerror}; make it readable, or choose another directory") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(
            f"--dir: {path} does not describe a cluster ({error!r}); restore it, or choose another directory"
        ) from error


def _places(content: Mapping[str, Any], key: str, kind: str) -> tuple[Place, ...]:
    places = tuple(Place(kind, int(each["id"]), int(each["port"]), str(each.get("directory_id", ""))) for each in content[key])
    if not places:
        raise ValueError(f"there are no {key}")
    return places


def save(layout: Layout) -> None:
    """Writes down the cluster, whole or not at all, and durably: without the file, the directories of its nodes would be taken
    for somebody else's."""

    def described(place: Place) -> dict[str, object]:
        entry: dict[str, object] = {"id": place.node_id, "port": place.port}
        return entry | ({"directory_id": place.directory_id} if place.directory_id else {})

    content = {
        "cluster_id": layout.cluster_id,
        "controllers": [described(place) for place in layout.controllers],
        "brokers": [described(place) for place in layout.brokers],
    }
    OsDisk().write_bytes(str(layout.directory / FILE), (json.dumps(content, indent=1) + "\n").encode())


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Writes a server.properties, for Java's reader of such files and for ours."""
    head = "# Written by `ottla cluster` at each start: settings of yours are given to it with --override.\n"
    path.write_text(head + "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items()), encoding="ascii")


def _escaped(value: str) -> str:
    """Returns a value as the grammar of .properties wants it: backslashes doubled, what is beyond ASCII in UTF-16 units."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)
