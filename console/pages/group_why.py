"""The page about why a group is stuck: one verdict, what it was seen by, what would help; and what is left to be read, in records
and time.

The group is watched for some seconds before the page is shown. If the cluster takes longer to answer, or has to be watched for
longer, the page has what is known so far, and a link that asks for the rest. The rules are in commands/why/verdicts.py.
"""

from __future__ import annotations

from typing import Final

from ottla.commands.why.facts import WATCH_S
from ottla.commands.why.verdicts import judge
from ottla.console.ask import MAX_PAGE, Answer, Ask, Page, paged
from ottla.console.cluster.uncommitted import uncommitted

MOST_S: Final = 10
SIZE: Final = 100
MORE_S: Final = 1.5
"""A page waits so much longer than it watches."""


def why(ask: Ask) -> Answer:
    """Shows the verdict on the group `?id=`, after watching it for `?watch=` seconds."""
    name = ask.query.get("id", "")
    watch_s = ask.number("watch", round(WATCH_S), 0, MOST_S)
    number = ask.number("look", 0, 0, MAX_PAGE)
    gathering = ask.source.why(name, watch_s, None if ask.inside is None else ask.inside.ask, number)
    facts = gathering.wait(watch_s + MORE_S)
    going_on = None if gathering.is_over else ask.link(watch=watch_s, look=gathering.number)
    if facts is None:
        return Page("group_why_soon.html", {"name": name, "going_on": going_on})
    verdict = judge(facts)
    notes = [*facts.notes] if facts.has_inside else [*facts.notes, ask.without_inside]
    if verdict.reason == "no-member" and facts.kind != "share":
        notes += uncommitted(ask.source.summary().topics, [one.partition for one in facts.partitions])
    return Page(
        "group_why.html",
        {
            "name": name,
            "facts": facts,
            "going_on": going_on,
            "verdict": verdict,
            "page": paged(ask, facts.partitions, SIZE),
            "lag_ms": max((one.lag_ms for one in facts.partitions if one.lag_ms is not None), default=None),
            "notes": notes,
            "again": ask.link(watch=watch_s or round(WATCH_S), look=None, page=None),
            "longer": ask.link(watch=MOST_S, look=None, page=None),
        },
    )
