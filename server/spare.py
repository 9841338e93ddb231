"""A descriptor kept for the moment when there is no other: loading a module opens files, one at a time.

Handlers are loaded with the first request of their kind. Where descriptors have run out by then, that request would be answered
by closing its connection, and no new one could come.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class SpareDescriptor:
    """`run` does something that needs one descriptor at a time, with the spare one if there is no other."""

    __slots__ = ("_fd",)

    def __init__(self) -> None:
        self._fd = _open()

    def run(self, action: Callable[[], T]) -> T:
        """What `action` returns or raises. It may be called twice."""
        try:
            return action()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTORS or self._fd < 0:
                raise
        self.close()
        try:
            return action()
        finally:
            self._fd = _open()

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def _open() -> int:
    """-1 where somebody else was quicker."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
