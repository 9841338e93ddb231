"""The neighbour of the stall bench: a client in a process of its own that asks ApiVersions every two milliseconds.

On a machine with other work on it, everybody waits for a processor, and a stall of the broker looks the same. So the neighbour
also asks the kernel how long threads were ready to run without running (`/proc/<pid>/task/<tid>/schedstat`): its own, and those
that an answer passes through, which is ottla's event loop, or one of Kafka's network threads and one of its request handlers. A
wait is counted without that. Where several threads could have served it, the one that waited longest counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from compat_tests.reference.kafka import HOST
from scripts.bench.kload_wire import API_VERSIONS, Connection

ROOT: Final = Path(__file__).resolve().parents[2]
PAUSE_S: Final = 0.002
WORTH_A_LOOK_S: Final = 0.003
"""Shorter waits are taken as they are."""
STAGES: Final = {"ottla": (), "kafka": ("data-plane-kafka-network-thread", "data-plane-kafka-request-handler")}
"""The beginnings of the names of the threads that an answer passes through, one of each; ottla's is the process's first thread.
The kernel keeps 15 characters of a name, which are not enough to tell these two apart."""


class Threads:
    """The threads of a broker that answer, and how long they have waited for a processor."""

    def __init__(self, kind: str, pid: int) -> None:
        tasks = Path(f"/proc/{pid}/task")
        if kind != "kafka":
            self._files = [tasks / str(pid) / "schedstat"]
            return
        names = {task: (task / "comm").read_text().strip() for task in tasks.iterdir()}
        self._files = [task / "schedstat" for task, name in names.items() if name.startswith("data-plane-kafk")]

    def waited_ns(self) -> list[int]:
        return [int(file.read_text().split()[1]) for file in self._files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind")
    parser.add_argument("pid", type=int)
    parser.add_argument("port", type=int)
    arguments = parser.parse_args()
    threads = Threads(arguments.kind, arguments.pid)
    connection = Connection((HOST, arguments.port), 4096)
    longest, lock = [0.0, 0.0], threading.Lock()

    def ask() -> None:
        own = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        while True:
            before = threads.waited_ns()
            own_before = int(own.read_text().split()[1])
            began = time.perf_counter()
            connection.ask(API_VERSIONS)
            took = counted = time.perf_counter() - began
            if took > WORTH_A_LOOK_S:
                without = int(own.read_text().split()[1]) - own_before
                delays = sorted((now - then for now, then in zip(threads.waited_ns(), before, strict=True)), reverse=True)
                stages = max(1, len(STAGES[arguments.kind]))
                counted = max(0.0, took - (without + sum(delays[:stages])) / 1e9)
            with lock:
                longest[0] = max(longest[0], counted)
                longest[1] = max(longest[1], took)
            time.sleep(PAUSE_S)  # a client's own pace

    threading.Thread(target=ask, daemon=True).start()
    for _ in sys.stdin:
        with lock:
            print(*longest, flush=True)
            longest[:] = [0.0, 0.0]


class Neighbour:
    """Runs `main` in a process of its own, beside the broker of this kind."""

    def __init__(self, kind: str, pid: int, port: int) -> None:
        command = [sys.executable, "-m", "scripts.bench.stall_neighbour", kind, str(pid), str(port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def longest_waits_s(self) -> tuple[float, float]:
        """Returns the longest wait since the last call: without what was waited for a processor, and as it was."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        counted, took = self._process.stdout.readline().split()
        return float(counted), float(took)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    main()
