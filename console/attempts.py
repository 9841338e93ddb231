"""How many wrong passwords there may be: so many from one source, and so many for one user, within a quarter of an hour.

An attempt counts as wrong from its begin, and no more once it was right: attempts at the same time do not get around the bound.
Beyond it nothing is checked any more, whatever the password, so that a guess costs nothing and tells nothing. Who has logged in
stays so.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

WITHIN_S: Final = 15 * 60.0
FROM_SOURCE: Final = 10
FOR_USER: Final = 30
MOST_KEPT: Final = 4_096
"""So many sources and users are remembered; beyond it the one that was tried the longest ago is forgotten."""


class Attempts:
    """Counts. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._times: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def begin(self, source: str, user: str | None) -> float:
        """Returns 0 and counts the attempt, or how many seconds nothing is checked any more. `user` is None if there is no such
        user: their number is no matter of whoever asks."""
        now = self._clock()
        keys = _keys(source, user)
        waits = [self._wait_s(key, most, now) for key, most in keys]
        if any(waits):
            return max(waits)
        for key, _ in keys:
            self._times.setdefault(key, deque()).append(now)
            self._times.move_to_end(key)
        while len(self._times) > MOST_KEPT:
            self._times.popitem(last=False)
        return 0.0

    def succeeded(self, source: str, user: str) -> None:
        """Takes back what `begin` has counted; what was wrong before stays, or somebody with a password could guess another's."""
        for key, _ in _keys(source, user):
            if times := self._times.get(key):
                times.pop()

    def _wait_s(self, key: tuple[str, str], most: int, now: float) -> float:
        times = self._times.get(key)
        if times is None:
            return 0.0
        while times and now - times[0] >= WITHIN_S:
            times.popleft()
        return times[0] + WITHIN_S - now if len(times) >= most else 0.0


def _keys(source: str, user: str | None) -> list[tuple[tuple[str, str], int]]:
    keys = [(("source", source), FROM_SOURCE)]
    return keys if user is None else [*keys, (("user", user), FOR_USER)]
