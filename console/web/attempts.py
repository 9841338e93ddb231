"""Bounds on wrong passwords: so many from one source, and so many for one user, within a quarter of an hour.

An attempt counts as wrong from its begin, and no more once it was right: attempts at the same time do not get around the bound.
Beyond it nothing is checked any more, whatever the password, so that a guess costs nothing and tells nothing. Who has logged in
stays so; and where a user has logged in from before, what others guess elsewhere does not count, so that they do not lock out who
is at the usual place.

Wrong tokens are not bounded, since nobody guesses one, but what the log says of them is: whoever reaches the port can send
thousands a second, and the log is on somebody's disk.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

WITHIN_S: Final = 15 * 60.0
FROM_SOURCE: Final = 10
FOR_USER: Final = 30
TOKENS_IN_LOG: Final = 20
TOKENS_WITHIN_S: Final = 60.0
MOST_KEPT: Final = 4_096
"""So many sources, so many users and so many places of users are remembered; beyond it the one that was tried the longest ago is
forgotten. They are kept apart, so that many sources do not make a user's attempts forgotten."""

Key = TypeVar("Key")
Times = OrderedDict[str, deque[float]]


class Attempts:
    """Counts. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens_since = clock()
        self._tokens = 0
        self._of_sources: Times = OrderedDict()
        self._of_users: Times = OrderedDict()
        self._places: OrderedDict[tuple[str, str], None] = OrderedDict()  # a source, and a user who has logged in from there

    def begin(self, source: str, user: str | None) -> float:
        """Returns 0 and counts the attempt, or how many seconds nothing is checked any more. `user` is None if there is no such
        user: their number is no matter of whoever asks."""
        now = self._clock()
        counts = self._counts(source, user)
        waits = [_wait_s(times, key, most, now) for times, key, most in counts]
        if any(waits):
            return max(waits)
        for times, key, _ in counts:
            times.setdefault(key, deque()).append(now)
            _keep(times, key)
        return 0.0

    def succeeded(self, source: str, user: str) -> None:
        """Takes back what `begin` has counted; what was wrong before stays, or somebody with a password could guess another's."""
        for times, key, _ in self._counts(source, user):
            if found := times.get(key):
                found.pop()
        self._places[source, user] = None
        _keep(self._places, (source, user))

    def note_wrong_token(self) -> str:
        """Returns what the log says of one more wrong token: nothing, if there were too many in this minute, and with the first
        one after it how many it has left out."""
        now, left_out = self._clock(), 0
        if now - self._tokens_since >= TOKENS_WITHIN_S:
            left_out = max(0, self._tokens - TOKENS_IN_LOG)
            self._tokens_since, self._tokens = now, 0
        self._tokens += 1
        if self._tokens > TOKENS_IN_LOG:
            return ""
        return f"wrong token, after {left_out:,} that are not in this log" if left_out else "wrong token"

    def _counts(self, source: str, user: str | None) -> list[tuple[Times, str, int]]:
        """Returns where an attempt counts: among which, as which, and how many there may be."""
        of_source = (self._of_sources, source, FROM_SOURCE)
        if user is None or (source, user) in self._places:
            return [of_source]
        return [of_source, (self._of_users, user, FOR_USER)]


def _keep(kept: OrderedDict[Key, Any], key: Key) -> None:
    """Makes the key the latest, and forgets the first ones of too many."""
    kept.move_to_end(key)
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)


def _wait_s(times: Times, key: str, most: int, now: float) -> float:
    found = times.get(key)
    if found is None:
        return 0.0
    while found and now - found[0] >= WITHIN_S:
        found.popleft()
    return found[0] + WITHIN_S - now if len(found) >= most else 0.0
