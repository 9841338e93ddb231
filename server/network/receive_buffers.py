"""Holds the buffers that receive what clients send, for all connections of a broker."""

from __future__ import annotations

from contextlib import suppress
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap  # here: when a frame needs it, there may be no descriptor left to load it
from typing import Final

RECEIVE_BYTES: Final = 256 * 1024
FIRST_BUFFER: Final = 4 * 1024
GROWTH: Final = 4
KEPT_BYTES: Final = 1024 * 1024 + 128 * 1024
"""Frames up to this size go into kept buffers; batches of Kafka's default max.message.bytes fit."""
KEPT_BUFFERS: Final = 4
LARGE_BUFFER: Final = 8 * 1024 * 1024
"""Buffers of so many bytes are not filled with zeros, which takes 30 ms for 100 MB, nor copied when they grow: the kernel keeps
addresses for the whole frame, and gives memory to each page when bytes come. So where addresses are scarce (RLIMIT_AS,
vm.overcommit_memory=2), some may be missing although there is memory; then buffers are filled and copied as smaller ones are."""
OwnBuffer = bytearray | memoryview
"""The buffer of one frame: a memoryview if it is large."""


class ReceiveBuffers:
    """Holds the buffers of one event loop. `view` is the one that every read fills.

    A frame of up to `small_frame` bytes that is not whole yet waits as a copy, which is put in front of the next read; there is
    still room for a large read behind it. Large frames take one of the kept buffers, as long as there is one.
    """

    __slots__ = ("_kept", "_whole", "small_frame", "view")

    def __init__(self, size: int = RECEIVE_BYTES) -> None:
        self.view = self._whole = memoryview(bytearray(size))
        self.small_frame = size // 4
        self._kept: list[bytearray] = []

    def shorten(self) -> None:
        """Lets a read take no more than a small frame, because what has been read has to be kept while memory is scarce."""
        self.view = self._whole[: self.small_frame]

    def lengthen(self) -> None:
        """Ends what `shorten` began."""
        self.view = self._whole

    def size_of_next(self, size: int, received: int) -> int:
        """Returns how large the buffer is that `take` or `grow` makes."""
        grown = max(FIRST_BUFFER, GROWTH * received)
        return KEPT_BYTES if KEPT_BYTES // 2 < size <= min(grown, KEPT_BYTES) else min(size, grown)

    def take(self, size: int, received: int) -> OwnBuffer:
        """Returns a buffer for a frame of `size` bytes, of which `received` have come: it need not hold the whole frame yet.
        Raises MemoryError."""
        if size <= KEPT_BYTES and self._kept:
            return self._kept.pop()
        length = self.size_of_next(size, received)
        if length >= LARGE_BUFFER:
            with suppress(OSError):  # no addresses for the whole frame, but maybe memory for what has come of it
                return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))[:length]
        return bytearray(length)

    def grow(self, buffer: OwnBuffer, size: int, received: int) -> OwnBuffer:
        """Returns a larger buffer, as `take` does, for a frame that has filled this one. It begins with what is in that.
        Raises MemoryError."""
        if isinstance(buffer, memoryview):
            return memoryview(buffer.obj)[: self.size_of_next(size, received)]
        larger = self.take(size, received)
        larger[: len(buffer)] = buffer
        return larger

    def give_back(self, buffer: OwnBuffer) -> None:
        """Takes back a buffer whose frame has been served, and keeps it for another frame if it has the right size."""
        if isinstance(buffer, bytearray) and len(buffer) == KEPT_BYTES and len(self._kept) < KEPT_BUFFERS:
            self._kept.append(buffer)
