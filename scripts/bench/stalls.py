"""How long one stranger's requests keep everybody else waiting, and what memory they take: ottla beside Apache Kafka.

    python -m scripts.bench.stalls [--brokers ottla,kafka] [--attacks substring] [--docs]

Each attack (stall_attacks.py) meets a fresh broker. While it runs, a neighbour in a process of its own asks ApiVersions every two
milliseconds; its longest wait, the attack's own time and the broker's peak of memory above what it had before make one row. A
broker that closes the stranger's connection, or refuses, has answered, too: the row says what happened.

With --docs the table is written to docs/stalls.md. Not for CI: a machine with other work on it makes neighbours wait as well;
there, tests count the work of a turn instead. Takes about ten minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compat_tests.brokers import Address
from compat_tests.reference.kafka import HOST, BrokerProcess
from compat_tests.wire import SILENT
from compat_tests.wire import Connection as WireConnection
from scripts.bench.compare import BROKERS
from scripts.bench.kload_wire import API_VERSIONS, Connection
from scripts.bench.stall_attacks import Attack, attacks

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "stalls.md"
PAUSE_S = 0.002
ANNOUNCED = 100_000_000
"""The size of a frame that is never finished."""
MOST_S = 120.0
"""An attack that takes longer is ended."""
MIB = 1 << 20


@dataclass(frozen=True)
class Seen:
    """What one attack did to one broker."""

    longest_wait_ms: float
    took_s: float
    peak_mib: float
    outcome: str

    def cell(self) -> str:
        return f"{self.longest_wait_ms:,.0f} ms, {self.peak_mib:,.0f} MiB, {self.took_s:.1f} s{self.outcome}"


def neighbour(port: int) -> None:
    """Asks ApiVersions until its stdin ends; prints the longest wait, in seconds, for each line that comes there."""
    connection = Connection((HOST, port), 4096)
    longest, lock = [0.0], threading.Lock()

    def ask() -> None:
        while True:
            began = time.perf_counter()
            connection.ask(API_VERSIONS)
            with lock:
                longest[0] = max(longest[0], time.perf_counter() - began)
            time.sleep(PAUSE_S)  # a client's own pace

    threading.Thread(target=ask, daemon=True).start()
    for _ in sys.stdin:
        with lock:
            print(longest[0], flush=True)
            longest[0] = 0.0


class Neighbour:
    """Runs `neighbour` in a process of its own."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-m", "scripts.bench.stalls", "--neighbour", str(port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def longest_wait_s(self) -> float:
        """Returns the longest wait since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def peak_mib(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def forget_peak(pid: int) -> float:
    """Sets the peak to what the process has now, which is returned in MiB."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak_mib(pid)


def attack_once(attack: Attack, address: Address) -> str:
    """Lets the stranger do it; returns what came of it, "" if all was answered."""
    opened = [WireConnection(address) for _ in range(attack.connections)]
    outcomes = [""] * len(opened)

    def stranger(number: int) -> None:
        connection = opened[number]
        connection.socket.settimeout(MOST_S)
        frames = list(attack.frames(connection))
        try:
            if attack.left_open:
                for frame in frames:
                    connection.socket.sendall(struct.pack(">i", ANNOUNCED) + frame)
                return
            sending = threading.Thread(target=_send_all, args=(connection.socket, frames), daemon=True)
            sending.start()
            for _ in frames:
                answer = connection.receive(MOST_S)
                if isinstance(answer, str):
                    outcomes[number] = f", not done after {MOST_S:.0f} s" if answer == SILENT else ", closed"
                    return
        except OSError:
            outcomes[number] = ", closed"

    strangers = [threading.Thread(target=stranger, args=(number,)) for number in range(len(opened))]
    for each in strangers:
        each.start()
    for each in strangers:
        each.join()
    if attack.left_open:
        time.sleep(1)  # what is sent takes a moment to be read: nothing says when
    for connection in opened:
        connection.close()
    return max(outcomes)


def _send_all(to: socket.socket, frames: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        for frame in frames:
            to.sendall(struct.pack(">i", len(frame)) + frame)


@contextlib.contextmanager
def running(kind: str, attack: Attack) -> Iterator[BrokerProcess]:
    with tempfile.TemporaryDirectory(prefix="ottla-stalls-") as directory:
        broker = BROKERS[kind](Path(directory) / kind, attack.settings)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()


def measure(kind: str, attack: Attack) -> Seen:
    with running(kind, attack) as broker:
        assert broker.process is not None
        pid = broker.process.pid
        address = Address(kind, broker.port, pid, str(broker.log_file))
        preparing = WireConnection(address)
        attack.prepare(preparing)
        preparing.close()
        beside = Neighbour(broker.port)
        try:
            time.sleep(1)  # the neighbour's own start, and the broker's rest from what came before
            before = forget_peak(pid)
            beside.longest_wait_s()
            began = time.perf_counter()
            outcome = attack_once(attack, address)
            took = time.perf_counter() - began
            if broker.process.poll() is not None:
                return Seen(MOST_S * 1000, took, 0, ", the broker died")
            return Seen(beside.longest_wait_s() * 1000, took, peak_mib(pid) - before, outcome)
        finally:
            beside.end()


def table(kinds: list[str], rows: dict[str, list[Seen]]) -> str:
    lines = [f"| what a stranger sends | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(seen.cell() for seen in row)} |" for name, row in rows.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default="ottla,kafka")
    parser.add_argument("--attacks", default="", help="only attacks whose name contains this")
    parser.add_argument("--docs", action="store_true", help="write docs/stalls.md")
    parser.add_argument("--neighbour", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.neighbour is not None:
        neighbour(arguments.neighbour)
        return 0
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    kinds = arguments.brokers.split(",")
    rows: dict[str, list[Seen]] = {}
    for attack in attacks():
        if arguments.attacks in attack.name:
            rows[attack.name] = [measure(kind, attack) for kind in kinds]
            print(f"{attack.name}: {' | '.join(seen.cell() for seen in rows[attack.name])}", flush=True)
    if arguments.docs:
        head = DOCS.read_text().split("| what a stranger sends")[0] if DOCS.exists() else "# Stalls\n\n"
        DOCS.write_text(head + table(kinds, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
