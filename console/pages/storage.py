"""Log directories, with what is in them."""

from __future__ import annotations

from typing import Final

from ottla.console.ask import Answer, Ask, Page, paged, whole
from ottla.console.errors import Missing
from ottla.console.subjects import storage as subject
from ottla.console.subjects.absent import or_why
from ottla.wire.batch import MAX_INT32

SIZE: Final = 200


def directories(ask: Ask) -> Answer:
    """Shows the log directories of all brokers."""
    answer, why = or_why(lambda: subject.directories(ask.source))
    found, notes = answer or ([], [])
    return Page("directories.html", {"page": paged(ask, found, SIZE), "notes": notes, "why": why})


def directory(ask: Ask) -> Answer:
    """Shows what is in the directory `?path=` of `?broker=`, the largest first."""
    broker, path = whole(ask.text("broker"), "broker", -1, 0, MAX_INT32), ask.query.get("path", "")
    found, _ = subject.directories(ask.source, broker)
    for one in found:
        if one.path == path:
            replicas = sorted(one.replicas, key=lambda each: (-each.size_bytes, each.partition))
            return Page("directory.html", {"one": one, "page": paged(ask, replicas, SIZE)})
    raise Missing(f"Broker {broker} has no log directory {path}.")
