"""The calls about the disk as Python methods, for `ottla.testing.Broker`: the same as over HTTP (control.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from ottla.server.testkit.python.calling import Calls


class DiskFault:
    """Something that is wrong with a broker's disk. As a context manager, it is removed at the end."""

    def __init__(self, call: Calls, installed: Mapping[str, Any]) -> None:
        self._call = call
        self.id = str(installed["id"])
        """Its id, as in paths of HTTP."""

    @property
    def state(self) -> dict[str, Any]:
        """All that is known of it now, `hits` among it. Raises ValueError if it is removed."""
        found = [each for each in self._call("disk") if each["id"] == self.id]
        if not found:
            raise ValueError(f"the disk fault {self.id} is removed")
        return dict(found[0])

    @property
    def hits(self) -> int:
        """Returns how many operations it has failed, or made slow."""
        return int(self.state["hits"])

    def remove(self) -> None:
        """Removes it."""
        self._call("disk.remove", id=self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with contextlib.suppress(ValueError):  # it is gone already: removed by hand, or by a reset
            self.remove()


class Disk:
    """The disk of a broker, which fails or is slow when it is told to."""

    def __init__(self, call: Calls) -> None:
        self._call = call

    def fail(
        self,
        error: str,
        *,
        path: str | None = None,
        after_bytes: int = 0,
        operations: Sequence[str] | None = None,
        times: int | None = None,
    ) -> DiskFault:
        """Has it fail with "enospc" or "eio", for paths that fit a pattern such as "orders-*", after so many bytes, so many times
        or until it is removed. `operations` of eio are some of "write", "read" and "sync"."""
        named = None if operations is None else list(operations)
        fields = {"fail": error, "path": path, "after_bytes": after_bytes, "operations": named, "times": times}
        return DiskFault(self._call, self._call("disk.break", fields))

    def slow(self, *, fsync_ms: int, path: str | None = None, times: int | None = None) -> DiskFault:
        """Has each fsync take so much longer."""
        return DiskFault(self._call, self._call("disk.break", {"fsync_ms": fsync_ms, "path": path, "times": times}))

    def clear(self) -> None:
        """Makes it whole again. A log directory that is offline stays so until the broker is restarted, as always."""
        self._call("disk.clear")
