"""The latest denials (who was denied what, and why), from when somebody first asked for them, and the authorizer's own decision.

Denials are noted as long as somebody asks for them now and then. There is no second evaluation: `decision` asks the authorizer
that decides about requests, and says which rules it looked at.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ottla.server.base.hosts import java_form
from ottla.server.inspect.subject import BadQuestion, Subject
from ottla.server.security.rights import Operation, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.server.base.clock import Cancellable, Clock
    from ottla.server.security.audit import Asking
    from ottla.server.security.authorizer import Authorizer, Decision, Rule

MOST_KEPT: Final = 200
LONGEST_NAME: Final = 500
NOTED_SECONDS: Final = 900.0
"""For how long after a question denials are noted; the console's process ends when nobody has looked for as long."""
_Key = tuple[str, str, str, int, int, str]


class Denials:
    """The latest denials, each with how often it was repeated and when for the last time."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.since_ms = now_ms()
        self._kept: dict[_Key, tuple[int, int]] = {}
        self._names: Counter[str] = Counter()
        """The number of denials that are kept of each principal."""

    def note(self, asking: Asking, api: str, operation: Operation, resource: Resource, name: str) -> None:
        """Notes one denial, and forgets another one if there are too many."""
        key = asking.principal, asking.host, api, int(operation), int(resource), name[:LONGEST_NAME]
        times, _ = self._kept.pop(key, (0, 0))
        self._names[asking.principal] += times == 0
        self._kept[key] = times + 1, self._now_ms()
        if len(self._kept) > MOST_KEPT:
            self._forget_one()

    def _forget_one(self) -> None:
        """Forgets, of the principal with the most denials, the one that was repeated longest ago: one with many names does not
        hide what others were denied."""
        principal = max(self._names, key=self._names.__getitem__)
        del self._kept[next(key for key in self._kept if key[0] == principal)]
        self._names[principal] -= 1
        if not self._names[principal]:
            del self._names[principal]

    def describe(self) -> list[dict[str, Any]]:
        """Returns them, the latest first."""
        return [
            {
                "principal": principal,
                "host": host,
                "api": api,
                "operation": operation,
                "resource": resource,
                "name": name,
                "times": times,
                "last_ms": last_ms,
            }
            for (principal, host, api, operation, resource, name), (times, last_ms) in reversed(self._kept.items())
        ]


class _Noting:
    """Has the denials of an authorizer noted until nobody has asked for them for NOTED_SECONDS, by a clock of real time."""

    def __init__(self, authorizer: Authorizer, now_ms: Callable[[], int]) -> None:
        self.denials = Denials(now_ms)
        self._told = authorizer.audit.on_denied
        self._told.append(self.denials.note)
        self._timer: Cancellable | None = None

    def prolong(self, clock: Clock, over: Callable[[], object]) -> None:
        """Goes on for NOTED_SECONDS from now, and calls `over` at the end."""
        if self._timer is not None:
            self._timer.cancel()

        def end() -> None:
            self._told.remove(self.denials.note)
            over()

        self._timer = clock.call_later(NOTED_SECONDS, end)


_noting: Final[WeakKeyDictionary[Authorizer, _Noting]] = WeakKeyDictionary()


def denials(subject: Subject) -> dict[str, Any]:
    """Returns the latest denials, which are noted from the first time that somebody asks until nobody has for NOTED_SECONDS.
    `enabled` is false if the broker has no authorizer, and so denies nothing."""
    authorizer = subject.context.authorizer
    if authorizer is None:
        return {"enabled": False, "since_ms": None, "denials": []}
    noting = _noting.get(authorizer)
    if noting is None:
        noting = _noting[authorizer] = _Noting(authorizer, subject.context.clock.now_ms)
    noting.prolong(subject.clock, lambda: _noting.pop(authorizer))
    return {"enabled": True, "since_ms": noting.denials.since_ms, "denials": noting.denials.describe()}


def decision(subject: Subject, principal: str, host: str, operation: int, resource: int, name: str) -> dict[str, Any]:
    """Returns what the authorizer decides on an operation, by which rule, and which rules it looked at. Raises BadQuestion."""
    authorizer = subject.context.authorizer
    if authorizer is None:
        raise BadQuestion("This broker has no authorizer (authorizer.class.name), so everybody may do everything.")
    try:
        what, where = Operation(operation), Resource(resource)
    except ValueError:
        raise BadQuestion("There is no such operation or type of resource.") from None
    decided: Decision = authorizer.decide(principal, java_form(host), what, where, name)
    return {
        "allowed": decided.allowed,
        "rule": None if decided.rule is None else _fields(decided.rule),
        "without_rule": decided.without_rule,
        "considered": [_fields(rule) for rule in authorizer.considered(principal, where, name)],
    }


def _fields(rule: Rule) -> list[Any]:
    """Returns a rule in the order of the protocol: type, name and pattern, principal, host, operation, permission."""
    return [
        rule.resource_type,
        rule.resource_name,
        rule.pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    ]
