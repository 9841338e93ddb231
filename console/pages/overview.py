"""The first page: which cluster this is, whether it is well, and what is in it."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Page
from ottla.console.source import Groups

_MOST_TROUBLES: Final = 20


def _health(ask: Ask) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] | None = None if ask.inside is None else ask.inside.ask("health")
    except Failure as failure:
        return {"reasons": [f"the broker's health is not known: {failure}"]}
    return found


def overview(ask: Ask) -> Answer:
    """Shows the cluster's size, its topics that are not well, and its groups by kind and state."""
    summary = ask.source.summary()
    try:
        groups = ask.source.groups()
    except Failure as failure:
        groups = Groups({}, (f"groups are not known: {failure}",))
    troubles = [topic for topic in summary.topics.values() if not topic.is_well]
    kinds = Counter((one.kind, one.state) for one in groups.by_name.values())
    return Page(
        "overview.html",
        {
            "summary": summary,
            "group_count": len(groups.by_name),
            "kinds": [(kind, state, count) for (kind, state), count in sorted(kinds.items())],
            "troubles": troubles[:_MOST_TROUBLES],
            "more_troubles": max(0, len(troubles) - _MOST_TROUBLES),
            "under_replicated": sum(topic.under_replicated for topic in summary.topics.values()),
            "without_leader": sum(topic.without_leader for topic in summary.topics.values()),
            "notes": groups.notes,
            "health": _health(ask),
        },
    )
