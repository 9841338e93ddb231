"""What all connections of a broker share: the buffers that they are filled from, and the counts that its limits are about."""

from __future__ import annotations

from typing import Final

RECEIVE_BYTES: Final = 256 * 1024
FIRST_BUFFER: Final = 4 * 1024
GROWTH: Final = 4
KEPT_BYTES: Final = 1024 * 1024 + 128 * 1024
"""Frames up to this size are filled into kept buffers: batches of Kafka's default max.message.bytes fit."""
KEPT_BUFFERS: Final = 4


class Shared:
    """Of one event loop. `view` is the receive buffer.

    A frame up to `small_frame` bytes that is not whole yet waits as a copy, and is put in front of the next read, which then
    still brings as much as it can. Large frames take one of the buffers that are kept, as long as there is one.
    """

    __slots__ = ("_kept", "connections", "from_host", "queued_bytes", "queued_requests", "small_frame", "view")

    def __init__(self, size: int = RECEIVE_BYTES) -> None:
        self.view = memoryview(bytearray(size))
        self.small_frame = size // 4
        self._kept: list[bytearray] = []
        self.connections = 0
        """Open ones, of all listeners: `max.connections`."""
        self.from_host: dict[str, int] = {}
        """The same by the client's address: `max.connections.per.ip`."""
        self.queued_requests = 0
        """Whole requests that wait, in a copy, for the answer before theirs: `queued.max.requests`."""
        self.queued_bytes = 0
        """Of these: `queued.max.request.bytes`."""

    def take(self, size: int, received: int) -> bytearray:
        """A buffer for a frame of `size` bytes of which `received` are here: it need not hold all of them yet."""
        grown = max(FIRST_BUFFER, GROWTH * received)
        if size <= KEPT_BYTES and self._kept:
            return self._kept.pop()
        return bytearray(KEPT_BYTES if KEPT_BYTES // 2 < size <= min(grown, KEPT_BYTES) else min(size, grown))

    def give_back(self, buffer: bytearray) -> None:
        """The frame in it was served."""
        if len(buffer) == KEPT_BYTES and len(self._kept) < KEPT_BUFFERS:
            self._kept.append(buffer)

    def connected(self, host: str) -> None:
        self.connections += 1
        self.from_host[host] = self.from_host.get(host, 0) + 1

    def disconnected(self, host: str) -> None:
        self.connections -= 1
        left = self.from_host[host] - 1
        if left:
            self.from_host[host] = left
        else:
            del self.from_host[host]
