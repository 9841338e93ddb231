"""What questions are about: the broker that runs now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Broker
    from ottla.server.inspect.request_watch import RequestWatch
    from ottla.server.requests.context import BrokerContext


class NoSuch(Exception):
    """Raised if there is nothing of the name that is asked for; its text says so in a sentence."""


class BadQuestion(Exception):
    """Raised for a question that cannot be answered; its text says why in a sentence."""


class Watch(Protocol):
    """A watch of requests that runs, or has run; watched_requests.py has them."""

    number: int
    watch: RequestWatch

    @property
    def is_running(self) -> bool: ...

    @property
    def left_s(self) -> float: ...

    def end(self) -> None: ...


class Subject:
    """`living` returns the broker that runs now, for a test may start it anew. `clock` is that of real time."""

    def __init__(self, living: Callable[[], Broker], clock: Clock) -> None:
        self._living = living
        self.clock = clock
        self.watching: Watch | None = None
        """The watch of requests that runs, or has run last (watched_requests.py)."""

    @property
    def broker(self) -> Broker:
        return self._living()

    @property
    def context(self) -> BrokerContext:
        """What the broker serves requests from. Raises BadQuestion while it starts or stops."""
        context = self._living().context
        if context is None:
            raise BadQuestion("The broker is starting.")
        return context
