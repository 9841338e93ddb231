"""The list of groups of every kind: searched, a page at a time. Members and lag are asked for those on the page only."""

from __future__ import annotations

from typing import Final

from ottla.console.ask import Answer, Ask, Page, paged

SIZE: Final = 50


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
    return Page(
        "groups.html",
        {
            "page": page,
            "states": states.by_name,
            "notes": (*known.notes, *states.notes),
            "q": ask.text("q"),
            "kind": kind,
            "state": state,
            "kinds": sorted({one.kind for one in known.by_name.values()}),
            "all_states": sorted({one.state for one in known.by_name.values()}),
        },
    )
