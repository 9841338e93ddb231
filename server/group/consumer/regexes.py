"""Checks the regular expressions of subscriptions and matches them against the topics that exist (KIP-848).

Like Kafka it uses RE2, whose time is linear in the text, whatever a client sends. An expression must match a topic's whole name.
All expressions of a group are looked up together, at most every ten seconds, so that new topics cost the group one rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ottla.server.base.expressions import ExpressionError, compile_expression
from ottla.server.base.turns import Steps
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.errors import GroupError
from ottla.wire.errors import ErrorCode

LEAST_INTERVAL_MS: Final = 10_000
"""The least time between two lookups of one group."""
SHOWN: Final = 200
"""So much of an expression is in the message of its refusal."""
NEVER: Final = -(2**63)


def check_regex(expression: str) -> None:
    """Checks an expression. Raises GroupError INVALID_REGULAR_EXPRESSION."""
    try:
        compile_expression(expression, of_ascii=True)
    except ExpressionError as error:
        shown = expression if len(expression) <= SHOWN else f"{expression[:SHOWN]}..."
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"The regular expression `{shown}` is not accepted: {error}."
        ) from error


def match(
    expressions: Iterable[str], topics: Iterable[str], may_see: Callable[[str], bool] | None = None
) -> Steps[dict[str, frozenset[str] | None]]:
    """Makes steps that return the topics that each expression matches, of those that may be seen; `may_see` is None if all may.
    It is None for an expression that is not accepted, which only another broker or an older one can have written.

    A step is one topic, since a thousand members may each have an expression for ten thousand topics, and a topic with the
    longest name may take the largest expression 2 ms, and the worst one 18. A thread would take longer for all others.
    """
    names = list(topics)
    if may_see is not None:
        seen: list[str] = []
        for name in names:
            if may_see(name):
                seen.append(name)
            yield None
        names = seen
    found: dict[str, frozenset[str] | None] = {}
    for text in expressions:
        yield None
        try:
            expression = compile_expression(text, of_ascii=True)
        except ExpressionError:
            found[text] = None
            continue
        matching: list[str] = []
        for name in names:
            if expression.matches(name):
                matching.append(name)
            yield None
        found[text] = frozenset(matching)
    return found


def last_lookup_ms(group: ConsumerGroup) -> int:
    """Returns when the group's expressions were last looked up. They are looked up together, so any of them will do."""
    return next((resolved.timestamp_ms for resolved in group.regexes.values()), NEVER)


def last_version(group: ConsumerGroup) -> int:
    """Returns the version of the metadata that the group's expressions were last looked up in."""
    return next((resolved.version for resolved in group.regexes.values()), 0)
