"""The neighbour of the attacks: a client of the TLS listener that asks ApiVersions every two milliseconds, in its own process.

Each line on its standard input is answered by its waits since the last one, as JSON, in seconds. As in stall_neighbour.py, what
the broker's thread and the neighbour's own waited for a processor is taken off: on a machine with two of them, the attackers take
their share whatever the broker does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from compat_tests.reference.kafka import HOST
from scripts.bench.compare import ROOT
from scripts.bench.kload_wire import API_VERSIONS, Connection, TlsAddress, tls_context
from scripts.bench.stall_neighbour import Threads

PAUSE_S: Final = 0.002


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", type=int)
    parser.add_argument("port", type=int)
    arguments = parser.parse_args()
    threads = Threads("ottla", arguments.pid)
    connection = Connection(TlsAddress(HOST, arguments.port, tls_context("1.3")), 4096)
    waits: list[float] = []

    def ask() -> None:
        own = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        while True:
            before = sum(threads.waited_ns()) + int(own.read_text().split()[1])
            began = time.perf_counter()
            connection.ask(API_VERSIONS)
            took = time.perf_counter() - began
            without = sum(threads.waited_ns()) + int(own.read_text().split()[1]) - before
            waits.append(max(0.0, took - without / 1e9))
            time.sleep(PAUSE_S)  # a client's own pace

    threading.Thread(target=ask, daemon=True).start()
    for _ in sys.stdin:
        count = len(waits)
        print(json.dumps(waits[:count]), flush=True)
        del waits[:count]


class Neighbour:
    """Runs `main` in a process of its own."""

    def __init__(self, pid: int, port: int) -> None:
        command = [sys.executable, "-m", "scripts.bench.security_costs.neighbour", str(pid), str(port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def waits_s(self) -> list[float]:
        """Returns the waits since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: list[float] = json.loads(self._process.stdout.readline())
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    main()
