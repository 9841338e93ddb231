"""The audit log says who was refused what, one line for each decision, in the form of Kafka's `kafka.authorizer.logger`.

Denials are logged at INFO, and what was allowed at DEBUG. Names come from clients, so they are escaped. A client can be refused
as fast as it can ask, so at most `LINES_A_SECOND` lines are written; how many more there were is said once a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from ottla.server.security.rights import Operation, Resource

LINES_A_SECOND: Final = 1000
LONGEST_NAME: Final = 500
"""So many characters of a name are logged."""

logger = logging.getLogger("kafka.authorizer.logger")

_RESOURCES: Final = {2: "Topic", 3: "Group", 4: "Cluster", 5: "TransactionalId", 6: "DelegationToken", 7: "User"}


class Reasoned(Protocol):
    """A decision, with its reason in words."""

    @property
    def reason(self) -> str: ...


class Asking(Protocol):
    """Declares what a line says of who asked, and who knows why (authorizer.py)."""

    principal: str
    host: str

    def decide(self, operation: Operation, resource: Resource, name: str) -> Reasoned: ...


OnDenied = Callable[[Asking, str, "Operation", "Resource", str], object]
"""Takes who asked, the API, and the operation on the resource of this name."""


class Audit:
    """Writes the audit log of one broker. `monotonic` is a clock in seconds."""

    __slots__ = ("_left", "_monotonic", "_omitted", "_second", "allowed", "denied", "on_denied")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._second = -1
        self._left = 0
        self._omitted = 0
        self.allowed = 0
        """The number of times that something was allowed. Whoever asks counts this, for most of it is not noted."""
        self.denied: dict[str, int] = {}
        """The number of times that something was denied, by the name of the API."""
        self.on_denied: list[OnDenied] = []
        """The functions that are called with each denial: none, unless somebody asks who was denied what
        (server/inspect/denials.py)."""

    @property
    def notes_allowed(self) -> bool:
        """Returns whether what is allowed is logged as well."""
        return logger.isEnabledFor(logging.DEBUG)

    def note(self, rights: Asking, api: str, operation: Operation, resource: Resource, name: str, *, allowed: bool) -> None:
        """Logs one decision, unless there are too many this second."""
        if not allowed:
            self.denied[api] = self.denied.get(api, 0) + 1
            for tell in self.on_denied:
                tell(rights, api, operation, resource, name)
        level = logging.DEBUG if allowed else logging.INFO
        if not logger.isEnabledFor(level) or not self._may_write():
            return
        logger.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s with "
            "resourceRefCount = 1 based on rule %s",
            _escaped(rights.principal),
            "Allowed" if allowed else "Denied",
            operation.name,
            rights.host,
            _RESOURCES[resource],
            _escaped(name),
            api,
            _escaped(rights.decide(operation, resource, name).reason),
        )

    def _may_write(self) -> bool:
        second = int(self._monotonic())
        if second != self._second:
            if self._omitted:
                logger.info("%d more decisions are not listed: at most %d a second are", self._omitted, LINES_A_SECOND)
            self._second, self._left, self._omitted = second, LINES_A_SECOND, 0
        if not self._left:
            self._omitted += 1
            return False
        self._left -= 1
        return True


def _escaped(text: str) -> str:
    """Returns a text that is safe in a line of a log."""
    if text.isprintable() and len(text) <= LONGEST_NAME:
        return text
    short = text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "..."
    return short if short.isprintable() else short.encode("unicode_escape").decode()
