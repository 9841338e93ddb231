"""The bench of what security costs a broker: TLS, handshakes, access rules, attacks, and Spark with a login; beside Apache Kafka
4.4.0.

    python -m scripts.bench.security_costs [--kafka] [--parts rights,traffic,handshakes,attacks,spark] [--pairs 6]

Without --kafka only ottla is measured. All figures are medians of pairs: what is compared runs in turn, so that what else the
machine does falls on both. On a machine that does much else they say little. An uncompiled broker is good for ratios only; the
first line says which it is. Each part prints what it measures as it goes, and the tables come at the end. All parts take about
half an hour. Exit code 1 where a target is missed.

    rights      small Produce requests without and with access rules
    traffic     CPU for a GiB of produce and fetch, in plain text, by TLS 1.3 and 1.2
    handshakes  whole ones and resumed ones
    attacks     a neighbour's p99 and the broker's memory while strangers attack (compat_tests/security/test_attack_list.py)
    spark       Spark's connector over SASL_SSL, reading and writing
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import ottla.wire.records
from scripts.bench.security_costs import rights
from scripts.bench.security_costs.table import Figures, Row, holds, table

PARTS = ("rights", "traffic", "handshakes", "attacks", "spark")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", action="store_true", help="measure Apache Kafka as well")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3, help="of each load")
    parser.add_argument("--handshakes", type=int, default=1000, help="in each run")
    parser.add_argument("--mib", type=int, default=512, help="that Spark reads and writes")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # brokers end with it, and are not left behind
    compiled = not str(ottla.wire.records.__file__).endswith(".py")
    print("compiled" if compiled else "uncompiled: ratios only", flush=True)
    kinds = ["ottla", "kafka"] if arguments.kafka else ["ottla"]
    tables, missed = [], 0

    def report(found: Figures, rows: tuple[Row, ...], own: str = "ottla", other: str = "Apache Kafka 4.4.0") -> None:
        nonlocal missed
        tables.append(table(found, rows, own, other))
        missed += sum(holds(found, row) is False for row in rows)
        print(tables[-1], flush=True)

    with tempfile.TemporaryDirectory(prefix="ottla-costs-", dir="/dev/shm") as name:
        place, parts = Path(name), arguments.parts.split(",")
        if "rights" in parts:
            report(rights.measure(place / "rights", arguments.pairs, arguments.seconds), rights.ROWS, "with rules", "without")
        if "traffic" in parts or "handshakes" in parts:
            from scripts.bench.security_costs import handshakes, traffic
            from scripts.bench.security_costs.brokers import secured

            with secured(kinds, place / "tls") as brokers:
                if "traffic" in parts:
                    report(traffic.measure(brokers, arguments.pairs, arguments.seconds), traffic.ROWS)
                if "handshakes" in parts:
                    report(handshakes.measure(brokers, arguments.pairs, arguments.handshakes), handshakes.ROWS)
        if "attacks" in parts:
            from scripts.bench.security_costs import attacks

            report(attacks.measure(place / "attacks", arguments.pairs), attacks.ROWS, "while it runs", "before")
        if "spark" in parts:
            from scripts.bench.security_costs import spark
            from scripts.bench.security_costs.brokers import secured

            with secured(kinds, place / "spark") as brokers:
                report(spark.measure(brokers, arguments.pairs, arguments.mib), spark.ROWS)
    print("\n" + "\n\n".join(tables), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
