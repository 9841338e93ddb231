"""The bench of how long a broker takes to open its partitions after a clean stop and after kill -9: ottla and Apache Kafka, equal
contents.

    python -m scripts.bench.opening [--partitions 1000] [--mib 2048] [--batch-records 16] [--rounds 3] [--docs]

Each broker fills a directory of its own by the same Produce requests: --mib over all partitions, batches of --batch-records
records of 1,000 bytes. Then, --rounds times: kill -9 and start; stop and start. A start is over when ListOffsets has answered for
every partition, with the offset that was there before. `open` is that part of it in which the broker opens its logs, as its own
log says: the rest is the start of a process, a JVM in Kafka's case.

kill -9 leaves the page cache alone and it is warm: both brokers read from memory, not from the disk. Recovery reads the whole
active segment of every partition, which here is all there is. Brokers run one after the other, never two at once.

The directories lie in a temporary directory (--dir says where) and are removed. With --docs the figures are added to
docs/benchmarks.*. Exit code 1 where a target of rows.py is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compat_tests.reference.kafka import HOST, BrokerFailed, BrokerProcess
from scripts.bench.compare import BROKERS, Figures
from scripts.bench.kload import Process
from scripts.bench.kload_wire import (
    Connection,
    Refused,
    create_topics,
    produce_error,
    produce_request,
    record_batch,
    request,
    string,
)
from scripts.bench.report import tell
from scripts.bench.rows import OPENING_ROWS

TOPIC_PARTITIONS = 100
RECORD_BYTES = 1000
IN_FLIGHT = 64
WAIT_SECONDS = 600
OPENED = {
    "kafka": re.compile(r"Loaded (\d+) logs in (\d+)ms"),
    "ottla": re.compile(r"opened (\d+) partitions in .* stop, (\d+) ms"),
}


def topics_of(partitions: int) -> dict[str, int]:
    """Returns the number of partitions of each topic by name."""
    counts = [TOPIC_PARTITIONS] * (partitions // TOPIC_PARTITIONS)
    if partitions % TOPIC_PARTITIONS:
        counts.append(partitions % TOPIC_PARTITIONS)
    return {f"open-{number}": count for number, count in enumerate(counts)}


def fill(broker: BrokerProcess, topics: dict[str, int], mib: int, batch_records: int) -> int:
    """Writes about `mib` over all partitions, to each the same; returns the end offset of each."""
    address = (HOST, broker.port)
    for topic, count in topics.items():
        create_topics(address, [topic], count)
    value = bytes(range(250)) * (RECORD_BYTES // 250)
    batch = record_batch([value] * batch_records, int(time.time() * 1000))
    each = max(1, (mib << 20) // len(batch) // sum(topics.values()))
    connection = Connection(address)
    waiting: list[str] = []

    def settle(down_to: int) -> None:
        while len(waiting) > down_to:
            topic = waiting.pop(0)
            error = produce_error(connection.receive(), topic)
            if error:
                raise Refused(f"Produce: error {error}")

    for topic, count in topics.items():
        for partition in range(count):
            data = produce_request(topic, partition, batch, 1)
            for _ in range(each):
                connection.send(data)
                waiting.append(topic)
                settle(IN_FLIGHT)
    settle(0)
    connection.close()
    return each * batch_records


def end_offsets(connection: Connection, topics: dict[str, int]) -> list[int]:
    """Returns the end offset of every partition, -1 where the broker does not serve it yet."""
    found = []
    for topic, count in topics.items():
        entries = b"".join(struct.pack(">iq", partition, -1) for partition in range(count))
        body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">i", count) + entries
        answer = bytes(connection.ask(request(2, 1, body)))
        at = 4 + 4 + 2 + len(topic) + 4
        for _ in range(count):
            _, error, _, offset = struct.unpack_from(">ihqq", answer, at)
            found.append(-1 if error else offset)
            at += 22
    return found


def timed_start(broker: BrokerProcess, topics: dict[str, int], expected: int) -> dict[str, float]:
    """Returns the seconds until every partition answers with its end and, as the broker says, those of them in which the logs
    were opened."""
    before = broker.log_file.stat().st_size
    with open(broker.log_file, "ab") as log:
        begin = time.perf_counter()
        broker.process = subprocess.Popen(
            broker.command(), cwd=broker.directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=broker.environment()
        )
    while True:
        if broker.process.poll() is not None or time.perf_counter() - begin > WAIT_SECONDS:
            raise BrokerFailed(f"{broker.kind} did not come up:\n{broker.log_tail()}")
        with contextlib.suppress(ConnectionError, TimeoutError):
            connection = Connection((HOST, broker.port))
            connection.socket.settimeout(WAIT_SECONDS)
            found = end_offsets(connection, topics)
            connection.close()
            if min(found) >= 0:
                break
        time.sleep(0.005)  # between two attempts: another process's readiness has no event to wait for
    figures = {"s": round(time.perf_counter() - begin, 3)}
    wrong = [offset for offset in found if offset != expected]
    if wrong:
        raise Refused(f"{broker.kind}: {len(wrong)} of {len(found)} partitions end at {wrong[:3]}, not at {expected}")
    with open(broker.log_file, errors="replace") as text:
        text.seek(before)
        opened = [int(match[2]) for match in OPENED[broker.kind].finditer(text.read())]
    if opened:
        figures["open_s"] = max(opened) / 1000
    figures["cpu_s"] = round(Process(broker.process.pid).before, 2)
    return figures


def measure(kind: str, directory: Path, options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Measures both brokers; returns, by load and figure, one value a round."""
    topics = topics_of(options.partitions)
    broker = BROKERS[kind](directory / kind, {"log.retention.check.interval.ms": "3600000"})
    found: dict[str, dict[str, list[float]]] = {}
    try:
        broker.start()
        begin = time.perf_counter()
        expected = fill(broker, topics, options.mib, options.batch_records)
        print(f"{kind}: {options.partitions} partitions of {expected} records, {time.perf_counter() - begin:.0f} s", flush=True)
        for _ in range(options.rounds):
            for load, end in (("opening-kill9", broker.kill), ("opening-clean", broker.stop)):
                end()
                figures = timed_start(broker, topics, expected)
                print(f"{load:14} {kind:6} {figures}", flush=True)
                for name, value in figures.items():
                    found.setdefault(load, {}).setdefault(name, []).append(value)
    finally:
        broker.kill()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--batch-records", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", default="ottla,kafka")
    parser.add_argument("--dir", default=None, help="where the directories are made")
    parser.add_argument("--docs", action="store_true", help="add the figures to docs/benchmarks.*")
    options = parser.parse_args()
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="ottla-opening-", dir=options.dir) as directory:
        for kind in options.brokers.split(","):
            found[kind] = measure(kind, Path(directory), options)
    return tell(found, OPENING_ROWS, docs=options.docs)


if __name__ == "__main__":
    sys.exit(main())
