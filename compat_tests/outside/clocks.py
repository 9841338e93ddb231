"""A wall clock for each node of a cluster, which can be set to the wrong time while the node runs.

`clock.c` is loaded into a node before the C library, and tells it a wrong time of day; its monotonic clock goes on, as on a
machine whose clock is set. Brokers of ottla and JVMs both ask the C library. libfaketime of Debian 12 (0.9.10) does the same for
a JVM, but with it `time.sleep` of Python 3.11 fails with EINVAL as soon as the monotonic clock is left alone; and a namespace of
time (`unshare --time`) moves the monotonic clock only.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("clock.c")
_NS: Final = 1_000_000_000


class Clocks:
    """A clock for each of these nodes, by their ids, which are right at first. `directory` is for the library and the offsets."""

    def __init__(self, directory: Path, nodes: Iterable[int]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._library = directory / "clock.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(self._library), str(_SOURCE)], check=True)
        self._offsets = {node: directory / f"clock-{node}" for node in nodes}
        for path in self._offsets.values():
            path.write_bytes(bytes(8))

    def words(self, node: int) -> tuple[str, ...]:
        """Returns what to put before a command for it to go by a node's clock, as the same process."""
        return "env", f"LD_PRELOAD={self._library}", f"OUTSIDE_CLOCK={self._offsets[node]}"

    @contextmanager
    def moved(self, node: int, seconds: float) -> Iterator[None]:
        """While it is entered, the node's clock is ahead by so many seconds, or behind if they are negative."""
        self._set(node, seconds)
        try:
            yield
        finally:
            self._set(node, 0)

    def _set(self, node: int, seconds: float) -> None:
        with self._offsets[node].open("r+b") as file:  # in place: the node has these bytes in its memory
            file.write(struct.pack("=q", round(seconds * _NS)))
