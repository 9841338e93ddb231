"""The subject of questions: the broker that runs now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Broker
    from ottla.server.inspect.ended_sessions import EndedSessions
    from ottla.server.inspect.watching import Watching
    from ottla.server.requests.context import BrokerContext


class NoSuch(Exception):
    """Raised if there is nothing of the name that is asked for; its text says so in a sentence."""


class BadQuestion(Exception):
    """Raised for a question that cannot be answered; its text says why in a sentence."""


class Subject:
    """`living` returns the broker that runs now, for a test may start it anew; it raises BadQuestion if none does. `clock` is
    that of real time. Without `shows_inside` no question is answered. `more` are questions beside those that every broker
    answers, and `ended_sessions` has the console's that were logged out, where there is one."""

    def __init__(
        self,
        living: Callable[[], Broker],
        clock: Clock,
        *,
        shows_inside: bool = True,
        more: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
        ended_sessions: EndedSessions | None = None,
    ) -> None:
        self._living = living
        self.clock = clock
        self.shows_inside = shows_inside
        self.more = more
        self.ended_sessions = ended_sessions
        self.watching: Watching | None = None
        """The watch of requests that runs, or has run last (watched_requests.py)."""
        self.hearers: set[Callable[[str, int], None]] = set()
        """Those who hear news, while they listen: of what kind, and the number of what is over."""

    def tell(self, news: str, number: int) -> None:
        """Tells all who listen that what was begun by a question, and has this number, is over."""
        for hear in tuple(self.hearers):
            hear(news, number)

    @property
    def broker(self) -> Broker:
        return self._living()

    @property
    def context(self) -> BrokerContext:
        """The context from which the broker serves requests. Raises BadQuestion while it starts or stops."""
        context = self._living().context
        if context is None:
            raise BadQuestion("The broker is starting.")
        return context
