"""The bench of how long one stranger's requests keep everybody else waiting, and what memory they take: ottla beside Apache
Kafka.

    python -m scripts.bench.stalls [--brokers ottla,kafka] [--attacks substring] [--docs]

Attacks that need the same things to be there meet one broker, one after the other (stall_*.py), and the next one a fresh
broker if an attack was not answered. While it runs, a neighbour asks ApiVersions every two milliseconds (stall_neighbour.py);
its longest wait, the attack's own time and the broker's peak of memory above what it had before make one row. A broker that
closes the stranger's connection, or refuses, has answered, too: the row says what happened.

With --docs the rows go into docs/stalls.json, where they replace older ones of the same name, and docs/stalls.md is written from
that (stall_page.py). Not for CI, where tests/stalls/ counts the work of a turn instead. Takes about twenty minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from compat_tests.brokers import Address
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.wire import SILENT
from compat_tests.wire import Connection as WireConnection
from scripts.bench.compare import BROKERS
from scripts.bench.stall_attacks import Attack, attacks
from scripts.bench.stall_fetches import fetch_attacks
from scripts.bench.stall_groups import group_attacks
from scripts.bench.stall_members import member_attacks
from scripts.bench.stall_neighbour import Neighbour
from scripts.bench.stall_page import Seen, add_rows
from scripts.bench.stall_patterns import pattern_attacks
from scripts.bench.stall_rules import rule_attacks
from scripts.bench.stall_shares import share_attacks
from scripts.bench.stall_states import state_attacks

ATTACKS = (
    attacks,
    rule_attacks,
    pattern_attacks,
    fetch_attacks,
    group_attacks,
    member_attacks,
    share_attacks,
    state_attacks,
)
"""The functions that return attacks, in the order in which these are made."""
ANNOUNCED = 100_000_000
"""The size of a frame that is never finished."""
MOST_S = 60.0
"""An attack that takes longer is ended."""
MIB = 1 << 20


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
                    outcomes[number] = f"not done after {MOST_S:.0f} s" if answer == SILENT else "closed"
                    return
        except OSError:
            outcomes[number] = "closed"

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
def running(kind: str, attack: Attack, directories: Path) -> Iterator[BrokerProcess]:
    """Runs a broker with a new directory among these, which is left there when the broker ends: for half a minute after files
    were removed, ext4 takes up to a hundred times as long to create others."""
    directory = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=directories))
    broker = BROKERS[kind](directory / kind, attack.settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


class Bench:
    """Measures the attacks on brokers of one kind, each with its own among these directories."""

    def __init__(self, kind: str, directories: Path) -> None:
        self._kind = kind
        self._directories = directories
        self._held: str | None = None
        """The name of what the running broker holds; None if none runs."""
        self._stack = contextlib.ExitStack()

    def measure(self, attack: Attack) -> Seen:
        """Returns what the attack does to a broker that holds what it needs."""
        if self._held is None or attack.holds != self._held:
            self.end()
            self._broker = self._stack.enter_context(running(self._kind, attack, self._directories))
            assert self._broker.process is not None
            self._address = Address(self._kind, self._broker.port, self._broker.process.pid, str(self._broker.log_file))
            if attack.prepare is not None:
                preparing = WireConnection(self._address)
                attack.prepare(preparing)
                preparing.close()
            self._held = attack.holds
        seen = self._attack(attack)
        if attack.uses_up or seen.outcome:
            self.end()
        return seen

    def _attack(self, attack: Attack) -> Seen:
        process = self._broker.process
        assert process is not None
        beside = Neighbour(self._kind, process.pid, self._broker.port)
        try:
            time.sleep(1)  # the neighbour's own start, and the broker's rest from what came before
            before = forget_peak(process.pid)
            beside.longest_waits_s()
            began = time.perf_counter()
            outcome = attack_once(attack, self._address)
            took = time.perf_counter() - began
            if process.poll() is not None:
                return Seen(MOST_S * 1000, MOST_S * 1000, took, 0, "the broker died")
            counted, waited = beside.longest_waits_s()
            return Seen(counted * 1000, waited * 1000, took, peak_mib(process.pid) - before, outcome)
        finally:
            beside.end()

    def end(self) -> None:
        self._stack.close()
        self._held = None


def _measure_all(kind: str, directories: Path, wanted: str, *, add: bool) -> None:
    """Measures the attacks whose names contain `wanted`, and adds their rows to the docs if asked to."""
    bench = Bench(kind, directories)
    for attack in (attack for some in ATTACKS for attack in some()):
        if wanted not in attack.name:
            continue
        try:
            seen = bench.measure(attack)
        except AssertionError as error:  # it cannot hold what the attack needs
            print(f"{kind}: {attack.name}: {str(error)[:200]}", flush=True)
            bench.end()
            continue
        print(f"{kind}: {attack.name}: {seen.cell()}", flush=True)
        if add:
            add_rows(kind, {attack.name: seen})
    bench.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default="ottla,kafka")
    parser.add_argument("--attacks", default="", help="only attacks whose name contains this")
    parser.add_argument("--docs", action="store_true", help="write docs/stalls.json and docs/stalls.md")
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with tempfile.TemporaryDirectory(prefix="ottla-stalls-") as directories:
        for kind in arguments.brokers.split(","):
            _measure_all(kind, Path(directories), arguments.attacks, add=arguments.docs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
