"""Subscriptions by regular expression: checked, matched against the topics there are, and kept (KIP-848).

RE2, as Kafka has it: its time is linear in the text, whatever a client sends. An expression must match a topic's whole name. All
expressions of a group are looked up together, at most every ten seconds, so that new topics cost the group one rebalance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.errors import GroupError
from ottla.wire.errors import ErrorCode

LEAST_INTERVAL_MS: Final = 10_000
"""Between two lookups of one group."""
STEP: Final = 100
"""So many topics are matched before others have their turn: about a millisecond."""
NEVER: Final = -(2**63)

_REASONS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What RE2 says of an expression, and what its Java edition, which Kafka uses, says of it; the rest is the same."""


def check_regex(expression: str) -> None:
    """GroupError INVALID_REGULAR_EXPRESSION."""
    try:
        _compile(expression)
    except ValueError as error:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}.",
        ) from error


def match(expressions: Iterable[str], topics: Iterable[str]) -> Iterator[dict[str, frozenset[str]] | None]:
    """The topics that each expression matches; one that is no expression, which only a foreign log can have, matches none.

    In steps, for a thousand members may each bring an expression for ten thousand topics: None while there is more to do.
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
    """What gives None for a name that does not match. ValueError: why not."""
    import re2  # with the first group that needs it

    quiet = re2.Options()
    quiet.log_errors = False
    quiet.never_capture = True  # ten thousand empty groups took most of a second for each topic; nobody asks what they matched
    try:
        pattern = re2.compile(expression, quiet)
    except re2.error as error:
        said = error.args[0].decode("utf-8", "replace") if error.args else ""
        reason = said.partition(":")[0]
        raise ValueError(_REASONS.get(reason, reason)) from error
    if not pattern.groups:
        return pattern.fullmatch  # type: ignore[no-any-return]
    alone = re2.Set.FullMatchSet(quiet)  # groups with names are captured all the same, but not by a set of one expression
    alone.Add(expression)
    alone.Compile()
    return alone.Match  # type: ignore[no-any-return]


def last_lookup_ms(group: ConsumerGroup) -> int:
    """When the group's expressions were looked up; one stands for all."""
    return next((resolved.timestamp_ms for resolved in group.regexes.values()), NEVER)


def last_version(group: ConsumerGroup) -> int:
    """The version of the metadata that they were looked up in."""
    return next((resolved.version for resolved in group.regexes.values()), 0)
