"""Reserves file descriptors for loading modules when all others are in use.

Loading a module opens files, two at a time if it is compiled, and handlers are loaded with the first request of their kind. If
descriptors have run out by then, that request could only be answered by closing its connection, and no new one could come.

What is held are entries of this process's table of descriptors, on /dev/null: no data of any disk, so no Disk is handed in.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_MOST_AT_A_TIME = 2


class ReservedDescriptors:
    """Holds back two descriptors. `run` calls an action that may need two at a time, and frees these if there are no others."""

    __slots__ = ("_fds",)

    def __init__(self) -> None:
        self._fds = _open()

    def run(self, action: Callable[[], T]) -> T:
        """Calls `action`, and calls it again if descriptors had run out; returns what it returns and raises what it raises."""
        try:
            return action()
        except (OSError, ImportError) as error:
            if not self._fds or not _is_exhaustion(error):
                raise
        self.close()
        try:
            return action()
        finally:
            self._fds = _open()

    def close(self) -> None:
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def _is_exhaustion(error: OSError | ImportError) -> bool:
    """Returns whether descriptors had run out. The loader of compiled modules says so only in the text of its error."""
    if isinstance(error, OSError):
        return error.errno in _NO_DESCRIPTORS
    return any(os.strerror(code) in str(error) for code in _NO_DESCRIPTORS)


def _open() -> list[int]:
    """Opens descriptors to hold back; fewer, or none, if others have taken the last ones first."""
    fds: list[int] = []
    with suppress(OSError):
        while len(fds) < _MOST_AT_A_TIME:
            fds.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    return fds
