"""A load generator for Kafka brokers: the same prebuilt requests against any of them, at wire level.

    python -m scripts.bench.kload --bootstrap 127.0.0.1:9092 [--pid BROKER_PID] SCENARIO [options]

    produce    --depth requests in flight on each of --conns connections, for --seconds
    fetch      a topic is filled with --mib of records, then all of it is read, --passes times
    e2e        one producer at --rate requests/s, one consumer that long-polls: milliseconds from end to end
    metadata   --topics of --partitions each, then Metadata for all of them, for --seconds
    group      --members join a classic group at once: seconds until all of them are in one generation
    group-storm  --groups classic groups of --members each form at once: seconds until all are stable
    commits    --depth OffsetCommits of --partitions in flight from each of --conns groups with one member, for --seconds
    transactions  --conns producers, each with one batch of --records a transaction (Produce v12, EndTxn v5), for --seconds
    idle       --conns connections that ask ApiVersions once, and stay
    ready      how long until a broker that is just starting answers ApiVersions

What runs for --seconds asks once at least on each connection. The client does as little as it can: a request is encoded once, an
answer is measured and hardly read. So the figures are the broker's, not a client library's. It needs nothing but this file,
kload_{wire,txn,groups}.py and the standard library.

Prints one JSON object, with the units in the names. With --pid, the CPU seconds of that process with its threads and children,
and its resident memory, come from /proc. Exit code 1, with a line that says why, where the broker refuses something.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.bench.kload_groups import HEARTBEAT_SECONDS, Storm
from scripts.bench.kload_txn import Batches, Transactions
from scripts.bench.kload_wire import (
    API_VERSIONS,
    METADATA_OF_ALL,
    Address,
    Connection,
    Member,
    Refused,
    address_of,
    create_topics,
    delete_topics,
    fetch_answer,
    fetch_request,
    find_coordinator,
    next_offset,
    produce_error,
    produce_request,
    record_batch,
)

# Figures


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3, 3)

    return {"p50_ms": at(0.50), "p99_ms": at(0.99), "p999_ms": at(0.999), "max_ms": round(ordered[-1] * 1e3, 3)}


class Process:
    """The broker's process: CPU from now on, and memory, of it and its descendants. Pid 0 is none, with no figures."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.before = self.cpu_seconds() if pid else 0.0

    def _pids(self) -> list[int]:
        todo, found = [self.pid], []
        while todo:
            found.append(todo.pop())
            for task in Path(f"/proc/{found[-1]}/task").iterdir():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended by now
                    todo += map(int, (task / "children").read_text().split())
        return found

    def cpu_seconds(self) -> float:
        ticks = 0
        for pid in self._pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident_mib(self) -> float:
        kib = 0
        for pid in self._pids():
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            kib += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
        return kib / 1024

    def figures(self, gib: float = 0, requests: int = 0) -> dict[str, float]:
        if not self.pid:
            return {}
        used = self.cpu_seconds() - self.before
        out = {"broker_cpu_s": round(used, 2), "broker_rss_mib": round(self.resident_mib(), 1)}
        if gib:
            out["broker_cpu_s_per_gib"] = round(used / gib, 3)
        if requests:
            out["broker_cpu_us_per_request"] = round(used / requests * 1e6, 1)
        return out


# Scenarios


def run_produce(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    topic = options.topic
    create_topics(address, [topic], options.partitions, options.config)
    batch = record_batch([os.urandom(options.record_bytes)] * options.records, int(time.time() * 1000))
    requests = [produce_request(topic, partition, batch, options.acks) for partition in range(options.partitions)]
    samples: list[float] = []
    problems: list[Exception] = []
    process, begin = Process(options.pid), time.perf_counter()
    deadline = begin + options.seconds

    def worker(number: int) -> None:
        connection, sent, mine, turn = Connection(address), deque[float](), list[float](), number
        while True:
            while len(sent) < options.depth and (time.perf_counter() < deadline or not (sent or mine)):
                sent.append(time.perf_counter())
                connection.send(requests[turn % options.partitions])
                turn += options.conns
            if not sent:
                break
            error = produce_error(connection.receive(), topic)
            mine.append(time.perf_counter() - sent.popleft())
            if error:
                raise Refused(f"Produce: error {error}")
        samples.extend(mine)

    in_threads(worker, options.conns, problems)
    took = time.perf_counter() - begin
    count, size = len(samples), len(samples) * len(batch)
    return {
        "batch_bytes": len(batch),
        "records_per_batch": options.records,
        "conns": options.conns,
        "depth": options.depth,
        "acks": options.acks,
        "partitions": options.partitions,
        "requests": count,
        "requests_per_s": round(count / took),
        "records_per_s": round(count * options.records / took),
        "mib_per_s": round(size / took / 2**20, 1),
        **percentiles(samples),
        **process.figures(size / 2**30, count),
    }


def run_fetch(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    topic = options.topic
    create_topics(address, [topic], 1)
    batch = record_batch([os.urandom(options.record_bytes)] * options.records, int(time.time() * 1000))
    data, connection = produce_request(topic, 0, batch, 1), Connection(address)
    for _ in range(options.mib * 2**20 // len(batch)):
        if error := produce_error(connection.ask(data), topic):
            raise Refused(f"Produce: error {error}")
    size = count = requests = 0
    process, begin = Process(options.pid), time.perf_counter()
    for _ in range(options.passes):
        offset, high = 0, 1
        while offset < high:
            high, records = fetch_answer(connection.ask(fetch_request(topic, offset, options.max_bytes, 100)), topic)
            offset, used, found = next_offset(records, offset)
            size, count, requests = size + used, count + found, requests + 1
    took = time.perf_counter() - begin
    return {
        "batch_bytes": len(batch),
        "max_bytes": options.max_bytes,
        "mib": size >> 20,
        "requests": requests,
        "mib_per_s": round(size / took / 2**20, 1),
        "records_per_s": round(count / took),
        **process.figures(size / 2**30, requests),
    }


def run_e2e(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    topic, total = options.topic, int(options.rate * options.seconds)
    create_topics(address, [topic], 1)
    sent_at: list[float] = []
    acked: list[float] = []
    samples: list[float] = []
    problems: list[Exception] = []
    batch = record_batch([os.urandom(options.record_bytes)], int(time.time() * 1000))
    data = produce_request(topic, 0, batch, options.acks)
    process = Process(options.pid)

    def worker(number: int) -> None:
        connection = Connection(address)
        if number == 0:
            begin = time.perf_counter()
            for turn in range(total):
                time.sleep(max(0.0, begin + turn / options.rate - time.perf_counter()))
                sent_at.append(time.perf_counter())
                error = produce_error(connection.ask(data), topic)
                acked.append(time.perf_counter() - sent_at[turn])
                if error:
                    raise Refused(f"Produce: error {error}")
            return
        offset = 0
        while offset < total and not problems:
            _, records = fetch_answer(connection.ask(fetch_request(topic, offset, 1 << 20, 500)), topic)
            now = time.perf_counter()
            upto, _, _ = next_offset(records, offset)
            samples.extend(now - sent_at[at] for at in range(offset, upto))
            offset = upto

    in_threads(worker, 2, problems)
    return {
        "rate_per_s": options.rate,
        "acks": options.acks,
        "records": total,
        **{f"e2e_{name}": value for name, value in percentiles(samples).items()},
        **{f"ack_{name}": value for name, value in percentiles(acked).items()},
        **process.figures(requests=total),
    }


def run_metadata(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    names = [f"{options.topic}-{number:05}" for number in range(options.topics)]
    begin = time.perf_counter()
    for at in range(0, len(names), 100):
        create_topics(address, names[at : at + 100], options.partitions)
    created, connection, samples, size = time.perf_counter() - begin, Connection(address), list[float](), 0
    connection.ask(METADATA_OF_ALL)  # the first answer may build what the others reuse
    process, begin = Process(options.pid), time.perf_counter()
    while time.perf_counter() - begin < options.seconds or not samples:
        asked = time.perf_counter()
        size = len(connection.ask(METADATA_OF_ALL))
        samples.append(time.perf_counter() - asked)
    return {
        "topics": options.topics,
        "partitions": options.partitions,
        "create_s": round(created, 2),
        "answer_bytes": size,
        "requests": len(samples),
        **percentiles(samples),
        **process.figures(requests=len(samples)),
    }


def run_group(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    """Runs members that do what a client does: join, sync, heartbeat, and join again when a heartbeat is answered by a
    rebalance."""
    group = options.topic
    ready = threading.Barrier(options.members + 1)
    newest: dict[int, int] = {}
    problems: list[Exception] = []
    settled = threading.Event()
    find_coordinator(address, group)
    members = [Member(Connection(address, 1 << 14), group) for _ in range(options.members)]

    def worker(number: int) -> None:
        member = members[number]
        ready.wait()
        while not settled.is_set():
            newest[number] = member.join()
            if member.sync() == 0 and len(newest) == options.members and len(set(newest.values())) == 1:
                settled.set()
            while not settled.wait(HEARTBEAT_SECONDS) and member.beat() == 0:
                pass

    threads = _start(worker, options.members, problems)
    ready.wait()
    process, begin = Process(options.pid), time.perf_counter()
    arrived = settled.wait(options.seconds)
    took = time.perf_counter() - begin
    settled.set()
    _finish(threads, problems)
    if not arrived:
        raise Refused(f"the group is not stable after {options.seconds} s")
    return {"members": options.members, "stable_s": round(took, 3), "generation": max(newest.values()), **process.figures()}


def run_group_storm(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    """Runs members on connections of their own, driven by one thread."""
    storm = Storm(address, options.topic, options.groups, options.members)
    process = Process(options.pid)
    took = storm.run(options.seconds)
    figures = process.figures()
    storm.leave()
    return {
        "groups": options.groups,
        "members": options.members,
        "stable_s": round(took, 3),
        "generations": storm.generations,
        **figures,
    }


def run_commits(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    """Runs members that each commit for all partitions, again and again."""
    topic = options.topic
    create_topics(address, [topic], options.partitions)
    members = []
    for number in range(options.conns):
        group = f"{topic}-{number}"
        find_coordinator(address, group)
        members.append(Member(Connection(address), group))
        members[-1].join()
        members[-1].sync()
    samples: list[float] = []
    problems: list[Exception] = []
    process, begin = Process(options.pid), time.perf_counter()
    deadline = begin + options.seconds

    def worker(number: int) -> None:
        samples.extend(members[number].commit_until(deadline, topic, options.partitions, options.depth))

    in_threads(worker, options.conns, problems)
    took = time.perf_counter() - begin
    figures = process.figures(requests=len(samples))
    for member in members:
        member.connection.ask(member.leave_request())
    return {
        "conns": options.conns,
        "depth": options.depth,
        "partitions": options.partitions,
        "requests": len(samples),
        "commits_per_s": round(len(samples) / took),
        **percentiles(samples),
        **figures,
    }


def run_transactions(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    """Runs producers that each commit one transaction after the other, to partitions in turn."""
    create_topics(address, [options.topic], options.partitions, options.config)
    values = [os.urandom(options.record_bytes)] * options.records
    producers = []
    for number in range(options.conns):
        batches = Batches(values, int(time.time() * 1000))
        name, partition = f"{options.topic}-{number}", number % options.partitions
        producers.append(Transactions(Connection(address), name, options.topic, partition, batches))
    samples: list[float] = []
    problems: list[Exception] = []
    process, begin = Process(options.pid), time.perf_counter()

    def worker(number: int) -> None:
        mine: list[float] = []
        while (now := time.perf_counter()) - begin < options.seconds or not mine:
            producers[number].run()
            mine.append(time.perf_counter() - now)
        samples.extend(mine)

    in_threads(worker, options.conns, problems)
    took = time.perf_counter() - begin
    figures = process.figures(requests=len(samples))
    if figures:
        figures["broker_cpu_us_per_transaction"] = figures.pop("broker_cpu_us_per_request")
    return {
        "conns": options.conns,
        "partitions": options.partitions,
        "records_per_transaction": options.records,
        "transactions": len(samples),
        "transactions_per_s": round(len(samples) / took, 1),
        **percentiles(samples),
        **figures,
    }


def run_idle(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    process = Process(options.pid)
    before = process.resident_mib() if options.pid else 0.0
    connections, begin = [], time.perf_counter()
    for _ in range(options.conns):
        connections.append(Connection(address, 4096))
        connections[-1].ask(API_VERSIONS)
    took = time.perf_counter() - begin
    time.sleep(options.seconds)
    figures: dict[str, Any] = {"conns": options.conns, "connects_per_s": round(options.conns / took), **process.figures()}
    if options.pid:
        figures["broker_rss_grew_mib"] = round(figures["broker_rss_mib"] - before, 1)
    return figures


def run_ready(options: argparse.Namespace, address: Address) -> dict[str, Any]:
    begin = time.perf_counter()
    while time.perf_counter() - begin < options.seconds:
        with contextlib.suppress(OSError):
            Connection(address).ask(API_VERSIONS)
            return {"ready_s": round(time.perf_counter() - begin, 3)}
        time.sleep(0.005)  # between two attempts: another process's readiness has no event to wait for
    raise Refused(f"no answer in {options.seconds} s")


def half_a_frame(address: Address, count: int) -> list[Connection]:
    """Opens connections that announce a request of 1 KiB, send half of it, and stay. Raises OSError where they are not let in.

    Not of 1 MiB: Apache Kafka reserves what is announced, and 5,000 MiB end its heap of 1 GiB.
    """
    if count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    stuck = []
    for _ in range(count):
        stuck.append(Connection(address, 0))
        stuck[-1].send(struct.pack(">i", 1024) + bytes(512))
    return stuck


def in_threads(worker: Callable[[int], None], count: int, problems: list[Exception]) -> None:
    """Runs `worker` with each number below `count`, at once. When all have ended, it raises the first OSError or Refused that one
    of them raised; they find it in `problems`, too.
    """
    _finish(_start(worker, count, problems), problems)


def _start(worker: Callable[[int], None], count: int, problems: list[Exception]) -> list[threading.Thread]:
    def guarded(number: int) -> None:
        try:
            worker(number)
        except (OSError, Refused) as error:
            problems.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def _finish(threads: list[threading.Thread], problems: list[Exception]) -> None:
    """Waits until all have ended, and raises the first problem that one of them had."""
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


SCENARIOS: dict[str, Callable[[argparse.Namespace, Address], dict[str, Any]]] = {
    name.removeprefix("run_").replace("_", "-"): run for name, run in list(globals().items()) if name.startswith("run_")
}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=list(SCENARIOS))
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", help="with tls1.2:// or tls1.3:// before it by TLS")
    parser.add_argument("--pid", type=int, default=0, help="the broker's process id")
    parser.add_argument("--topic", default=f"kload-{os.getpid()}", help="a topic's name, or how topics' and groups' names begin")
    parser.add_argument("--keep", action="store_true", help="leave the topic of produce, fetch and e2e where it is")
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE", help="a setting of produce's topic")
    parser.add_argument("--conns", type=int, default=1)
    parser.add_argument("--depth", type=int, default=5, help="requests in flight on a connection")
    parser.add_argument("--acks", type=int, default=-1, choices=(-1, 1), help="0 has no answer that could be timed")
    parser.add_argument("--records", type=int, default=1, help="records in a batch")
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--max-bytes", type=int, default=1 << 20)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--stuck", type=int, default=0, help="connections that send half a frame first, and stay")
    parser.add_argument("--members", type=int, default=50, help="of a group")
    parser.add_argument("--groups", type=int, default=100)
    return parser


def main() -> int:
    options = arguments().parse_args()
    address = address_of(options.bootstrap)
    try:
        stuck = half_a_frame(address, options.stuck)
        result = SCENARIOS[options.scenario](options, address)
        if not options.keep and options.scenario in ("produce", "fetch", "e2e", "transactions", "commits"):
            delete_topics(address, [options.topic])
    except (OSError, Refused) as error:
        print(f"kload {options.scenario}: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"scenario": options.scenario, **({"stuck": len(stuck)} if stuck else {}), **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
