"""The first page: which cluster this is, whether it is well, what is in it, and what goes in and out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Page
from ottla.console.cluster.source import Groups
from ottla.console.pages.traffic import of_broker, of_cluster
from ottla.console.subjects import storage
from ottla.console.subjects.absent import or_why

_MOST_TROUBLES: Final = 20
_MOST_DIRECTORIES: Final = 20
_MOST_APIS: Final = 6
_MOST_ERRORS: Final = 6
EVERY_S: Final = 5
"""The seconds after which the page renews itself, with script."""


class Within(NamedTuple):
    """The facts that the broker that runs the console states about itself."""

    who: dict[str, Any]
    health: dict[str, Any]
    traffic: dict[str, Any]
    requests: dict[str, Any]


class Disks(NamedTuple):
    """The log directories: the first are those that are offline or nearly full. `why` is a sentence if the cluster shows none."""

    shown: Sequence[storage.Directory]
    more: int
    offline: int
    why: str | None
    notes: Sequence[str]


def _within(ask: Ask) -> tuple[Within | None, str | None]:
    """Returns what is known of the broker that runs the console, or why nothing is."""
    if ask.inside is None:
        return None, None
    question = ask.inside.ask
    try:
        return Within(question("who"), question("health"), question("traffic", limit=0), question("requests")), None
    except Failure as failure:
        return None, f"what is inside the broker is not known: {failure}"


def _disks(ask: Ask) -> Disks:
    try:
        answer, why = or_why(lambda: ask.source.kept("directories", lambda: storage.directories(ask.source, with_replicas=False)))
    except Failure as failure:
        return Disks((), 0, 0, None, [f"the log directories are not known: {failure}"])
    found, notes = answer or ([], [])
    order = sorted(found, key=lambda one: (one.problem is None, not one.is_nearly_full, one.broker, one.path))
    shown = order[:_MOST_DIRECTORIES]
    return Disks(shown, len(order) - len(shown), sum(one.problem is not None for one in found), why, notes)


def _groups(ask: Ask) -> Groups:
    try:
        return ask.source.groups()
    except Failure as failure:
        return Groups({}, (f"groups are not known: {failure}",))


def overview(ask: Ask) -> Answer:
    """Shows the cluster's size, its topics that are not well, its disks, its groups by kind and state, and its traffic; of the
    broker that runs the console, also since when it is up, how long requests take, and the errors it answers with."""
    summary, groups = ask.source.summary(), _groups(ask)
    within, problem = _within(ask)
    disks = _disks(ask)
    traffic = of_cluster(ask) if within is None else of_broker(ask, within.traffic, within.requests["apis"])
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
            "notes": [*groups.notes, *([problem] if problem else []), *disks.notes, *traffic.notes],
            "within": within,
            "apis": (within.requests["apis"] or [])[:_MOST_APIS] if within else [],
            "errors": within.requests.get("errors", [])[:_MOST_ERRORS] if within else [],
            "disks": disks,
            "traffic": traffic,
            "begun_ms": ask.source.begun_ms,
            "now_ms": time.time_ns() // 1_000_000,
            "every_s": EVERY_S,
        },
    )
