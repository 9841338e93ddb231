"""Samples of what a running broker takes, read from /proc and from its data directory, and how long it lets a client wait."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
_TICKS: Final = os.sysconf("SC_CLK_TCK")
PROC: Final = Path("/proc")
STRAY: Final = "-stray"
"""The ending of the name of a partition's directory that was set aside."""


def processes(pid: int, proc: Path = PROC) -> list[int]:
    """Returns the process and its descendants. Raises FileNotFoundError or ProcessLookupError if it is gone."""
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        for task in (proc / str(found[-1]) / "task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended by now
                todo += map(int, (task / "children").read_text().split())
    return found


def kib(text: str, name: str) -> int:
    """Returns what the line of this name says in a file of /proc, such as `VmRSS:  123 kB`; 0 if there is none."""
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:")), 0)


def usage(pid: int, proc: Path = PROC) -> dict[str, float]:
    """Returns what the broker's process takes, and its children (a cleaner) together.

    `rss_mib` and `pss_mib` of the process itself, `child_pss_mib` of its children; `descriptors` of it, of which `deleted` are
    files without a name; `threads`; `cpu_s` since it began, with its children. Raises FileNotFoundError or ProcessLookupError if
    the process is gone.
    """
    own = proc / str(pid)
    links = list(_links(own / "fd"))
    out = {
        "rss_mib": kib((own / "status").read_text(), "VmRSS") / 1024,
        "pss_mib": kib((own / "smaps_rollup").read_text(), "Pss") / 1024,
        "descriptors": float(len(links)),
        "deleted": float(sum(link.endswith(" (deleted)") for link in links)),
        "threads": float(kib((own / "status").read_text(), "Threads")),
        "child_pss_mib": 0.0,
        "cpu_s": cpu_seconds((own / "stat").read_text()),
    }
    for child in processes(pid, proc)[1:]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a child that has ended by now: its CPU is in ours then
            out["child_pss_mib"] += kib((proc / str(child) / "smaps_rollup").read_text(), "Pss") / 1024
            out["cpu_s"] += cpu_seconds((proc / str(child) / "stat").read_text())
    return out


def _links(directory: Path) -> Iterator[str]:
    for entry in os.listdir(directory):
        with contextlib.suppress(FileNotFoundError):  # closed by now
            yield os.readlink(directory / entry)


def cpu_seconds(stat: str) -> float:
    """Returns the CPU time in a /proc/PID/stat, user and system, with that of the children that were waited for."""
    fields = stat.rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / _TICKS


def tree(directory: Path) -> tuple[float, int]:
    """Returns (MiB that the files of a data directory take on disk, how many files there are), without partitions that were set
    aside: each kill amid a deletion leaves one for good, as with Apache Kafka, so they say nothing of what a broker piles up."""
    total = count = 0
    for where, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if not name.endswith(STRAY)]
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # deleted by now
                total += os.stat(os.path.join(where, name)).st_blocks * 512
                count += 1
    return total / MIB, count


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the value below which this share of them lies. Raises IndexError if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Ruler:
    """A process that echoes bytes. A round trip to it takes as long as the machine makes two processes wait for each other, and
    has nothing to do with the broker: where its times grow, the machine had other work.
    """

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            while data := theirs.recv(4096):
                theirs.sendall(data)
            os._exit(0)
        theirs.close()

    def measure(self) -> float:
        """Returns the seconds of one round trip."""
        began = time.perf_counter()
        self._ours.sendall(b"x" * 100)
        self._ours.recv(4096)
        return time.perf_counter() - began

    def close(self) -> None:
        self._ours.close()
        os.waitpid(self.pid, 0)
