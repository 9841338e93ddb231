"""The list of topics: searched, sorted, a page at a time. Offsets, sizes and lag are asked for those on the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.cluster.source import TopicSummary
from ottla.console.errors import BadInput

SIZE: Final = 50
_BY: Final[dict[str, Callable[[TopicSummary], Any]]] = {
    "name": lambda topic: topic.name,
    "partitions": lambda topic: (topic.partitions, topic.name),
    "replicas": lambda topic: (topic.replicas, topic.name),
    "state": lambda topic: (topic.without_leader, topic.under_replicated, topic.name),
}


def topics(ask: Ask) -> Answer:
    """Shows the topics whose names contain `?q=`, without Kafka's own ones unless `?internal=1`, in the order of `?sort=`."""
    words, sort, internal = ask.text("q").lower(), ask.text("sort", "name"), ask.text("internal") == "1"
    if sort.removeprefix("-") not in _BY:
        raise BadInput(f"sort has to be one of {', '.join(_BY)}, with - in front for the other direction")
    found = [
        topic
        for topic in ask.source.summary().topics.values()
        if words in topic.name.lower() and (internal or not topic.is_internal)
    ]
    found.sort(key=_BY[sort.removeprefix("-")], reverse=sort.startswith("-"))
    page = paged(ask, found, SIZE)
    held, notes = ask.source.held([topic.name for topic in page.shown])
    furthest, more = ask.source.furthest({where: end for one in held.values() for where, end in one.ends.items()})
    return Page(
        "topics.html",
        {
            "page": page,
            "held": held,
            "furthest": furthest,
            "notes": [*notes, *more],
            "q": ask.text("q"),
            "internal": internal,
            "sort": sort,
        },
    )
