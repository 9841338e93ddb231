"""Transactions: the list, the open ones first by age; one of them with what it holds back and who waits behind it; its abort."""

from __future__ import annotations

import time
from typing import Final

from ottla.commands.output import counted
from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.errors import BadInput, Missing
from ottla.console.pages.forms import Form, form_page, submit
from ottla.console.rendering.templates import segment
from ottla.console.subjects import transactions as subject
from ottla.console.subjects.absent import or_why

SIZE: Final = 100


def transactions(ask: Ask) -> Answer:
    """Shows the transactional ids whose names contain `?q=`; with `?state=open` only those with an open transaction."""
    words, state = ask.text("q").lower(), ask.text("state")
    if state not in {"", "open"}:
        raise BadInput("state has to be open, or nothing for all")
    answer, why = or_why(lambda: subject.transactions(ask.source))
    known = answer or []
    found = [one for one in known if words in one.name.lower() and (one.is_open or state != "open")]
    values = {"page": paged(ask, found, SIZE), "why": why, "q": ask.text("q"), "state": state, "now_ms": _now_ms()}
    return Page("transactions.html", values | {"open": sum(one.is_open for one in known), "known": len(known)})


def transaction(ask: Ask) -> Answer:
    """Shows the transactional id `?id=`, which may be any text."""
    one = _asked_transaction(ask)
    held = subject.held_back(ask.source, one) if one.is_open else []
    waiting, notes = subject.groups_behind(ask.source, held)
    if one.is_open and len(held) < len(one.partitions):
        notes = [f"{counted(len(one.partitions) - len(held), 'more partition')} not shown, or without a leader", *notes]
    values = {"one": one, "held": held, "waiting": waiting, "notes": notes, "now_ms": _now_ms()}
    return Page("transaction.html", values)


def ask_to_abort(ask: Ask) -> Answer:
    """Shows what would be aborted."""
    return form_page(ask, _form(_asked_transaction(ask)))


def abort(ask: Ask) -> Answer:
    """Aborts it if the transactional id was typed."""
    one = _asked_transaction(ask)
    what = f"abort transaction {one.name!a} of producer {one.producer_id} epoch {one.epoch}"
    return submit(ask, _form(one), what, lambda: subject.abort(ask.source, one), f"/transaction?id={segment(one.name)}")


def _asked_transaction(ask: Ask) -> subject.Transaction:
    one, why = or_why(lambda: subject.transaction(ask.source, ask.query.get("id", "")))
    if one is None:
        raise Missing(why or "There is no such transactional id.")
    return one


def _form(one: subject.Transaction) -> Form:
    text = [
        f"This aborts the transaction of {one.name} in {counted(len(one.partitions), 'partition')}, and fences its producer "
        f"({one.producer_id}, epoch {one.epoch}): if it runs still, it gets an error with its next request.",
        "Its records stay in the log; readers of committed records never get them.",
    ]
    back = f"/transaction?id={segment(one.name)}"
    return Form("Abort a transaction", text, "Abort", back, name=one.name, called="the transactional id")


def _now_ms() -> int:
    return int(time.time() * 1000)
