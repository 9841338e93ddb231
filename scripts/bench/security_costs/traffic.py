"""The bench of what it costs to encrypt traffic: a broker's CPU for a GiB of produce and fetch, in plain text and over TLS.

The same load generator goes to ottla and Kafka in turn. It is in Python and may be slower than the broker, which matters for
MiB/s and not for the broker's CPU. Directories are on tmpfs. The suite is what the client's and the broker's OpenSSL and Java
agree on by default: AES-256-GCM, with ECDHE and ECDSA in TLS 1.2.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from compat_tests.reference.kafka import HOST
from scripts.bench.compare import kload, settle, touch_memory
from scripts.bench.security_costs.brokers import Secured
from scripts.bench.security_costs.table import Figures, Row, in_turn

LOADS: Final = {
    "produce of 16 × 1 kB": "produce --conns 4 --depth 5 --partitions 4 --records 16 --record-bytes 1000 --seconds {seconds}",
    "produce of 1,000 × 1 kB": "produce --conns 2 --depth 2 --records 1000 --record-bytes 1000 --seconds {seconds}",
    "fetch of 1 MB batches": "fetch --mib 256 --passes {passes} --records 1000 --record-bytes 1000",
}
WAYS: Final = {"plain text": "", "TLS 1.3": "1.3", "TLS 1.2": "1.2"}
WARM_UP_S: Final = 8
"""Kafka's ciphers are compiled when they have run for some time."""


def _rows() -> list[Row]:
    rows = []
    for load in LOADS:
        for way, version in WAYS.items():
            title = f"{load}, {way}: CPU"
            rows.append(Row(title, "ottla", f"{load} {way} cpu", "s/GiB", "kafka", at_most=0.5 if version else None))
            rows.append(Row("the same: rate", "ottla", f"{load} {way} rate", "MiB/s", "kafka"))
    return rows


ROWS: Final = tuple(_rows())


def measure(brokers: list[Secured], pairs: int, seconds: float) -> Figures:
    """Returns the figures of ROWS. Raises CalledProcessError."""
    found: Figures = defaultdict(list)
    for broker in brokers:
        for way in WAYS:
            for load in LOADS:
                run(broker, load, way, WARM_UP_S if broker.kind == "kafka" else 1)
    for number in range(pairs):
        for load in LOADS:
            for way in WAYS:
                for broker in in_turn(brokers, number):
                    settle([each.broker for each in brokers])
                    touch_memory()
                    figures = run(broker, load, way, seconds)
                    found[broker.kind, f"{load} {way} cpu"].append(figures["broker_cpu_s_per_gib"])
                    found[broker.kind, f"{load} {way} rate"].append(figures["mib_per_s"])
                    print(
                        f"{number + 1}: {load}, {way}, {broker.kind}: {figures['broker_cpu_s_per_gib']} s/GiB, "
                        f"{figures['mib_per_s']} MiB/s",
                        flush=True,
                    )
    return found


def run(broker: Secured, load: str, way: str, seconds: float) -> dict[str, Any]:
    """Runs one load; returns kload's figures. Raises CalledProcessError."""
    version = WAYS[way]
    port = broker.ports["TLS"] if version else broker.broker.port
    words = LOADS[load].format(seconds=seconds, passes=round(4 * seconds)).split()
    scheme = f"tls{version}://" if version else ""
    return kload(f"{scheme}{HOST}:{port}", broker.pid, *words)
