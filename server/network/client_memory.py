"""Counts the memory that clients fill, over all connections of a broker, and keeps it within its share of
`ottla.client.memory.bytes` (server/broker/start.py).

What counts is what lies here because a client sent it or does not take it: frames that have not come whole, frames that wait for
the answer to an earlier one, requests that take long, and answers that the transport still has. A connection adds what it holds
to `held` and takes it off again; that is all that a broker does as long as there is room. If there is none:

1. A connection whose frame would have to grow stops reading and waits, so the client's own socket fills up. Those that wait are
   looked at ten times a second, and those that miss the fewest bytes go first: what they hold is free again soonest.
2. If nobody fits any more, they may go beyond the limit, again those first that miss the least, up to the size of one longest
   request (`socket.request.max.bytes`). Such a frame gets a buffer for all of it, so it need not wait again. So frames that wait
   for each other's memory do not wait for ever, and the longest request that the broker takes can be finished.
3. Fetches that wait for records to come are answered with what there is, the oldest first, until what is left has room.
4. If none of those that wait could go on for PATIENCE_S, or one of them for LONGEST_WAIT_S, somebody holds memory without using
   it, and connections are closed, with a warning in the log: first those that held the most for the longest time, which is the
   sum of what they held at each second. A client that sends the beginnings of frames and falls silent is closed in this way, and
   so is one that trickles; producers with large batches are not, because they hold a batch for milliseconds.
5. Beyond the limit and the one request, they are closed at once.
6. A connection that could go on by this account, but for which the process gets no memory, is closed, too.

Frames above KEPT_BYTES, which are larger than a batch of Kafka's default max.message.bytes, get no more than three quarters of
the limit. So however many of them are announced, usual producers find room. While somebody waits, reads are short
(`ReceiveBuffers.shorten`), because what has been read has to be kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.server.network.receive_buffers import KEPT_BYTES, ReceiveBuffers

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock

logger = logging.getLogger("ottla.server.memory")

UNLIMITED: Final = 1 << 62
TICK_S: Final = 0.1
TICKS_PER_SAMPLE: Final = 10
PATIENCE_S: Final = 5.0
LONGEST_WAIT_S: Final = 15.0
"""The longest time that connections wait for room before others are closed. Clients give a request 30 s or more."""


class Holder(Protocol):
    """Declares a connection as its account sees it."""

    @property
    def unfinished(self) -> tuple[int, int, int]:
        """Returns the size of the frame that is not whole yet, how much of it has come, and the bytes it takes here."""
        ...

    @property
    def held_bytes(self) -> int:
        """Returns the bytes in `ClientMemory.held` that go when this connection is closed."""
        ...

    def go_on(self, *, whole: bool) -> None:
        """Reads on, because there is room for the frame's next buffer, or for the whole frame. Raises MemoryError."""

    def evict(self, reason: str) -> None:
        """Closes the connection at once, and takes its `held_bytes` off the account."""


class ClientMemory:
    """The account of one broker. `limit` is in bytes; `reserve` is what may be held beyond it so that a frame can be finished."""

    __slots__ = (
        "_buffers", "_clock", "_delayed", "_leaving", "_leaving_bytes", "_moved", "_rent", "_since", "_ticks", "_timer",
        "_waiting", "connections", "evictions", "held", "limit", "reserve", "waits",
    )  # fmt: skip

    def __init__(self, clock: Clock, buffers: ReceiveBuffers, limit: int = UNLIMITED, reserve: int = 0) -> None:
        self._clock = clock
        self._buffers = buffers
        self.limit = limit
        self.reserve = reserve
        self.held = 0
        """The bytes that all connections hold."""
        self.waits = 0
        """The number of times that a connection had to wait for room."""
        self.evictions = 0
        """The number of connections that were closed to make room, or because there was no memory for what they had announced."""
        self.connections: list[Iterable[Holder]] = []
        """The open connections, by listener."""
        self._waiting: dict[Holder, int] = {}  # with the tick since which each waits, the longest first
        self._delayed: dict[Holder, tuple[int, Callable[[], object]]] = {}
        """Those whose requests wait and may be answered early, the oldest first: the bytes that each holds, and what has it
        answered."""
        self._leaving: dict[Holder, int] = {}  # those that are answered early soon, with these bytes
        self._leaving_bytes = 0  # of all of them
        self._ticks = 0
        self._moved = 0  # the last tick at which one of them could go on, or nobody waited
        self._since = 0  # the last tick at which no more than the limit was held
        self._rent: dict[Holder, int] = {}  # bytes times seconds, of those that held something at every second so far
        self._timer: Cancellable | None = None  # runs from the moment at which room is scarce until nobody waits

    def admits(self, size: int, received: int, taken: int) -> bool:
        """Returns whether there is room for the next buffer of a frame of `size` bytes, of which `received` have come and which
        takes `taken` now."""
        limit = self.limit if size <= KEPT_BYTES else self.limit * 3 // 4
        return self.held - taken + self._buffers.size_of_next(size, received) <= limit

    def wait_for_room(self, connection: Holder) -> None:
        """Lets a connection, which has stopped reading, go on when there is room for its frame."""
        self._waiting[connection] = self._ticks
        self.waits += 1
        self.note_scarcity()

    def leave(self, connection: Holder) -> None:
        """Forgets a connection that has ended."""
        self._waiting.pop(connection, None)

    def delay(self, connection: Holder, size: int, expire_early: Callable[[], object]) -> None:
        """Notes that the request of a connection waits, holds so many bytes, and may be answered early."""
        if connection not in self._leaving:
            self._delayed[connection] = size, expire_early

    def end_delay(self, connection: Holder) -> None:
        """Forgets a request that has its answer, if it was noted."""
        if self._delayed.pop(connection, None) is None:
            self._leaving_bytes -= self._leaving.pop(connection, 0)

    def note_scarcity(self) -> None:
        """Begins to look after those that wait, or that hold more than there should be."""
        if self._timer is None:
            logger.info(
                "clients have filled their %d bytes of memory (ottla.client.memory.bytes): reading from some of them stops",
                self.limit,
            )
            self._buffers.shorten()
            self._rent.clear()
            self._since = self._moved = self._ticks
            self._timer = self._clock.call_later(TICK_S, self._tick)
        if self.held > self.limit + self.reserve:
            self._timer.cancel()
            self._timer = self._clock.call_later(0, self._tick)

    def _tick(self) -> None:
        try:
            self._look_after()
        finally:  # whatever went wrong: without the next tick, those that wait would wait for ever
            if self._waiting or self.held > self.limit:
                self._timer = self._clock.call_later(TICK_S, self._tick)
            else:
                self._timer = None
                self._rent.clear()
                self._buffers.lengthen()

    def _look_after(self) -> None:
        """Lets those go on for which there is room, and closes those that are in the way."""
        self._ticks += 1
        if self._ticks % TICKS_PER_SAMPLE == 0:
            self._sample()
        if self.held - self._leaving_bytes > self.limit or self._waiting:
            self._expire_some()
        if self.held - self._leaving_bytes <= self.limit:
            self._since = self._ticks
        while self.held > self.limit + self.reserve and self._evict_one():
            pass
        if self._let_some_go_on(whole=False) or self._let_some_go_on(whole=True):
            self._moved = self._ticks
        self._close_who_blocks()

    def _expire_some(self) -> None:
        """Has delayed requests answered early, the oldest first, until there is room for the rest, and for the frame that misses
        the fewest bytes."""
        size, received, taken = min(self._waiting, key=_missing).unfinished if self._waiting else (0, 0, 0)
        while self._delayed:
            leaving = self._leaving_bytes
            if self.held - leaving <= self.limit and (not size or self.admits(size, received, taken + leaving)):
                break
            connection, (held, expire_early) = next(iter(self._delayed.items()))
            del self._delayed[connection]
            self._leaving[connection] = held
            self._leaving_bytes += held
            expire_early()

    def _let_some_go_on(self, *, whole: bool) -> bool:
        """Lets those go on that fit, or whose `whole` frames fit with the reserve, first those that miss the fewest bytes.
        Returns whether there was one, or nobody waits.
        """
        some = not self._waiting
        for connection in sorted(self._waiting, key=_missing):
            size, received, taken = connection.unfinished
            if self.held - taken + size <= self.limit + self.reserve if whole else self.admits(size, received, taken):
                self._end_wait(connection, whole=whole)
                some = True
        return some

    def _end_wait(self, connection: Holder, *, whole: bool) -> None:
        """Lets a connection go on, or closes it if there is room by this account, but no memory."""
        self._waiting.pop(connection)
        try:
            connection.go_on(whole=whole)
        except MemoryError:
            self.evictions += 1
            connection.evict("the process gets no memory for its request")

    def _close_who_blocks(self) -> None:
        """Closes connections until the one that has waited the longest can go on, if that is too long, and until no more than the
        limit is held, if more was for too long.
        """
        patience, longest = round(PATIENCE_S / TICK_S), round(LONGEST_WAIT_S / TICK_S)
        while self._waiting:
            connection, since = next(iter(self._waiting.items()))
            if self._ticks - self._moved < patience and self._ticks - since < longest:
                break
            if self.admits(*connection.unfinished):
                self._end_wait(connection, whole=False)
                self._moved = self._ticks
            elif not self._evict_one():
                break
        if self._ticks - self._since >= longest:
            while self.held > self.limit and self._evict_one():
                pass

    def _evict_one(self) -> bool:
        """Closes the connection that held the most for the longest time; returns False if none holds anything."""
        self._rent = {connection: rent for connection, rent in self._rent.items() if connection.held_bytes}
        if not self._rent:
            self._sample()
        if not self._rent:
            return False
        victim = max(self._rent, key=self._rent.__getitem__)
        del self._rent[victim]
        self.evictions += 1
        held = victim.held_bytes
        victim.evict(f"it holds {held} bytes, and has held more for longer than any other client (ottla.client.memory.bytes)")
        return True

    def _sample(self) -> None:
        """Adds what each connection holds now to what it held before; one that holds nothing begins anew."""
        before = self._rent
        holding = ((each, each.held_bytes) for group in self.connections for each in list(group))
        self._rent = {connection: before.get(connection, 0) + held for connection, held in holding if held}


def _missing(connection: Holder) -> int:
    size, received, _ = connection.unfinished
    return size - received
