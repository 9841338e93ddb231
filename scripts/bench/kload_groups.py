"""Many groups that form at once, for kload: every member on a connection of its own, all of them driven by one thread.

A thread a member, as for one group, would measure how a thousand threads take turns. Here a member is what its last request was:

| asked last | answered | asks next |
|---|---|---|
| JoinGroup | a generation | SyncGroup |
| SyncGroup | nothing wrong | Heartbeat, a little later |
| SyncGroup, Heartbeat | a rebalance is under way | JoinGroup |
| Heartbeat | nothing wrong | Heartbeat, a little later |

A group is stable when all its members have got their assignments in the same generation.
"""

from __future__ import annotations

import heapq
import selectors
import struct
import time

from scripts.bench.kload_wire import Address, Connection, Member, Refused, find_coordinator

HEARTBEAT_SECONDS = 0.05
BUFFER_BYTES = 1 << 14


class Seat:
    """A member and what it waits for."""

    def __init__(self, address: Address, group: str) -> None:
        self.connection = Connection(address, BUFFER_BYTES)
        self.connection.socket.setblocking(False)
        self.member = Member(self.connection, group)
        self.asked, self.waits = "", False
        self.synced = -1
        """The generation of its assignment."""
        self.got = bytearray()

    def ask(self, what: str, data: bytes) -> None:
        self.asked, self.waits = what, True
        sent = self.connection.socket.send(data)
        assert sent == len(data), "a request is smaller than the socket's buffer"

    def answer(self) -> memoryview | None:
        """Returns one answer without its size, None until all of it has arrived."""
        data = self.connection.socket.recv(BUFFER_BYTES)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self.got += data
        if len(self.got) < 4 or len(self.got) < 4 + struct.unpack_from(">i", self.got)[0]:
            return None
        whole = bytes(self.got[4:])  # one request at a time: nothing stands behind its answer
        self.got.clear()
        self.waits = False
        return memoryview(whole)

    def drain(self) -> None:
        """Waits for the answer that is due, on a socket that blocks."""
        while self.waits:
            self.answer()


class Storm:
    """`groups` groups of `members` members."""

    def __init__(self, address: Address, prefix: str, groups: int, members: int) -> None:
        names = [f"{prefix}-{number}" for number in range(groups)]
        for name in names:
            find_coordinator(address, name)
        self.groups = [[Seat(address, name) for _ in range(members)] for name in names]
        self._of = {id(seat): number for number, seats in enumerate(self.groups) for seat in seats}
        self._selector = selectors.DefaultSelector()
        self._beats: list[tuple[float, int, Seat]] = []
        self._count = 0
        for seats in zip(*self.groups, strict=True):
            for seat in seats:
                self._selector.register(seat.connection.socket, selectors.EVENT_READ, seat)

    def run(self, seconds: float) -> float:
        """Returns the seconds until all groups are stable. Raises Refused where they are not by then."""
        begin = time.perf_counter()
        unstable = set(range(len(self.groups)))
        for seats in zip(*self.groups, strict=True):  # the first of each group, then the second: all groups form at once
            for seat in seats:
                seat.ask("join", seat.member.join_request())
        while unstable:
            now = time.perf_counter()
            if now - begin > seconds:
                raise Refused(f"{len(unstable)} of {len(self.groups)} groups are not stable after {seconds} s")
            while self._beats and self._beats[0][0] <= now:
                seat = heapq.heappop(self._beats)[2]
                seat.ask("beat", seat.member.beat_request())
            wait = min(self._beats[0][0] - now, 1.0) if self._beats else 1.0
            for key, _ in self._selector.select(wait):
                number = self._go_on(key.data)
                if number is not None and len({seat.synced for seat in self.groups[number]}) == 1:
                    unstable.discard(number)
        return time.perf_counter() - begin

    def _go_on(self, seat: Seat) -> int | None:
        """Takes the next step of a member whose socket has something; the number of its group if it has an assignment now."""
        answer = seat.answer()
        if answer is None:
            return None
        member, asked = seat.member, seat.asked
        if asked == "join":
            member.joined(answer)
            seat.ask("sync", member.sync_request())
            return None
        if member.error(answer, asked):
            seat.synced = -1
            seat.ask("join", member.join_request())
            return None
        self._count += 1  # two that are due at once are not compared
        heapq.heappush(self._beats, (time.perf_counter() + HEARTBEAT_SECONDS, self._count, seat))
        if asked == "beat":
            return None
        seat.synced = member.generation
        return self._of[id(seat)]

    @property
    def generations(self) -> int:
        """Returns the most that a group needed."""
        return max(seat.member.generation for seats in self.groups for seat in seats)

    def leave(self) -> None:
        """Makes all members leave, so that nothing expires during the next load."""
        self._selector.close()
        for seats in self.groups:
            for seat in seats:
                seat.connection.socket.setblocking(True)
                seat.drain()
                seat.ask("leave", seat.member.leave_request())
                seat.drain()
                seat.connection.close()
