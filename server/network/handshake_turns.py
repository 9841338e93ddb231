"""Decides whose TLS handshake begins next, so that no address keeps the others from theirs.

At most HANDSHAKES are under way, and at most OF_ONE_SOURCE of them for clients of one source (security/addresses.py): however
many connections one of them opens, another can begin at once. All others wait in line. The sources come in turn there, and the
clients of a source in the order in which they came.

If somebody waits, a handshake that has taken longer than PATIENCE_S gives its place up, unless its source has less than an equal
share of the places. So whoever begins handshakes and falls silent keeps nobody out for long, and a client on a slow line is not
driven out by the crowd of another address.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final, Generic, TypeVar

HANDSHAKES: Final = 64
OF_ONE_SOURCE: Final = 48
PATIENCE_S: Final = 1.0

T = TypeVar("T")


class HandshakeTurns(Generic[T]):
    """The handshakes of one listener: those under way, and the clients that wait for a place. Times are in seconds of a clock
    that only runs forward."""

    __slots__ = ("_line", "_places", "_under_way", "waiting")

    def __init__(self) -> None:
        self._line: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()  # who waits, by source; whose turn is next is first
        self._under_way: dict[T, tuple[str, float]] = {}  # with the source, and when it began: the oldest first
        self._places: Counter[str] = Counter()  # how many of a source are under way
        self.waiting = 0
        """The number of clients in line."""

    @property
    def under_way(self) -> int:
        """Returns how many handshakes are under way."""
        return len(self._under_way)

    def line_up(self, source: str, client: T) -> None:
        """Puts a client into the line."""
        self._line.setdefault(source, OrderedDict())[client] = None
        self.waiting += 1

    def leave(self, source: str, client: T) -> bool:
        """Takes a client out of the line; returns False if it was not in it."""
        clients = self._line.get(source)
        if clients is None or client not in clients:
            return False
        del clients[client]
        self.waiting -= 1
        if not clients:
            del self._line[source]
        return True

    def begin(self, now_s: float) -> T | None:
        """Gives a place to the client whose turn it is, and returns it; None if nobody waits who may have one."""
        if len(self._under_way) >= HANDSHAKES:
            return None
        source = next((each for each in self._line if self._places[each] < OF_ONE_SOURCE), None)
        if source is None:
            return None
        client = next(iter(self._line[source]))
        self.leave(source, client)
        if source in self._line:
            self._line.move_to_end(source)
        self._under_way[client] = source, now_s
        self._places[source] += 1
        return client

    def end(self, client: T) -> None:
        """Takes the place back from a client whose handshake is over."""
        source, _ = self._under_way.pop(client)
        self._places[source] -= 1
        if not self._places[source]:
            del self._places[source]

    def find_late(self, now_s: float) -> list[T]:
        """Returns those under way that have to give their places up, no more than clients wait."""
        if not self.waiting:
            return []
        places = Counter(self._places)
        fair = min(OF_ONE_SOURCE, HANDSHAKES // len(self._line.keys() | places.keys()))
        late: list[T] = []
        for client, (source, begun_s) in self._under_way.items():
            if now_s < begun_s + PATIENCE_S or len(late) == self.waiting:
                break
            if places[source] > fair or (places[source] == fair and source in self._line):
                places[source] -= 1
                late.append(client)
        return late

    def look_again_in_s(self, now_s: float) -> float | None:
        """Returns after how many seconds a place may have to be given up; None as long as nobody waits."""
        if not self.waiting:
            return None
        if self.find_late(now_s):
            return 0.0
        ends = (begun_s + PATIENCE_S - now_s for _, begun_s in self._under_way.values())
        return next((left_s for left_s in ends if left_s > 0), PATIENCE_S)

    def clear_line(self) -> None:
        """Sends away those that wait."""
        self._line.clear()
        self.waiting = 0
