"""ottla, Apache Kafka 4.4.0 and kfake side by side on this machine, by the same load; and how little writing takes, by floor.

    python -m scripts.bench.compare [--rounds 3] [--brokers ottla,kafka,kfake,floor] [--loads small,e2e] [--docs]

Every broker is started on an empty directory, warmed with each load (a JVM needs it), and then the loads go round: each of them
against each broker, one after the other, as often as --rounds says. Never two at once. A figure is the median of the rounds;
ratios are to Kafka's in the same run, for absolute numbers say as much of the machine as of the broker. Both read the same
server.properties; Kafka has the heap and collector of its own start script.

With --docs the table, the plot and the raw figures are written to docs/benchmarks.{md,svg,json} (the plot by matplotlib: the
extra `bench`); with --loads only their rows are new. Exit code 1 where a target of rows.py is missed. Takes about 25 minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compat_tests.reference import maven
from compat_tests.reference.kafka import HOST, BrokerFailed, BrokerProcess, RealKafka
from scripts.bench import go_programs
from scripts.bench.kload import Process
from scripts.bench.kload_wire import API_VERSIONS, Connection
from scripts.bench.report import add_docs, medians_of, table, write_docs
from scripts.bench.rows import LOADS, ROWS, Load, Place

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parents[1]
KLOAD = (sys.executable, "-m", "scripts.bench.kload")
"""The load generator, run from ROOT."""

Figures = dict[str, dict[str, dict[str, list[float]]]]
"""broker -> load -> figure -> a value a round"""

SETTINGS = {"log.segment.delete.delay.ms": "1000"}  # or a run's topics would fill the disk for a minute each
IDLE_SECONDS = 2
WARM_UP_SECONDS = 3
MOST_SETTLING_SECONDS = 10
TMPFS = "/dev/shm"
TOUCHED_GIB = 4
"""More than a load writes."""


class Ottla(BrokerProcess):
    kind = "ottla"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "ottla", "serve", str(self.properties)]


class WarmKafka(RealKafka):
    """Kafka as its own scripts start it, the compiler included."""

    def _java(self) -> list[str]:
        jvm = "-Xms1G -Xmx1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
        return ["java", *jvm.split(), "-cp", maven.classpath("kafka")]


class GoProgram(BrokerProcess):
    """A program in Go beside this script, in the folder of its kind."""

    def command(self) -> list[str]:
        return [str(go_programs.built(self.kind)), str(self.port)]


class Kfake(GoProgram):
    """franz-go's fake broker, which keeps everything in memory: a lower bound for start and memory."""

    kind = "kfake"

    def stop(self) -> int:
        return self._end(signal.SIGINT)


class Floor(GoProgram):
    """No broker: it receives batches, checks their CRC and writes them. What the kernel takes, a lower bound for large ones."""

    kind = "floor"

    def command(self) -> list[str]:
        return [*super().command(), str(self.directory)]


BROKERS: dict[str, type[BrokerProcess]] = {"ottla": Ottla, "kafka": WarmKafka, "kfake": Kfake, "floor": Floor}
ONLY_AT = {"floor": Place.TMPFS}
"""Kinds that run in one place only."""


def start(broker: BrokerProcess) -> dict[str, float]:
    """Starts a broker whose directory is formatted; returns seconds to its first answer and MiB when it has come to rest."""
    broker.directory.mkdir(parents=True)
    broker.properties.write_text("".join(f"{key}={value}\n" for key, value in broker.settings.items()))
    if isinstance(broker, WarmKafka):
        broker.format()  # Kafka has a tool for it, which is not counted
    elif isinstance(broker, GoProgram):
        go_programs.built(broker.kind)  # which is not counted, either
    # A start finds the bytecode that the one before it has written, unless the shell around this script forbids that.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with open(broker.log_file, "ab") as log:
        begin = time.perf_counter()
        broker.process = subprocess.Popen(
            broker.command(), cwd=broker.directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
        )
    _first_answer(broker)
    ready_s = time.perf_counter() - begin
    time.sleep(IDLE_SECONDS)  # a JVM goes on loading classes
    return {"ready_s": round(ready_s, 3), "idle_rss_mib": round(Process(broker.process.pid).resident_mib(), 1)}


def _first_answer(broker: BrokerProcess) -> None:
    assert broker.process is not None
    while broker.process.poll() is None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            connection = Connection((HOST, broker.port), 4096)
            connection.socket.settimeout(60)
            connection.ask(API_VERSIONS)
            connection.close()
            return
        time.sleep(0.002)  # between two attempts: another process's readiness has no event to wait for
    raise BrokerFailed(f"{broker.kind} ended:\n{broker.log_tail()}")


def run_load(broker: BrokerProcess, load: Load, tag: str, *extra: str) -> dict[str, Any] | None:
    """Returns kload's figures; None, with a line on stderr, if the broker cannot do this load."""
    assert broker.process is not None
    command = [*KLOAD, "--bootstrap", broker.bootstrap, "--pid", str(broker.process.pid)]
    command += ["--topic", f"{load.name}-{tag}", *load.arguments.split(), *extra]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        print(f"{broker.kind}, {load.name}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    figures: dict[str, Any] = json.loads(done.stdout)
    shown = {name: figures[name] for name in (row.figure for row in ROWS if row.load == load.name) if name in figures}
    print(f"{tag:>8}  {load.name:13} {broker.kind:6} {shown}", flush=True)
    return figures


def kload(bootstrap: str, pid: int, *words: str) -> dict[str, Any]:
    """Runs the load generator against a broker with this process id; returns its figures. Raises CalledProcessError."""
    command = [*KLOAD, "--bootstrap", bootstrap, "--pid", str(pid), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def settle(brokers: Sequence[BrokerProcess]) -> None:
    """Returns when the brokers are at rest: freeing the GiB of a deleted topic is no part of the next load."""
    deadline = time.monotonic() + MOST_SETTLING_SECONDS
    before = [math.inf] * len(brokers)
    while time.monotonic() < deadline:
        now = [Process(broker.process.pid).before for broker in brokers if broker.process is not None]
        if all(used - earlier <= 0.01 for used, earlier in zip(now, before, strict=True)):
            return
        before = now
        time.sleep(0.5)


def touch_memory() -> None:
    """Uses as much memory as a load will, and frees it. A virtual machine gets its pages from the host at their first use, which
    costs more than a broker's whole work on them (1.2 s a GiB against 0.4 here), and would be paid by whoever comes first.
    """
    piece = bytes(1 << 20)
    with tempfile.TemporaryFile(dir=TMPFS) as file:
        for _ in range(TOUCHED_GIB << 10):
            file.write(piece)


def compare(kinds: list[str], loads: list[Load], rounds: int) -> Figures:
    found: Figures = {kind: {} for kind in kinds}
    for place in Place:
        here = [load for load in loads if load.place is place]
        if not here:
            continue
        parent = TMPFS if place is Place.TMPFS else None
        with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=parent) as directory:
            _compare_at(place, Path(directory), kinds, here, rounds, found)
    return found


def _compare_at(place: Place, directory: Path, kinds: list[str], loads: list[Load], rounds: int, found: Figures) -> None:
    brokers = [BROKERS[kind](directory / kind, SETTINGS) for kind in kinds if ONLY_AT.get(kind, place) is place]
    try:
        for broker in brokers:
            figures = start(broker)
            if place is Place.DISK:
                _note(found, broker.kind, "start", figures)
                print(f"   start  {broker.kind} {figures}", flush=True)
            for load in loads:
                if load.rounds:
                    run_load(broker, load, "warm-up", "--seconds", str(WARM_UP_SECONDS))
        for number in range(1, rounds + 1):
            for load in loads:
                for broker in brokers if number % 2 else reversed(brokers):
                    if load.rounds or number == rounds:
                        settle(brokers)
                        if place is Place.TMPFS:
                            touch_memory()
                        _note(found, broker.kind, load.name, run_load(broker, load, f"round-{number}") or {})
        for broker in brokers:
            assert broker.process is not None
            if place is Place.DISK:
                _note(found, broker.kind, "end", {"rss_mib": round(Process(broker.process.pid).resident_mib(), 1)})
    finally:
        for broker in brokers:
            broker.stop()


def _note(found: Figures, kind: str, load: str, figures: dict[str, Any]) -> None:
    of_load = found[kind].setdefault(load, {})  # empty where the broker did not do it
    for name, value in figures.items():
        if isinstance(value, int | float):
            of_load.setdefault(name, []).append(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", default="ottla,kafka,kfake,floor")
    parser.add_argument("--loads", default=",".join(load.name for load in LOADS))
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.*")
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    chosen = arguments.loads.split(",")
    found = compare(arguments.brokers.split(","), [load for load in LOADS if load.name in chosen], arguments.rounds)
    medians = medians_of(found)
    text, missed = table(medians)
    print(text)
    if arguments.docs and {load.name for load in LOADS} <= set(chosen):
        write_docs(found, arguments.rounds)
    elif arguments.docs:
        for loads in found.values():
            loads.pop("end", None)  # memory after some of the loads is another figure
        add_docs(found)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
