"""What rights and handshakes cost a broker, in its CPU time: pairs of runs, the one beside the other.

    python -m scripts.bench.security_costs [--pairs 6] [--seconds 3] [--handshakes 300]

Rights: small Produce requests (one record of 100 bytes, five in flight) at a broker without access rules and at one with them, in
turn, so that what else the machine does falls on both. Nobody is a super user, so each request is decided about. The ratio of a
pair is the CPU time of a request with rules to that without. On a machine that does something else it says little.

Handshakes: clients that connect one after the other to a TLS listener, with a whole handshake each and with the session of the
last one (TLS 1.2 and 1.3), and a broker whose certificate has a key of P-256. A client reads the answer to one ApiVersions.

Figures of an uncompiled broker are good for ratios only; the first line says which it is.
"""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import ottla.wire.records
from compat_tests.brokers import Ottla
from compat_tests.certificates import authority, client_context, issue
from compat_tests.reference.kafka import HOST, free_port
from compat_tests.wire import encode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from scripts.bench.cluster_scale import cpu_seconds

AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:nobody",
}
VERSIONS: Final = {"TLS 1.2": ssl.TLSVersion.TLSv1_2, "TLS 1.3": ssl.TLSVersion.TLSv1_3}


def request_us(broker: Ottla, seconds: float) -> float:
    """Returns the broker's CPU time for one small Produce request, in us."""
    assert broker.process is not None
    command = [sys.executable, "-m", "scripts.bench.kload", "--bootstrap", broker.bootstrap, "--pid", str(broker.process.pid)]
    done = subprocess.run(
        [*command, "produce", "--seconds", str(seconds)], capture_output=True, text=True, check=True, timeout=120
    )
    return float(json.loads(done.stdout)["broker_cpu_us_per_request"])


def compare_rights(directory: Path, pairs: int, seconds: float) -> list[tuple[float, float]]:
    """Returns the us of a request without and with access rules, pair by pair; the one that begins changes."""
    with ExitStack() as stack:
        brokers = [Ottla(directory / "without"), Ottla(directory / "with", AUTHORIZER)]
        for broker in brokers:
            broker.start()
            stack.callback(broker.stop)
            request_us(broker, 1)
        found = []
        for number in range(pairs):
            times = {at: request_us(brokers[at], seconds) for at in ((0, 1), (1, 0))[number % 2]}
            found.append((times[0], times[1]))
        return found


class TlsOttla:
    """A broker with a listener for TLS, and a client of it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.root = authority()
        store, port, self.port = directory / "broker.pem", free_port(), free_port()
        store.write_text(issue("broker", self.root).pem())
        self.broker = Ottla(
            directory,
            {
                "listeners": f"PLAINTEXT://{HOST}:{port},TLS://{HOST}:{self.port}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{port},TLS://{HOST}:{self.port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
                "listener.name.tls.ssl.keystore.type": "PEM",
                "listener.name.tls.ssl.keystore.location": str(store),
            },
            port,
        )

    def connect(self, context: ssl.SSLContext, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
        """Shakes hands and asks once; returns the session, and whether it was the one that was given."""
        frame = encode(ApiVersionsRequest("lib", "1"), 3, 1)
        sock = socket.create_connection((HOST, self.port), 30)
        with context.wrap_socket(sock, server_hostname="localhost", session=session) as encrypted:
            encrypted.sendall(struct.pack(">i", len(frame)) + frame)
            size: int = struct.unpack(">i", encrypted.recv(4))[0]
            while size > 0:
                size -= len(encrypted.recv(size))
            return encrypted.session, bool(encrypted.session_reused)

    def handshake_us(self, version: str, count: int, *, resumed: bool) -> float:
        """Returns the broker's CPU time for a connection, in us. Raises ValueError if sessions are not resumed."""
        context = client_context(self.root)
        context.minimum_version = context.maximum_version = VERSIONS[version]
        session, _ = self.connect(context, None)
        before, reused = cpu_seconds(self.broker), 0
        for _ in range(count):
            found, is_reused = self.connect(context, session if resumed else None)
            reused += is_reused
            session = found if resumed else None
        if reused != count * resumed:
            raise ValueError(f"{reused} of {count} sessions were resumed")
        return (cpu_seconds(self.broker) - before) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--handshakes", type=int, default=300)
    arguments = parser.parse_args()
    compiled = not str(ottla.wire.records.__file__).endswith(".py")
    print("compiled" if compiled else "uncompiled: ratios only", flush=True)
    with tempfile.TemporaryDirectory(prefix="ottla-costs-") as place:
        pairs = compare_rights(Path(place), arguments.pairs, arguments.seconds)
        ratios = [with_rules / without for without, with_rules in pairs]
        print(
            f"rights: {statistics.median(ratios):.3f} of the CPU time of a small Produce ({min(ratios):.3f} to {max(ratios):.3f})"
        )
        for without, with_rules in pairs:
            print(f"    {without:.1f} us without, {with_rules:.1f} us with")
        tls = TlsOttla(Path(place) / "tls")
        tls.broker.start()
        try:
            for version in VERSIONS:
                whole, resumed = (tls.handshake_us(version, arguments.handshakes, resumed=each) for each in (False, True))
                print(f"{version}: {whole:.0f} us of CPU for a connection, {resumed:.0f} us with a session", flush=True)
        finally:
            tls.broker.stop()


if __name__ == "__main__":
    main()
