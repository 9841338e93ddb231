"""A condition that a test can wait for, as those who wait see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ottla.server.partitions.purgatory import Watchable
    from ottla.server.requests.context import BrokerContext
    from ottla.server.requests.request import Request
    from ottla.server.testkit.faults.bench import Bench
    from ottla.wire.api import Api


class Missing(NamedTuple):
    """Says, in words, what is missing; a function is for words that take long to find, and of which only the last count."""

    words: str | Callable[[], str]

    @property
    def text(self) -> str:
        """The text about what is missing now."""
        return self.words if isinstance(self.words, str) else self.words()


class Condition:
    """Something that may come about. A subclass says what, and what may bring it about besides changes of the metadata, timers
    and the lives of the broker, after which every condition is looked at again."""

    watches_connections = False
    """True if connections that come and go may bring it about."""

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        """Returns what was found, or what is missing. Raises Refused if it can never come about."""
        raise NotImplementedError

    def concerns(self, api: Api) -> bool:
        """Returns whether requests of this API may bring it about."""
        return False

    def note_request(self, body: Any, request: Request) -> None:
        """Notes a request of an API that `concerns` it, before it is served."""

    def watched(self, context: BrokerContext) -> Iterable[Watchable]:
        """Returns the partitions whose appends may bring it about."""
        return ()

    def due_in_s(self) -> float | None:
        """Returns when time alone may have brought it about, in seconds of real time; None if it cannot."""
        return None
