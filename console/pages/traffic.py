"""Charts of what goes in and out, for the overview: of the broker that runs the console, or by the offsets of any cluster.

There is one look each time the page is made, and the history of these (history.py) is since it was opened first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.commands.output import Failure
from ottla.console.ask import Ask
from ottla.console.cluster.history import Sample, rates
from ottla.console.rendering.charts import Chart, Point, chart

WIDTH: Final = 520
"""The width of a chart, in its own units: two stand side by side where there is room."""
_INSIDE: Final = (
    ("Records in", "records/s", (("records", "records_in"),)),
    ("Bytes in and out", "bytes/s", (("in", "bytes_in"), ("out", "bytes_out"))),
    ("Requests", "requests/s", (("requests", "requests"),)),
)
_OUTSIDE: Final = (("Records in", "offsets/s", (("records", "offsets"),)),)


class Traffic(NamedTuple):
    """`is_inside` says that it is the broker's own count, and `samples` are the looks; `notes` say what is not known."""

    is_inside: bool
    charts: Sequence[Chart]
    samples: Sequence[Sample]
    notes: Sequence[str]


def of_broker(ask: Ask, counted: Mapping[str, Any], apis: Sequence[Mapping[str, Any]] | None) -> Traffic:
    """Returns the traffic of the broker that runs the console, by what it has counted since it started: records, bytes, and, if
    it counts them, requests by API."""
    values = {name: counted[name] for name in ("records_in", "bytes_in", "bytes_out")}
    if apis is not None:
        values["requests"] = sum(one["requests"] for one in apis)
    samples = ask.source.history.add("traffic of the broker", values)
    return Traffic(True, _charts(_INSIDE, samples), samples, ())


def of_cluster(ask: Ask) -> Traffic:
    """Returns what any cluster tells of its traffic: by how much the end offsets of all topics but Kafka's own rise. They may be
    ten thousand, and are not asked for if another look would count as the last one."""
    history, key = ask.source.history, "traffic of the cluster"
    samples, notes = history.recent(key), list[str]()
    if samples is None:
        try:
            risen, notes = ask.source.risen()
        except Failure as failure:
            risen, notes = None, [f"what is produced is not known: {failure}"]
        if risen is None:
            return Traffic(False, (), (), notes)
        samples = history.add(key, {"offsets": risen})
    return Traffic(False, _charts(_OUTSIDE, samples), samples, notes)


def _charts(wanted: Sequence[tuple[str, str, Sequence[tuple[str, str]]]], samples: Sequence[Sample]) -> list[Chart]:
    drawn = [
        chart(title, unit, [(name, [Point(*one) for one in rates(samples, of)]) for name, of in lines], width=WIDTH)
        for title, unit, lines in wanted
    ]
    return [one for one in drawn if one is not None]
