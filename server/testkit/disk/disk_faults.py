"""The damage that a test does to a disk, read and counted; faulty_disk.py asks for it with each operation.

- `enospc` fails what needs room: appends, small files that are written whole, new files and directories. What is there can be
  read. As on a real disk, the append that meets the end of the room writes what still fits, and the next one fails.
- `eio` fails whatever touches a path, or only those `operations` that are named.
- `fsync_ms` has each fsync take so much longer, in the thread that asks for it. So it stops the event loop where a slow disk
  would, and only there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from http import HTTPStatus
from threading import Lock
from typing import Any, Final

from ottla.log.disk.files import StateUnknown
from ottla.server.base.clock import stop_thread
from ottla.server.testkit.fault_fields import FOR_EVER, MOST_TIMES
from ottla.server.testkit.fields import NO_OTHER, Fields, Refused, nearest

GROW: Final = "grow"
"""The kind of operations that need room on the disk."""
CHANGE: Final = "change"
"""The kind of operations that change the disk and need no room, such as renaming a file or cutting it."""
READ: Final = "read"
SYNC: Final = "sync"
OPERATIONS: Final = {"write": {GROW, CHANGE}, "read": {READ}, "sync": {SYNC}}
"""The kinds of operations that each word in `operations` stands for."""
ERRORS: Final = {"enospc": errno.ENOSPC, "eio": errno.EIO}
MOST_FSYNC_MS: Final = 60_000
MOST_PATH: Final = 1000
"""The longest pattern; each operation of the disk is compared with it."""


class DiskFault:
    """One thing that is wrong with the disk: `sent` is what a test sent."""

    def __init__(self, fault_id: str, sent: object) -> None:
        """Reads what a test sent. Raises Refused."""
        fields = Fields(sent)
        self.id = fault_id
        self.fail: str | None = fields.take_choice("fail", ERRORS, None)
        self.fsync_ms = fields.take_number("fsync_ms", 0, low=1, high=MOST_FSYNC_MS)
        self.path: str | None = fields.take("path", str, None)
        self.times = fields.take_number("times", FOR_EVER, low=1, high=MOST_TIMES)
        self.after_bytes = fields.take_number("after_bytes", 0)
        operations = fields.take("operations", list, None)
        fields.done()
        if self.path is not None and len(self.path) > MOST_PATH:
            raise Refused(f"path must have at most {MOST_PATH} characters")
        if (self.fail is None) == (self.fsync_ms == 0):
            raise Refused("a disk fault has either fail, which is enospc or eio, or fsync_ms")
        if operations is not None and self.fail != "eio":
            raise Refused("operations are for eio: no other fault has a choice of what it fails")
        if self.after_bytes and self.fail is None:
            raise Refused("after_bytes is for fail: fsync_ms holds from the start")
        for each in operations or ():
            if not isinstance(each, str) or each not in OPERATIONS:
                raise Refused(f"operations: there is no {each!r:.50}{nearest(each, OPERATIONS)}")
        self.operations: list[str] = operations or list(OPERATIONS)
        self.fails: set[str] = set()
        """The kinds of operations that fail."""
        if self.fail == "enospc":
            self.fails = {GROW}
        elif self.fail == "eio":
            self.fails = set().union(*(OPERATIONS[each] for each in self.operations))
        self.left_bytes = self.after_bytes
        self.hits = 0
        self._lock = Lock()  # a flush may meet it in another thread

    @property
    def is_active(self) -> bool:
        """Returns whether it may still act."""
        return self.times == FOR_EVER or self.hits < self.times

    def describe(self) -> dict[str, Any]:
        """Returns the fault as JSON has it."""
        common: dict[str, Any] = {"id": self.id, "path": self.path, "times": self.times, "hits": self.hits}
        if self.fail is None:
            return common | {"fsync_ms": self.fsync_ms}
        operations = {"operations": self.operations} if self.fail == "eio" else {}
        return common | {"fail": self.fail, "left_bytes": self.left_bytes} | operations

    def matches(self, path: str) -> bool:
        """Returns whether it is about a path: if its pattern fits the end of it, or, without a slash, any name in it."""
        if self.path is None:
            return True
        if "/" in self.path:
            return fnmatchcase(path, f"*/{self.path.removeprefix('/')}")
        return any(fnmatchcase(name, self.path) for name in path.split("/"))

    def take_room(self, size: int, *, whole: bool) -> int:
        """Takes room for as many of `size` bytes as there is, or for none if the `whole` does not fit; returns for how many."""
        with self._lock:
            taken = 0 if whole and size > self.left_bytes else min(size, self.left_bytes)
            self.left_bytes -= taken
            return taken

    def count(self) -> bool:
        """Counts a hit; returns False if there have been enough."""
        with self._lock:
            active = self.is_active
            self.hits += active
            return active

    def error(self, path: str, operation: str) -> OSError:
        """Returns the error that an operation on a path fails with."""
        code = ERRORS[self.fail or "eio"]
        kind = StateUnknown if operation == SYNC else OSError
        return kind(code, f"{os.strerror(code)} (the disk fault {self.id} of the test kit)", path)


class DiskFaults:
    """Everything that is wrong with the disk at present, in the order in which it was installed."""

    def __init__(self, stop_thread: Callable[[float], None] = stop_thread) -> None:
        """`stop_thread` has the calling thread wait for so many seconds, as for a slow disk."""
        self.all: tuple[DiskFault, ...] = ()
        self._stop_thread = stop_thread
        self._count = 0

    def install(self, sent: object) -> DiskFault:
        """Installs a fault and returns it. Raises Refused."""
        fault = DiskFault(f"d{self._count + 1}", sent)
        self._count += 1
        self.all = (*self.all, fault)
        return fault

    def remove(self, fault_id: str) -> DiskFault:
        """Removes a fault and returns it. Raises Refused if there is none of this id."""
        for fault in self.all:
            if fault.id == fault_id:
                self.all = tuple(each for each in self.all if each is not fault)
                return fault
        known = f"; there are {', '.join(each.id for each in self.all)}" if self.all else NO_OTHER
        raise Refused(f"there is no disk fault {fault_id:.50}{known}", HTTPStatus.NOT_FOUND)

    def clear(self) -> tuple[DiskFault, ...]:
        """Removes all faults and returns them."""
        removed, self.all = self.all, ()
        return removed

    def check(self, operation: str, path: str) -> None:
        """Raises OSError if an operation that writes no bytes is to fail."""
        for fault in self.all:
            if operation in fault.fails and not fault.left_bytes and fault.matches(path) and fault.count():
                raise fault.error(path, operation)

    def room(self, path: str, size: int, *, whole: bool = False) -> int:
        """Returns how many of `size` bytes may be written to a path now, more than none. Raises OSError if it is to fail, also if
        they are to be written as a `whole` and there is not enough room."""
        for fault in self.all:
            if GROW in fault.fails and fault.is_active and fault.matches(path):
                room = fault.take_room(size, whole=whole)
                if room == size:
                    continue
                if room:
                    return room
                if fault.count():
                    raise fault.error(path, GROW)
        return size

    def sync(self, path: str) -> None:
        """Takes as long as an fsync of a path is to take, besides what it really takes. Raises StateUnknown if it is to fail."""
        for fault in self.all:
            if fault.fsync_ms and fault.matches(path) and fault.count():
                self._stop_thread(fault.fsync_ms / 1000)
        self.check(SYNC, path)
