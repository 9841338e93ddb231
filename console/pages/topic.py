"""One topic: its partitions with leaders, replicas, offsets and sizes, a page at a time; and its settings."""

from __future__ import annotations

from typing import Final

from ottla.commands.config_rows import Kind, own
from ottla.commands.topic_rows import total
from ottla.console.ask import Answer, Ask, Page, paged

SIZE: Final = 200


def topic(ask: Ask) -> Answer:
    """Shows the partitions."""
    summary = ask.source.topic(ask.args["topic"])
    page = paged(ask, range(summary.partitions), SIZE)
    partitions, notes = ask.source.partitions(summary.name, page.shown)
    return Page(
        "topic.html",
        {
            "topic": summary,
            "page": page,
            "partitions": partitions,
            "notes": notes,
            "records": total(one.offsets_held for one in partitions),
            "size_bytes": total(one.size_bytes for one in partitions),
            "is_movable": len(ask.source.summary().nodes) > 1,
            "is_all": len(partitions) == summary.partitions,
        },
    )


def settings(ask: Ask) -> Answer:
    """Shows the topic's settings: those that were set for it first, then the others, with where each value comes from."""
    summary = ask.source.topic(ask.args["topic"])
    entries = ask.source.settings(Kind.TOPIC, summary.name)
    mine = own(Kind.TOPIC, entries)
    others = [entry for entry in entries if entry not in mine]
    return Page("topic_settings.html", {"topic": summary, "mine": mine, "others": others})
