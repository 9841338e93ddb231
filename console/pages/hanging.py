"""Hanging transactions (KIP-664): open in a partition, known to no coordinator, so that nothing but this would ever end them."""

from __future__ import annotations

import time
from typing import Final

from ottla.commands.clients.partition import Partition
from ottla.commands.output import counted
from ottla.commands.positions import MAX_INT64
from ottla.commands.txn import LONGEST_S
from ottla.console.ask import Answer, Ask, Page, paged, whole
from ottla.console.pages.forms import Form, form_page, submit
from ottla.console.subjects import transactions as subject
from ottla.console.subjects.absent import or_why
from ottla.wire.batch import MAX_INT32

SIZE: Final = 100
MOST_TOPICS: Final = 500


def hanging(ask: Ask) -> Answer:
    """Shows those in topics whose names contain `?q=`, if their producers have written nothing for `?idle=` seconds."""
    words, idle_s = ask.text("q"), ask.number("idle", int(LONGEST_S), 0, 10**9)
    summary = ask.source.summary()
    topics = [one for one in summary.topics.values() if words.lower() in one.name.lower()]
    wanted = [one.name for one in topics if not one.without_leader]
    notes = []
    if offline := len(topics) - len(wanted):
        notes.append(f"{counted(offline, 'topic')} not looked at, since partitions there have no leader")
    if (more := len(wanted) - MOST_TOPICS) > 0:
        notes.append(f"{counted(more, 'more topic')} not looked at; search for some by name")
    before_ms = int((time.time() - idle_s) * 1000)
    found, why = or_why(lambda: subject.hanging(ask.source, wanted[:MOST_TOPICS], before_ms))
    values = {"page": paged(ask, found or [], SIZE), "why": why, "notes": notes, "q": words, "idle": idle_s}
    return Page("hanging.html", values)


def ask_to_abort(ask: Ask) -> Answer:
    """Shows what would be aborted: `?topic=`, `?partition=`, `?offset=`, `?producer=` and `?epoch=` say it."""
    return form_page(ask, _form(*_place(ask)))


def abort(ask: Ask) -> Answer:
    """Aborts it if the producer's id was typed."""
    where, producer, epoch, offset = _place(ask)
    what = f"abort hanging transaction of producer {producer} epoch {epoch} at offset {offset} of {str(where)!a}"

    def act() -> None:
        subject.abort_hanging(ask.source, where, producer, epoch, offset)

    return submit(ask, _form(where, producer, epoch, offset), what, act, "/transaction/hanging")


def _place(ask: Ask) -> tuple[Partition, int, int, int]:
    """Returns the partition, the producer's id and epoch, and the offset. Raises Missing, BadInput."""
    topic = ask.source.topic(ask.query.get("topic", ""))

    def number(name: str, most: int) -> int:
        return whole(ask.query.get(name, "").strip() or "none", name, 0, 0, most)

    where = Partition(topic.name, number("partition", topic.partitions - 1))
    return where, number("producer", MAX_INT64), number("epoch", MAX_INT32), number("offset", MAX_INT64)


def _form(where: Partition, producer: int, epoch: int, offset: int) -> Form:
    text = [
        f"This ends the transaction of producer {producer}, epoch {epoch}, that begins at offset {offset} of {where}, without "
        "its coordinator, which knows nothing of it. Its records stay in the log; readers of committed records never get them.",
    ]
    name, called = str(producer), "the producer's id"
    return Form("Abort a hanging transaction", text, "Abort", "/transaction/hanging", name=name, called=called)
