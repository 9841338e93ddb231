"""The producers that the partitions of a topic remember."""

from __future__ import annotations

from typing import Final

from ottla.console.ask import Answer, Ask, Page, paged, whole
from ottla.console.subjects import transactions as subject
from ottla.console.subjects.absent import or_why

PARTITIONS: Final = 200
"""The most partitions that a page asks about."""
SIZE: Final = 200


def producers(ask: Ask) -> Answer:
    """Shows the producers of the first so many partitions, or of `?partition=`."""
    topic = ask.source.topic(ask.args["topic"])
    only = whole(ask.text("partition"), "partition", -1, 0, topic.partitions - 1)
    numbers = range(topic.partitions) if only < 0 else range(only, only + 1)
    found, why = or_why(lambda: subject.producers(ask.source, topic.name, numbers[:PARTITIONS]))
    values = {"topic": topic, "page": paged(ask, found or [], SIZE), "why": why, "partition": "" if only < 0 else str(only)}
    return Page("producers.html", values | {"left_out": max(0, len(numbers) - PARTITIONS)})
