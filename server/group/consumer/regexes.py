"""Checks the regular expressions of subscriptions and matches them against the topics that exist (KIP-848).

Like Kafka it uses RE2, whose time is linear in the text, whatever a client sends. An expression must match a topic's whole name.
All expressions of a group are looked up together, at most every ten seconds, so that new topics cost the group one rebalance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.errors import GroupError
from ottla.wire.errors import ErrorCode

LEAST_INTERVAL_MS: Final = 10_000
"""The least time between two lookups of one group."""
STEP: Final = 100
"""The number of topics that are matched before other work gets a turn: this takes about a millisecond."""
NEVER: Final = -(2**63)


def check_regex(expression: str) -> None:
    """Checks an expression. Raises GroupError INVALID_REGULAR_EXPRESSION."""
    try:
        _compile(expression)
    except ValueError as error:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"RE2 does not accept the regular expression `{expression}`: {error}.",
        ) from error


def match(expressions: Iterable[str], topics: Iterable[str]) -> Iterator[dict[str, frozenset[str]] | None]:
    """Finds the topics that each expression matches. An invalid expression, which only another program can have written, matches
    none.

    It works in steps, since a thousand members may each have an expression for ten thousand topics: it yields None as long as
    there is more to do, and finally the topics by expression.
    """
    names = list(topics)
    found: dict[str, frozenset[str]] = {}
    for expression in expressions:
        matching: list[str] = []
        try:
            matches = _compile(expression)
        except ValueError:
            found[expression] = frozenset()
            continue
        for start in range(0, len(names), STEP):
            matching += [name for name in names[start : start + STEP] if matches(name) is not None]
            yield None
        found[expression] = frozenset(matching)
    yield found


@functools.lru_cache(maxsize=256)
def _compile(expression: str) -> Callable[[str], object]:
    """Returns a function that returns None for a name that does not match. Raises ValueError, with the reason, for an invalid
    expression.
    """
    import re2  # only with the first group that needs it

    quiet = re2.Options()
    quiet.log_errors = False
    quiet.never_capture = True  # captures are not needed, and ten thousand empty ones took most of a second per topic
    try:
        pattern = re2.compile(expression, quiet)
    except re2.error as error:
        message = error.args[0].decode("utf-8", "replace") if error.args else ""
        raise ValueError(message.partition(":")[0]) from error
    matches: Callable[[str], object] = pattern.fullmatch
    if pattern.groups:
        alone = re2.Set.FullMatchSet(quiet)  # unlike a pattern, a set of one expression does not capture named groups
        alone.Add(expression)
        alone.Compile()
        matches = alone.Match
    return matches


def last_lookup_ms(group: ConsumerGroup) -> int:
    """Returns when the group's expressions were last looked up. They are looked up together, so any of them will do."""
    return next((resolved.timestamp_ms for resolved in group.regexes.values()), NEVER)


def last_version(group: ConsumerGroup) -> int:
    """Returns the version of the metadata that the group's expressions were last looked up in."""
    return next((resolved.version for resolved in group.regexes.values()), 0)
