"""The list of groups of every kind: searched, a page at a time. Members and lag are asked for those on the page only."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from ottla.commands.groups.rows import GroupState
from ottla.console.ask import Answer, Ask, Page, paged

SIZE: Final = 50


def trouble(state: GroupState, offline: Set[str]) -> str | None:
    """Returns what is wrong with a group at first sight; the rest takes a look of its own (group_why.py). `offline` are topics
    with partitions that have no leader."""
    if topics := sorted({one.partition.topic for one in state.offsets} & offline):
        return f"{topics[0]} is offline"
    return "no member" if state.total_lag > 0 and not state.members else None


def groups(ask: Ask) -> Answer:
    """Shows the groups whose names contain `?q=`, of one kind (`?kind=`) and in one state (`?state=`) if these are given."""
    words, kind, state = ask.text("q").lower(), ask.text("kind"), ask.text("state")
    known = ask.source.groups()
    found = [
        one
        for name, one in sorted(known.by_name.items())
        if words in name.lower() and kind in {"", one.kind} and state in {"", one.state}
    ]
    page = paged(ask, found, SIZE)
    states = ask.source.states([one.name for one in page.shown])
    offline = {topic.name for topic in ask.source.summary().topics.values() if topic.without_leader}
    return Page(
        "groups.html",
        {
            "page": page,
            "states": states.by_name,
            "trouble": {name: trouble(one, offline) for name, one in states.by_name.items()},
            "notes": (*known.notes, *states.notes),
            "q": ask.text("q"),
            "kind": kind,
            "state": state,
            "kinds": sorted({one.kind for one in known.by_name.values()}),
            "all_states": sorted({one.state for one in known.by_name.values()}),
        },
    )
