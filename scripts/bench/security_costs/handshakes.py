"""The bench of what TLS handshakes cost: a broker's CPU for a connection, and how many of them it makes in a second, ottla and
Kafka in turn.

A client connects, shakes hands, reads the answer to one ApiVersions and leaves; each time with a whole handshake, or with the
session of its last connection. A few threads do so at once. The clients share the machine with the broker, so the rate says how
the two brokers compare on this machine, and CPU what one handshake takes.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections import defaultdict
from typing import Final

from compat_tests.certificates import client_context
from compat_tests.reference.kafka import HOST
from compat_tests.wire import encode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from scripts.bench.kload import in_threads
from scripts.bench.kload_wire import TLS_VERSIONS
from scripts.bench.security_costs.brokers import Secured
from scripts.bench.security_costs.table import Figures, Row, in_turn

THREADS: Final = 4
WARM_UP: Final = 2000
KINDS: Final = {"whole": False, "resumed": True}


def _rows() -> list[Row]:
    rows = []
    for version in TLS_VERSIONS:
        for kind, resumed in KINDS.items():
            rows.append(Row(f"TLS {version} handshake, {kind}: CPU", "ottla", f"{version} {kind} us", "us", "kafka"))
            rows.append(Row("the same: handshakes", "ottla", f"{version} {kind} per_s", "/s", "kafka"))
            if resumed:
                rows.append(Row("the same: were resumed", "ottla", f"{version} {kind} share", "%", "kafka"))
    return rows


ROWS: Final = tuple(_rows())


class Client:
    """Connects again and again to a broker's TLS listener, by one version of TLS."""

    def __init__(self, broker: Secured, version: str) -> None:
        self._context = client_context(broker.root)
        self._context.minimum_version = self._context.maximum_version = TLS_VERSIONS[version]
        self._address = HOST, broker.ports["TLS"]
        frame = encode(ApiVersionsRequest("lib", "1"), 3, 1)
        self._request = struct.pack(">i", len(frame)) + frame
        self.resumed = 0

    def connect(self, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        """Shakes hands and asks once; returns the session for the next time."""
        sock = socket.create_connection(self._address, 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as every client of Kafka does
        with self._context.wrap_socket(sock, server_hostname="localhost", session=session) as encrypted:
            encrypted.sendall(self._request)
            size: int = struct.unpack(">i", encrypted.recv(4))[0]
            while size > 0:
                if not (data := encrypted.recv(size)):
                    raise ConnectionError("the broker closed the connection")
                size -= len(data)
            self.resumed += bool(encrypted.session_reused)
            return encrypted.session

    def run(self, count: int, *, resumed: bool) -> None:
        """Connects so often; the first time with a whole handshake, which is one more, if the others are resumed."""
        session = self.connect(None) if resumed else None
        for _ in range(count):
            found = self.connect(session)
            session = found if resumed else None


def measure_once(broker: Secured, version: str, count: int, *, resumed: bool) -> tuple[float, float, float]:
    """Returns CPU in us for a connection, connections a second, and which share of them was resumed. Raises OSError."""
    clients = [Client(broker, version) for _ in range(THREADS)]
    before, began = broker.cpu_seconds(), time.perf_counter()
    in_threads(lambda at: clients[at].run(count // THREADS, resumed=resumed), THREADS, [])
    took, used = time.perf_counter() - began, broker.cpu_seconds() - before
    made = count // THREADS * THREADS
    return used / made * 1e6, made / took, sum(each.resumed for each in clients) / made


def measure(brokers: list[Secured], pairs: int, count: int) -> Figures:
    """Returns the figures of ROWS. Those of resumed handshakes hold whole ones as well where a broker does not resume all."""
    found: Figures = defaultdict(list)
    for broker in brokers:
        for version in TLS_VERSIONS:
            for resumed in KINDS.values():
                measure_once(broker, version, WARM_UP if broker.kind == "kafka" else 100, resumed=resumed)
    for number in range(pairs):
        for version in TLS_VERSIONS:
            for kind, resumed in KINDS.items():
                for broker in in_turn(brokers, number):
                    us, per_s, share = measure_once(broker, version, count, resumed=resumed)
                    print(
                        f"{number + 1}: TLS {version}, {kind}, {broker.kind}: {us:.0f} us, {per_s:.0f}/s, {share:.0%} resumed",
                        flush=True,
                    )
                    for figure, value in (("us", us), ("per_s", per_s), ("share", share * 100)):
                        found[broker.kind, f"{version} {kind} {figure}"].append(value)
    return found
