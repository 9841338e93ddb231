"""The brokers, and the settings of one of them."""

from __future__ import annotations

from ottla.commands.config_rows import Kind, own
from ottla.console.ask import Answer, Ask, Page, whole
from ottla.console.missing import Missing
from ottla.wire.batch import MAX_INT32


def brokers(ask: Ask) -> Answer:
    """Shows the brokers that the metadata name."""
    return Page("brokers.html", {"summary": ask.source.summary()})


def settings(ask: Ask) -> Answer:
    """Shows a broker's settings: those that somebody has set first. Secrets stay hidden, as the broker does not tell them."""
    number = whole(ask.args["broker"], "the number of a broker", 0, 0, MAX_INT32)
    nodes = {node.number: node for node in ask.source.summary().nodes}
    if number not in nodes:
        raise Missing(f"There is no broker {number}.")
    entries = ask.source.settings(Kind.BROKER, str(number))
    mine = own(Kind.BROKER, entries)
    others = [entry for entry in entries if entry not in mine]
    return Page("broker.html", {"node": nodes[number], "mine": mine, "others": others})
