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
    stable, more = ask.source.last_stable(summary.name, page.shown)
    return Page(
        "topic.html",
        {
            "topic": summary,
            "page": page,
            "partitions": partitions,
            "stable": {one.number: _up_to(stable.get(one.number), one.end_offset) for one in partitions},
            "notes": [*notes, *more],
            "records": total(one.offsets_held for one in partitions),
            "size_bytes": total(one.size_bytes for one in partitions),
            "is_movable": len(ask.source.summary().nodes) > 1,
            "is_all": len(partitions) == summary.partitions,
        },
    )


def _up_to(last_stable: int | None, high_watermark: int | None) -> int | None:
    """Returns the last stable offset, which was asked for later: what came in between does not count."""
    return last_stable if last_stable is None or high_watermark is None else min(last_stable, high_watermark)


def settings(ask: Ask) -> Answer:
    """Shows the topic's settings: those that were set for it first, then the others, with where each value comes from."""
    summary = ask.source.topic(ask.args["topic"])
    entries = ask.source.settings(Kind.TOPIC, summary.name)
    mine = own(Kind.TOPIC, entries)
    others = [entry for entry in entries if entry not in mine]
    return Page("topic_settings.html", {"topic": summary, "mine": mine, "others": others})
