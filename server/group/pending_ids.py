"""`PendingIds` holds the member ids that classic groups have handed out with MEMBER_ID_REQUIRED and that no client has joined
with yet.

A client joins with its id at once, or never: then the id is kept for the session timeout that the client asked for, 30 minutes at
most, even if its connection is closed. Kafka keeps any number of them. Here a group keeps MOST_OF_A_GROUP, and all groups of a
broker together keep what takes MOST_BYTES; beyond that the oldest id is forgotten, as if its time were over. Whoever still comes
with it is answered UNKNOWN_MEMBER_ID, as for any id that is not known any more, and clients then join without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.server.base.clock import Clock
from ottla.server.group.timers import Timer

MOST_OF_A_GROUP: Final = 2_000
"""So many ids a group keeps: members that start together, each of which joins within moments."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""So much the ids of all groups may take: more than 5,000 ids, if the names of their clients are short."""
ID_BYTES: Final = 1_500
"""The bytes that an id takes besides its characters, with its timers and its places in two tables."""


class PendingId(Timer):
    """One such id: the timer until it is forgotten. It no longer counts once it is cancelled."""

    __slots__ = ("_ids", "size")

    def __init__(self, clock: Clock, over: Callable[[], None], ids: PendingIds, size: int) -> None:
        super().__init__(clock, over)
        self._ids = ids
        self.size = size

    def cancel(self) -> None:
        super().cancel()
        self._ids.release(self)

    def end(self) -> None:
        """Does at once what would happen when its time is over, which cancels it."""
        self._callback()


class PendingIds:
    """The ids of all groups of one broker, the oldest first."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self.forgotten = 0
        """The number of ids that were forgotten before their time, because there were too many."""
        self._held: dict[PendingId, None] = {}

    def hold(self, clock: Clock, member_id: str, timeout_ms: int, over: Callable[[], None]) -> PendingId:
        """Keeps an id until it is cancelled. After `timeout_ms`, or earlier if there are too many, calls `over`, which cancels
        it."""
        pending = PendingId(clock, over, self, ID_BYTES + len(member_id))
        pending.reset(timeout_ms)
        self._held[pending] = None
        self.held_bytes += pending.size
        return pending

    def release(self, pending: PendingId) -> None:
        """Takes an id off the account; it may be off already."""
        if pending in self._held:
            del self._held[pending]
            self.held_bytes -= pending.size

    def make_room(self, of_group: dict[str, PendingId]) -> None:
        """Forgets the oldest ids of a group, and then of all groups, that are too many."""
        while len(of_group) > MOST_OF_A_GROUP:
            self._forget(next(iter(of_group.values())))
        while self.held_bytes > MOST_BYTES:
            self._forget(next(iter(self._held)))

    def _forget(self, pending: PendingId) -> None:
        self.forgotten += 1
        pending.end()
