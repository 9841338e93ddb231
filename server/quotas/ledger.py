"""A ledger holds what clients have used of one kind of quota: a measure (rates.py) for each share of a limit (limits.py).

A client without a limit is not measured. Shares are made of names that clients choose, so a share whose measure has nothing more
to say is forgotten; the ledger looks for such shares whenever there are twice as many as were left the last time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from ottla.server.metadata.quotas import Entity
from ottla.server.quotas.limits import Limits, Share
from ottla.server.quotas.rates import Windows

FEW: Final = 1_000
"""Up to so many shares, or clients' limits, are kept without looking for those to forget."""


class Measure(Protocol):
    """Declares what a ledger measures with, which is a Rate or a TokenBucket."""

    def throttle_time_ms(self, limit: float, now_ms: int) -> int: ...

    def is_idle(self, now_ms: int) -> bool: ...

    def now(self, now_ms: int) -> float: ...


M = TypeVar("M", bound=Measure)
Client = tuple[str, str | None]
"""A client, as (user, client id)."""


class Ledger(Generic[M]):
    """Holds what was used of one kind of quota."""

    __slots__ = ("_limits", "_look_at", "_make", "_resolved", "_values", "_windows", "limited", "shares")

    def __init__(self, make: Callable[[Windows], M], windows: Windows) -> None:
        self._make = make
        self._windows = windows
        self._values: dict[Entity, float] = {}
        self._limits = Limits(self._values)
        self.limited = False
        """True if there are limits."""
        self._resolved: dict[Client, tuple[M, float] | None] = {}  # clients looked up since the limits last changed
        self._look_at = FEW
        self.shares: dict[Share, M] = {}

    def set_limit(self, entity: Entity, limit: float | None) -> None:
        """Sets the limit of an entity from now on; None is for no limit. What was used so far stays counted."""
        if limit is None:
            self._values.pop(entity, None)
        else:
            self._values[entity] = limit
        self.limited = bool(self._values)
        self._resolved.clear()

    def measure_of(self, client: Client, now_ms: int) -> tuple[M, float] | None:
        """Returns the measure of the client's share, and its limit per second; None if it has no limit."""
        if client in self._resolved:
            return self._resolved[client]
        if len(self._resolved) >= FEW:
            self._resolved.clear()
        limited = self._limits.find(*client)
        if limited is None:
            resolved = None
        else:
            measure = self.shares.get(limited.share)
            if measure is None:
                self._forget_idle(now_ms)
                measure = self.shares[limited.share] = self._make(self._windows)
            resolved = measure, limited.limit
        self._resolved[client] = resolved
        return resolved

    def _forget_idle(self, now_ms: int) -> None:
        if len(self.shares) < self._look_at:
            return
        self.shares = {share: measure for share, measure in self.shares.items() if not measure.is_idle(now_ms)}
        self._resolved.clear()  # it refers to forgotten measures, which would go on counting
        self._look_at = max(FEW, 2 * len(self.shares))
