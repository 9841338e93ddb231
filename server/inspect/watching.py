"""A watch of requests that runs, or has run: the link in the chain of routes that is there only while somebody watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.server.dispatch.chain import Place

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock
    from ottla.server.dispatch.chain import Chain
    from ottla.server.inspect.request_watch import RequestWatch

KEPT_SECONDS: Final = 600.0
"""For how long what was seen can be read after the end."""


class Watching:
    """Puts a link into the chain for so many seconds at most, by a clock of real time. `make` is given what the link calls when
    it has seen enough; `forget` is called when what it has seen need not be kept any more."""

    def __init__(
        self,
        number: int,
        make: Callable[[Callable[[], None]], RequestWatch],
        chain: Chain,
        clock: Clock,
        seconds: float,
        forget: Callable[[], None],
    ) -> None:
        self.number = number
        self.watch = make(self._over)
        self._clock = clock
        self._forget = forget
        self._ends_s = clock.monotonic() + seconds
        self._chain: Chain | None = chain
        self._timer: Cancellable = clock.call_later(seconds, self.end)
        chain.put(Place.REQUESTS, self.watch)

    @property
    def is_running(self) -> bool:
        return self._chain is not None

    @property
    def left_s(self) -> float:
        return max(0.0, self._ends_s - self._clock.monotonic()) if self.is_running else 0.0

    def _over(self) -> None:
        self._timer.cancel()
        self._timer = self._clock.call_later(0, self.end)  # not within a request, whose route would change

    def end(self) -> None:
        """Takes the link away."""
        if self._chain is None:
            return
        self._chain.put(Place.REQUESTS, None)
        self._chain = None
        self._timer.cancel()
        self.watch.close()
        self._timer = self._clock.call_later(KEPT_SECONDS, self._forget)

    def drop(self) -> None:
        """Lets go of what was seen, because another watch takes the place of this one, which has ended."""
        self._timer.cancel()
