"""The memory that one connection holds for its client, and its part in the account of all connections
(server/network/client_memory.py).

That is the beginning of a frame, in `_partial` if it is small or in a buffer of its own if it is large; the backlog of whole
frames that wait for the answer to an earlier one; a large request that is being answered in turns or in a thread, or what one
that waits keeps, if that is more; and the answers that the transport could not send. Every change of them goes through this
class, which adds it to `ClientMemory.held`.

A Produce that is being validated or appended counts as well, however small it is, and so does a large request that a task carries
out. Both go on if the client closes its connection, so they count until they are done: otherwise a client could send one after
the other and close each connection at once, and nothing would bound what waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.server.base.promise import Promise
    from ottla.server.network.context import NetworkContext
    from ottla.server.network.receive_buffers import OwnBuffer

_SIZE: Final = Struct(">i")
PRODUCE_KEY: Final = 0
PRODUCE: Final = b"\0\0"
"""The API key of Produce, with which its frames begin."""


class Holding(asyncio.BufferedProtocol):
    """The base class of a connection, which reads, serves and sends."""

    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_buffers",
        "_counts",
        "_ended",
        "_filled",
        "_frame",
        "_is_appending",
        "_memory",
        "_partial",
        "_size",
        "_unanswered",
        "_unsent",
        "_waits_for_room",
    )

    def __init__(self, context: NetworkContext) -> None:
        self._memory, self._buffers, self._counts = context.memory, context.buffers, context.counts
        self._partial = b""  # the beginning of a small frame, or of its size
        self._frame: OwnBuffer | None = None  # a large frame of `_size` bytes, of which `_filled` have come
        self._filled = 0
        self._size = 0
        self._backlog: deque[bytes] = deque()  # whole frames that wait for the answer to an earlier one
        self._backlog_bytes = 0
        self._unanswered = 0  # the size of the request whose answer comes later, if it is large
        self._is_appending = False  # the request that waits is a Produce that is not appended yet
        self._unsent = 0  # bytes of answers that the transport had when it was full
        self._waits_for_room = False  # reading has stopped because clients hold too much memory
        self._ended = False  # the client sends no more, but the backlog is still to be served

    # What a connection does

    def stop_reading(self) -> None:
        raise NotImplementedError

    def _read_again(self) -> None:
        raise NotImplementedError

    # The client's end

    def eof_received(self) -> bool:
        """Returns whether the connection stays until its backlog is served, as Kafka lets it: a producer that wants no
        acknowledgements may close right behind its last Produce."""
        self._ended = any(frame[:2] == PRODUCE for frame in self._backlog)
        if self._ended:
            self.stop_reading()
        return self._ended

    # Unfinished frames

    def _keep(self, beginning: memoryview) -> None:
        """Keeps the beginning of a small frame."""
        self._partial = bytes(beginning)
        memory = self._memory
        memory.held += len(beginning)
        if memory.held > memory.limit:
            self._wait_for_room()

    def _take_partial(self) -> None:
        """Lets go of the beginning of a small frame, which the last read has continued."""
        self._memory.held -= len(self._partial)
        self._partial = b""

    def _begin(self, received: memoryview, size: int) -> None:
        """Gives a large frame a buffer of its own, as soon as there is room for it. Raises MemoryError."""
        self._filled = len(received)
        self._size = size
        memory = self._memory
        admitted = memory.admits(size, self._filled, 0)
        frame = self._frame = self._buffers.take(size, self._filled) if admitted else bytearray(self._filled)
        frame[: self._filled] = received
        memory.held += len(frame)
        if not admitted:
            self._wait_for_room()

    def _fill(self, count: int) -> OwnBuffer | None:
        """Notes that `count` bytes of the large frame have come. Returns its buffer if it is whole; who has served the frame
        gives it back. Raises MemoryError.
        """
        frame = self._frame
        assert frame is not None
        self._filled += count
        if self._filled == self._size:
            self._frame = None
            self._memory.held -= len(frame)
            return frame
        if self._filled == len(frame):
            if self._memory.admits(self._size, self._filled, self._filled):
                self._grow(frame, self._filled)
            else:
                self._wait_for_room()
        return None

    def _grow(self, frame: OwnBuffer, expected: int) -> None:
        """Gives an unfinished frame a larger buffer, as if `expected` bytes had come. Raises MemoryError."""
        larger = self._frame = self._buffers.grow(frame, self._size, expected)
        self._memory.held += len(larger) - len(frame)

    @property
    def unfinished(self) -> tuple[int, int, int]:
        """Returns the size of the unfinished frame, how much of it has come, and the bytes it takes here."""
        if self._frame is not None:
            return self._size, self._filled, len(self._frame)
        partial = len(self._partial)
        size: int = _SIZE.unpack_from(self._partial)[0] if partial >= _SIZE.size else partial
        return size, partial, partial

    def _wait_for_room(self) -> None:
        """Stops reading until there is room for the frame that is not whole."""
        self._waits_for_room = True
        self.stop_reading()
        self._memory.wait_for_room(self)

    def go_on(self, *, whole: bool) -> None:
        """Reads on, because there is room for the frame's next buffer, or for the whole frame. Raises MemoryError."""
        self._waits_for_room = False
        if self._frame is not None:
            self._grow(self._frame, self._size if whole else self._filled)
        self._read_again()

    # Backlog, waiting requests, unsent answers

    def _count_backlog(self, requests: int, size: int) -> None:
        """Counts frames that came to the backlog, or left it."""
        counts = self._counts
        counts.queued_requests += requests
        counts.queued_bytes += size
        self._backlog_bytes += size
        self._memory.held += size

    def hold(self, size: int, expire_early: Callable[[], object] | None = None) -> None:
        """Counts so many bytes for the request that waits, or is about to, if its frame does not count for more. `expire_early`
        has it answered soon; it is called if there is no room."""
        self._count_unanswered(max(size, self._unanswered))
        if expire_early is not None and self._unanswered:
            self._memory.delay(self, self._unanswered, expire_early)

    def _count_unanswered(self, size: int) -> None:
        """Notes that the answer to a large request of `size` bytes comes later, or, with 0, that it has come."""
        memory = self._memory
        memory.held += size - self._unanswered
        self._unanswered = size
        if not size:
            memory.end_delay(self)
        if memory.held > memory.limit:
            memory.note_scarcity()

    def _count_waiting(self, size: int, answer: Promise[Any]) -> None:
        """Counts a request of `size` bytes that is being answered in turns or in a thread."""
        if self._is_appending:
            self._hold_until_done(size, answer)
        else:
            self.hold(size)

    def _hold_until_done(self, size: int, work: asyncio.Future[Any] | Promise[Any] | None) -> None:
        """Counts a request of `size` bytes until its work is done, even if the connection ends before. None is no work."""
        if work is None:
            return
        memory = self._memory

        def end(_: object) -> None:
            memory.held -= size

        memory.held += size
        if memory.held > memory.limit:
            memory.note_scarcity()
        work.add_done_callback(end)

    def _count_unsent(self, size: int) -> None:
        """Notes how many bytes of answers the transport holds; it says so only when it is full and when it is empty again."""
        memory = self._memory
        memory.held += size - self._unsent
        self._unsent = size
        if memory.held > memory.limit:
            memory.note_scarcity()

    # All of it

    @property
    def held_bytes(self) -> int:
        """Returns the bytes in `ClientMemory.held` that go when this connection is closed."""
        unfinished = len(self._frame) if self._frame is not None else len(self._partial)
        return unfinished + self._backlog_bytes + self._unanswered + self._unsent

    def evict(self, reason: str) -> None:
        """Closes the connection at once, and takes its `held_bytes` off the account."""
        raise NotImplementedError

    def _release(self) -> None:
        """Lets go of everything."""
        self._count_unsent(0)
        self._count_unanswered(0)
        self._count_backlog(-len(self._backlog), -self._backlog_bytes)
        self._backlog.clear()
        self._take_partial()
        if self._frame is not None:
            self._memory.held -= len(self._frame)
            self._buffers.give_back(self._frame)
            self._frame = None
        if self._waits_for_room:
            self._waits_for_room = False
            self._memory.leave(self)
