"""The bench of how fast a broker compacts, and what its clients notice of it: ottla and Apache Kafka, equal contents.

    python -m scripts.bench.compaction [--mib 1024] [--distinct 0.1] [--value-bytes 1000] [--rounds 3] [--thread] [--docs]

Each broker fills a topic by the same Produce requests: --mib of records of --value-bytes in batches of 16, whose keys are drawn
from --distinct times as many as there are records; segments of 64 MiB. Then the topic is made due, all of it dirty. Speed is
bytes of log divided by the time of the cleaning, both by the broker's own word in its log.

Then kload's e2e runs at 500 requests/s, first alone (`e2e_p99_ms`) and then beside the compaction of --topics such topics, one
after the other (`e2e_compacting_p99_ms`; `done_before_the_end` says how many of them were done when the load ended). With
--thread, ottla compacts in a thread of the broker's process instead of a process of its own: what that would cost.

Everything lies in a temporary directory (--dir says where) and is removed; the files are read from the page cache. With --docs
the figures are added to docs/benchmarks.*. Exit code 1 where a target of rows.py is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import time
from pathlib import Path

from compat_tests.reference.kafka import HOST, BrokerFailed, BrokerProcess
from ottla.wire.records import Record, build_batch
from scripts.bench.compare import BROKERS, Figures, Ottla, kload
from scripts.bench.kload_wire import Connection, Refused, create_topics, produce_error, produce_request, request, string
from scripts.bench.report import tell
from scripts.bench.rows import COMPACTION_ROWS

BATCH_RECORDS = 16
IN_FLIGHT = 32
SEGMENT_BYTES = 64 << 20
E2E_SECONDS = 12
WAIT_SECONDS = 600
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "3600000",
}
TOPIC = ("cleanup.policy=compact", f"segment.bytes={SEGMENT_BYTES}", "min.cleanable.dirty.ratio=1.0")
CLEANED = {
    "kafka": re.compile(r"([\d,.]+) MB of log processed in ([\d,.]+) seconds"),
    "ottla": re.compile(r"is compacted up to offset \d+ in (\d+) ms: .* of (\d+) bytes"),
}
IN_A_THREAD = (
    "import ottla.server.partitions.cleaning as cleaning; from ottla.log.disk.files import OsDisk; "
    "from ottla.server.program.cli import main; "
    "cleaning.ProcessWorker = lambda clock: cleaning.ThreadWorker(OsDisk(), clock); main()"
)


class OttlaInAThread(Ottla):
    """The broker with the cleaner in a thread."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", IN_A_THREAD, "serve", str(self.properties)]


def fill(broker: BrokerProcess, topic: str, options: argparse.Namespace) -> int:
    """Writes the topic and a segment's worth on top, which stays active; returns the number of records."""
    address = (HOST, broker.port)
    create_topics(address, [topic], 1, TOPIC)
    count: int = ((options.mib << 20) + SEGMENT_BYTES) // (options.value_bytes + 30)
    keys = max(1, int(count * options.distinct))
    draw = random.Random(1)
    value = bytes(range(250)) * (options.value_bytes // 250 + 1)
    now_ms = int(time.time() * 1000)
    connection = Connection(address)
    in_flight = 0
    for _ in range(0, count, BATCH_RECORDS):
        records = [
            Record(0, now_ms, b"key-%08d" % draw.randrange(keys), value[: options.value_bytes]) for _ in range(BATCH_RECORDS)
        ]
        connection.send(produce_request(topic, 0, build_batch(records), 1))
        in_flight += 1
        if in_flight >= IN_FLIGHT:
            settle(connection, topic)
            in_flight -= 1
    for _ in range(in_flight):
        settle(connection, topic)
    connection.close()
    return count


def settle(connection: Connection, topic: str) -> None:
    error = produce_error(connection.receive(), topic)
    if error:
        raise Refused(f"Produce: error {error}")


def make_due(broker: BrokerProcess, topic: str) -> None:
    """Sets min.cleanable.dirty.ratio=0 by IncrementalAlterConfigs, which makes the topic due."""
    body = b"\0\0\0\1\2" + string(topic) + b"\0\0\0\1" + string("min.cleanable.dirty.ratio") + b"\0" + string("0.0") + b"\0"
    connection = Connection((HOST, broker.port))
    connection.ask(request(44, 0, body))
    connection.close()


def cleaned_after(broker: BrokerProcess, at: int) -> tuple[float, float]:
    """Returns (MiB, seconds) of the first cleaning that the broker's log reports behind byte `at`."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        with open(broker.log_file, errors="replace") as text:
            text.seek(at)
            found = CLEANED[broker.kind].search(text.read())
        if found:
            first, second = (float(group.replace(",", "")) for group in found.groups())
            return (first, second) if broker.kind == "kafka" else (second / (1 << 20), first / 1000)
        time.sleep(0.05)  # another process's work has no event to wait for
    raise BrokerFailed(f"{broker.kind} did not compact:\n{broker.log_tail()}")


def compact(broker: BrokerProcess, topic: str, options: argparse.Namespace) -> dict[str, float]:
    fill(broker, topic, options)
    at, before = broker.log_file.stat().st_size, cpu_seconds(broker)
    make_due(broker, topic)
    mib, seconds = cleaned_after(broker, at)
    cpu = cpu_seconds(broker) - before
    return {
        "mib": round(mib, 1),
        "s": round(seconds, 3),
        "mib_per_s": round(mib / seconds, 1),
        "cpu_s_per_gib": round(cpu / mib * 1024, 2),
    }


def cpu_seconds(broker: BrokerProcess) -> float:
    """Returns the CPU seconds of the broker and its former children, once it has none any more."""
    assert broker.process is not None
    own = Path(f"/proc/{broker.process.pid}")
    while any((task / "children").read_text() for task in (own / "task").iterdir()):
        time.sleep(0.05)  # another process's end has no event to wait for
    ticks = (own / "stat").read_text().rsplit(")", 1)[1].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def e2e_p99_ms(broker: BrokerProcess, topic: str, seconds: int) -> float:
    """Returns the 99th percentile of kload's e2e at 500/s in ms."""
    assert broker.process is not None
    words = ["--topic", topic, "e2e", "--rate", "500", "--seconds", str(seconds), "--record-bytes", "100"]
    return float(kload(broker.bootstrap, broker.process.pid, *words)["e2e_p99_ms"])


def under_load(broker: BrokerProcess, name: str, options: argparse.Namespace) -> dict[str, float]:
    """Returns the latency alone and beside compactions, which are not throttled."""
    figures = {"e2e_p99_ms": e2e_p99_ms(broker, f"{name}-calm", E2E_SECONDS)}
    topics = [f"{name}-{number}" for number in range(options.topics)]
    for topic in topics:
        fill(broker, topic, options)
    at = broker.log_file.stat().st_size
    for topic in topics:
        make_due(broker, topic)
    figures["e2e_compacting_p99_ms"] = e2e_p99_ms(broker, f"{name}-busy", E2E_SECONDS)
    with open(broker.log_file, errors="replace") as text:
        text.seek(at)
        figures["done_before_the_end"] = len(CLEANED[broker.kind].findall(text.read()))
    return figures


def measure(kind: str, directory: Path, options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Measures the broker; returns, by load and figure, one value a round."""
    maker = OttlaInAThread if kind == "ottla" and options.thread else BROKERS[kind]
    found: dict[str, dict[str, list[float]]] = {}
    broker = maker(directory / kind, SETTINGS)
    try:
        broker.start()
        for number in range(options.rounds + 1):  # the first is a warm-up
            figures = {"compaction": compact(broker, f"compaction-{number}", options)}
            if number and options.topics:
                figures["compaction-e2e"] = under_load(broker, f"load-{number}", options)
            for load, values in figures.items():
                print(f"{load:14} {kind:6} {values}{'' if number else '  (warm-up)'}", flush=True)
                for name, value in values.items() if number else ():
                    found.setdefault(load, {}).setdefault(name, []).append(value)
    finally:
        broker.kill()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--distinct", type=float, default=0.1)
    parser.add_argument("--value-bytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--topics", type=int, default=3, help="how many are compacted beside e2e; 0: none, and no e2e")
    parser.add_argument("--brokers", default="ottla,kafka")
    parser.add_argument("--thread", action="store_true", help="ottla's cleaner in a thread")
    parser.add_argument("--dir", default=None, help="where the directories are made")
    parser.add_argument("--docs", action="store_true", help="add the figures to docs/benchmarks.*")
    options = parser.parse_args()
    found: Figures = {}
    for kind in options.brokers.split(","):
        with tempfile.TemporaryDirectory(prefix="ottla-compaction-", dir=options.dir) as directory:
            found[kind] = measure(kind, Path(directory), options)
    return tell(found, COMPACTION_ROWS, docs=options.docs)


if __name__ == "__main__":
    sys.exit(main())
