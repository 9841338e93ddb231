"""The page about how fast a topic grows, and how a group keeps up: from offsets at each look, since the page was opened."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.console.ask import Answer, Ask, Page
from ottla.console.cluster.history import Sample, rates
from ottla.console.rendering.charts import Chart, Point, chart


def of_topic(ask: Ask) -> Answer:
    """Shows how many offsets a second the topic's partitions got together."""
    topic = ask.source.topic(ask.args["topic"])
    ends, notes = ask.source.end_offsets(topic.name)
    samples = ask.source.history.add(("topic", topic.name, len(ends)), {"end": sum(ends.values())})
    made = [_rates("Records produced", samples, [("records", "end")])]
    return Page("topic_rates.html", {"topic": topic, "charts": _drawn(made), "samples": samples, "notes": notes})


def of_group(ask: Ask) -> Answer:
    """Shows the group's lag, and how fast its topics grow and it commits."""
    group, notes = ask.source.state(ask.query.get("id", ""))
    known = [one for one in group.offsets if one.committed is not None and one.end_offset is not None]
    values = {
        "end": sum(one.end_offset or 0 for one in known),
        "committed": sum(one.committed or 0 for one in known),
        "lag": sum(one.lag or 0 for one in known),
    }
    samples = ask.source.history.add(("group", group.name, frozenset(one.partition for one in known)), values)
    made = [
        chart("Lag", "offsets", [("lag", [Point(one.time_ms, max(0, one.values["lag"])) for one in samples])]),
        _rates("Produced and committed", samples, [("produced", "end"), ("committed", "committed")]),
    ]
    return Page("group_rates.html", {"group": group, "charts": _drawn(made), "samples": samples, "notes": notes})


def _rates(title: str, samples: Sequence[Sample], lines: Sequence[tuple[str, str]]) -> Chart | None:
    return chart(title, "offsets/s", [(name, [Point(*one) for one in rates(samples, of)]) for name, of in lines])


def _drawn(charts: Sequence[Chart | None]) -> list[Chart]:
    return [one for one in charts if one is not None]
