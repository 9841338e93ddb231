"""What clients have used up of one kind of quota: a measure (rates.py) for each share of a limit (limits.py).

A client without a limit is not measured. Shares are made of names that clients choose, so those whose measure says nothing any
more are forgotten, whenever there are twice as many as were left the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from ottla.server.metadata.quotas import Entity
from ottla.server.quotas.limits import Limits, Share
from ottla.server.quotas.rates import Windows

FEW: Final = 1_000
"""So many shares, or clients' limits, are kept without a look."""


class Measure(Protocol):
    """What a ledger measures with: a Rate or a TokenBucket."""

    def throttle_time_ms(self, limit: float, now_ms: int) -> int: ...

    def is_idle(self, now_ms: int) -> bool: ...

    def now(self, now_ms: int) -> float: ...


M = TypeVar("M", bound=Measure)
Client = tuple[str, str | None]
"""(user, client id)."""


class Ledger(Generic[M]):
    """What was used up of one kind of quota."""

    __slots__ = ("_found", "_limits", "_look_at", "_make", "_windows", "limited", "shares")

    def __init__(self, make: Callable[[Windows], M], windows: Windows) -> None:
        self._make = make
        self._windows = windows
        self._limits = Limits({})
        self.limited = False
        """Whether there are limits."""
        self._found: dict[Client, tuple[M, float] | None] = {}  # what was resolved since the limits last changed
        self._look_at = FEW
        self.shares: dict[Share, M] = {}

    def set_limits(self, values: Mapping[Entity, float]) -> None:
        """Sets the limits that count from now on. What was used up stays so."""
        self._limits = Limits(values)
        self.limited = bool(values)
        self._found.clear()

    def of(self, client: Client, now_ms: int) -> tuple[M, float] | None:
        """Returns the measure of the client's share, and its limit a second; None where it has no limit."""
        if client in self._found:
            return self._found[client]
        if len(self._found) >= FEW:
            self._found.clear()
        limited = self._limits.of(*client)
        if limited is None:
            found = None
        else:
            measure = self.shares.get(limited.share)
            if measure is None:
                self._forget_idle(now_ms)
                measure = self.shares[limited.share] = self._make(self._windows)
            found = measure, limited.limit
        self._found[client] = found
        return found

    def _forget_idle(self, now_ms: int) -> None:
        if len(self.shares) < self._look_at:
            return
        self.shares = {share: measure for share, measure in self.shares.items() if not measure.is_idle(now_ms)}
        self._found.clear()  # it would go on counting in what is forgotten
        self._look_at = max(FEW, 2 * len(self.shares))
