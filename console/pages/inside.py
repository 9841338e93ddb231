"""The page about the inside of the broker that runs this console: whether it is well, what it answers, who is connected, what is
open."""

from __future__ import annotations

from typing import Final

from ottla.console.ask import Answer, Ask, Page

SIZE: Final = 200


def inside(ask: Ask) -> Answer:
    """Shows the broker's state, each list with its first entries."""
    if ask.inside is None:
        return Page("without_inside.html", {"title": "Inside the broker"})
    question = ask.inside.ask
    return Page(
        "inside.html",
        {
            "who": question("who"),
            "health": question("health"),
            "traffic": question("traffic", limit=SIZE),
            "requests": question("requests"),
            "connected": question("connections", limit=SIZE),
            "open": question("open_transactions", limit=SIZE),
            "followers": question("followers", limit=SIZE),
        },
    )
