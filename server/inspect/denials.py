"""Who was denied what, and why: the latest denials, from when somebody first asked for them, and the authorizer's own decision.

There is no second evaluation: `decision` asks the authorizer that decides about requests, and says which rules it looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ottla.server.base.hosts import java_form
from ottla.server.inspect.subject import BadQuestion, Subject
from ottla.server.security.rights import Operation, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.server.security.audit import Asking, Audit
    from ottla.server.security.authorizer import Authorizer, Decision, Rule

MOST_KEPT: Final = 200
LONGEST_NAME: Final = 500
_Key = tuple[str, str, str, int, int, str]


class Denials:
    """The latest denials, each with how often it was repeated and when for the last time."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.since_ms = now_ms()
        self._kept: dict[_Key, tuple[int, int]] = {}

    def note(self, asking: Asking, api: str, operation: Operation, resource: Resource, name: str) -> None:
        """Notes one denial, and forgets the one that was repeated longest ago if there are too many."""
        key = asking.principal, asking.host, api, int(operation), int(resource), name[:LONGEST_NAME]
        times, _ = self._kept.pop(key, (0, 0))
        self._kept[key] = times + 1, self._now_ms()
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

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


_kept: Final[WeakKeyDictionary[Authorizer, tuple[Audit, Denials]]] = WeakKeyDictionary()


def denials(subject: Subject) -> dict[str, Any]:
    """Returns the latest denials, which are kept from the first time that somebody asks. `enabled` is false if the broker has no
    authorizer, and so denies nothing."""
    authorizer = subject.context.authorizer
    if authorizer is None:
        return {"enabled": False, "since_ms": None, "denials": []}
    if authorizer not in _kept:
        noted = Denials(subject.context.clock.now_ms)
        authorizer.audit.on_denied.append(noted.note)
        _kept[authorizer] = authorizer.audit, noted
    found = _kept[authorizer][1]
    return {"enabled": True, "since_ms": found.since_ms, "denials": found.describe()}


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
