"""The brokers, and the settings of one of them."""

from __future__ import annotations

from typing import Final

from ottla.commands.config_rows import Kind, own
from ottla.console.ask import Answer, Ask, Page, paged, whole
from ottla.console.errors import Missing
from ottla.wire.batch import MAX_INT32

SIZE: Final = 150


def brokers(ask: Ask) -> Answer:
    """Shows the brokers that the metadata name."""
    return Page("brokers.html", {"summary": ask.source.summary()})


def settings(ask: Ask) -> Answer:
    """Shows a broker's settings whose names contain `?q=`: those that somebody has set first, then the others, a page at a time.
    Secrets stay hidden, as the broker does not tell them."""
    number = whole(ask.args["broker"], "the number of a broker", 0, 0, MAX_INT32)
    nodes = {node.number: node for node in ask.source.summary().nodes}
    if number not in nodes:
        raise Missing(f"There is no broker {number}.")
    entries = ask.source.settings(Kind.BROKER, str(number))
    mine = own(Kind.BROKER, entries)
    words = ask.text("q").lower()
    found = [entry for entry in [*mine, *(entry for entry in entries if entry not in mine)] if words in entry.name.lower()]
    page = paged(ask, found, SIZE)
    shown = {
        "mine": [entry for entry in page.shown if entry in mine],
        "others": [entry for entry in page.shown if entry not in mine],
    }
    return Page("broker.html", {"node": nodes[number], "page": page, "q": ask.text("q"), **shown})
