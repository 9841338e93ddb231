"""The core of this machine that each broker of a cluster runs on, for `ottla cluster --cores`.

A broker does its work in one thread, so that several brokers are how one machine uses several cores. Left alone, the kernel moves
them about, and two of them may share a core for a while; pinned, each keeps a core, and what it has in that core's caches.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ottla.commands.cluster.errors import ClusterError

TOPOLOGY: Final = Path("/sys/devices/system/cpu")
"""The directory in which Linux says which of its CPUs are threads of one core."""


def usable() -> list[int]:
    """Returns the CPUs that this process may use, in the order of `cores_first`. Raises ClusterError where a process cannot be
    bound to a CPU: the calls are Linux's (sched_setaffinity(2))."""
    if not hasattr(os, "sched_getaffinity"):
        raise ClusterError("--cores: this system cannot bind a process to a core; leave the option out")
    return cores_first(os.sched_getaffinity(0))


def cores_first(cpus: Iterable[int], topology: Path = TOPOLOGY) -> list[int]:
    """Returns CPUs with one thread of each core before the second of any: two threads of one core do not do the work of two
    cores. Where the system does not say, each CPU counts as a core."""
    seen: dict[str, int] = {}
    ranked: list[tuple[int, int]] = []
    for cpu in sorted(cpus):
        core = _siblings(cpu, topology)
        ranked.append((seen.get(core, 0), cpu))
        seen[core] = seen.get(core, 0) + 1
    return [cpu for _, cpu in sorted(ranked)]


def _siblings(cpu: int, topology: Path) -> str:
    """Returns the CPUs of one core as the kernel writes them, such as `0,8`: the same text for each of them."""
    try:
        return (topology / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def shared_out(cores: Sequence[int], brokers: int) -> list[int]:
    """Returns the core of each broker: one each, and again from the first one where there are more brokers than cores."""
    return [cores[at % len(cores)] for at in range(brokers)]
