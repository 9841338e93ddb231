"""Partitions that move to other brokers: those under way with their progress; the form that has some move, with a look at the old
and the new replicas of each first; and the one that cancels.

What is moved is what was looked at: the second form carries the replicas of each partition before and after, and a partition that
has others by then is not moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.commands.output import Failure, counted
from ottla.commands.reassignments import Moving
from ottla.console.ask import Answer, Ask, Page, Redirect, paged, whole
from ottla.console.cluster.source import TopicSummary
from ottla.console.errors import BadInput, Missing
from ottla.console.pages.forms import Form, form_page, is_typed, submit
from ottla.console.subjects import reassignments as subject
from ottla.console.subjects.absent import or_why
from ottla.console.subjects.reassignments import Plan
from ottla.wire.batch import MAX_INT32

SIZE: Final = 100
MOST_PARTITIONS: Final = 2000
"""The most partitions that a form moves."""
MOST_SHOWN: Final = 20
ALONE: Final = "Only one broker is there, so no partition can move to another one."
_HOME: Final = "/broker/reassignments"
_FIELDS: Final = ("partitions", "to", "count", "rotate")
_OTHERS: Final = "plan has to be as this page wrote it; begin again"


def reassignments(ask: Ask) -> Answer:
    """Shows the partitions that move, and how far the replicas that come are."""
    found, why = or_why(lambda: subject.under_way(ask.source))
    page = paged(ask, found or [], SIZE)
    copies, notes = subject.copies(ask.source, page.shown) if page.shown else ({}, [])
    if why is None and not page.shown and _is_alone(ask):
        why = ALONE
    return Page("reassignments.html", {"page": page, "why": why, "copies": copies, "notes": notes})


def _is_alone(ask: Ask) -> bool:
    return len(ask.source.summary().nodes) < 2


class Change(NamedTuple):
    """The replicas of a partition before and after, the preferred leader first."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(one for one in self.after if one not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(one for one in self.before if one not in self.after)


Changes = Mapping[int, Change]


def form(ask: Ask) -> Answer:
    """Shows the form for the topic `?topic=`; with `?to=` also what would move."""
    if _is_alone(ask):
        return Page("reassignment_new.html", {"why": ALONE, "topic": None})
    if not ask.text("topic"):
        return Page("reassignment_new.html", {"why": None, "topic": None})
    topic = ask.source.topic(ask.text("topic"))
    if not ask.text("to"):
        return _shown(ask, ask.query, topic, {}, None)
    now = subject.replicas(ask.source, topic.name)
    chosen = chosen_of(ask.text("partitions"), len(now))
    if len(chosen) > MOST_PARTITIONS:
        raise BadInput(f"partitions: a form moves {MOST_PARTITIONS:,}, not {len(chosen):,}")
    brokers = _brokers(ask, ask.text("to"))
    count = ask.number("count", len(brokers), 1, len(brokers))
    plan = planned(chosen, brokers, count, rotate=ask.text("rotate") == "1")
    changes = {number: Change(now[number], to) for number, to in plan.items() if number in now and now[number] != to}
    notes = [*_notes_of_rest(len(chosen) - len(changes)), *_notes_of_moving(ask, topic, changes)]
    return _shown(ask, ask.query, topic, changes, None, notes)


def _notes_of_rest(count: int) -> list[str]:
    return [f"{counted(count, 'partition')} {'has' if count == 1 else 'have'} these replicas already"] if count else []


def _notes_of_moving(ask: Ask, topic: TopicSummary, changes: Changes) -> list[str]:
    moving = [
        one for one in subject.under_way(ask.source) if one.partition.topic == topic.name and one.partition.number in changes
    ]
    return [f"{one.partition} moves already, to {_words(one.after)}; this would take the place of that" for one in moving[:3]]


def chosen_of(text: str, there: int) -> Sequence[int]:
    """Returns the partitions that a text names, such as `0, 3-5`; all if it is empty. Raises BadInput."""
    if not text:
        return range(there)
    found: dict[int, None] = {}
    for word in text.replace(",", " ").split():
        low, dash, high = word.partition("-")
        first = whole(low or "none", "partitions", 0, 0, there - 1)
        found |= dict.fromkeys(range(first, whole(high or "none", "partitions", 0, first, there - 1) + 1 if dash else first + 1))
    return sorted(found)


def _brokers(ask: Ask, text: str) -> list[int]:
    """Returns the brokers that a text names. Raises BadInput for one that is not there, or is named twice."""
    there = [node.number for node in ask.source.summary().nodes]
    found = [whole(word, "brokers", 0, 0, MAX_INT32) for word in text.replace(",", " ").split()]
    if unknown := [one for one in found if one not in there]:
        raise BadInput(f"brokers: there is no broker {unknown[0]}; there are {_words(there)}")
    if len(set(found)) < len(found) or not found:
        raise BadInput("brokers: name each once")
    return found


def planned(chosen: Sequence[int], brokers: Sequence[int], count: int, *, rotate: bool) -> dict[int, tuple[int, ...]]:
    """Returns `count` of the brokers for each partition: the first ones, or beginning one further with each partition."""
    return {
        number: tuple(brokers[(at + (nth if rotate else 0)) % len(brokers)] for at in range(count))
        for nth, number in enumerate(chosen)
    }


def move(ask: Ask) -> Answer:
    """Has the partitions of the form move, if the topic's name was typed."""
    ask.source.changed()  # what is compared here is what there is now
    topic = ask.source.topic(ask.text("topic"))
    changes = plan_of(ask.form.get("plan", ""))
    what = f"move {counted(len(changes), 'partition')} of topic {topic.name!a} ({as_text(changes)})"
    if not is_typed(ask, topic.name):
        return _shown(ask, ask.form, topic, changes, f"Nothing was changed: what was typed is not {topic.name}.")
    now = subject.replicas(ask.source, topic.name)
    for number, change in changes.items():
        if now.get(number) != change.before:
            problem = (
                f"partition {number} has the replicas {_words(now[number])} by now" if number in now else "a partition has gone"
            )
            ask.audit(f"{what}: refused: {problem}")
            return _shown(ask, ask.form, topic, changes, f"Nothing was changed: {problem}; look at it again.")
    plan: Plan = {number: change.after for number, change in changes.items()}
    try:
        subject.move(ask.source, topic.name, plan)
    except Failure as failure:
        ask.audit(f"{what}: failed: {failure}")
        return _shown(ask, ask.form, topic, changes, str(failure))
    finally:
        ask.source.changed()
    ask.audit(f"{what}: done")
    return Redirect(_HOME)


def as_text(changes: Changes) -> str:
    """Returns what changes as the form carries it: `0:1,2:2,3` for partition 0 from 1, 2 to 2, 3."""
    return " ".join(f"{number}:{_joined(one.before)}:{_joined(one.after)}" for number, one in changes.items())


def _joined(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def plan_of(text: str) -> dict[int, Change]:
    """Returns what `as_text` wrote. Raises BadInput."""
    found: dict[int, Change] = {}
    for word in text.split():
        parts = word.split(":")
        if len(parts) != 3:
            raise BadInput(_OTHERS)
        before, after = (tuple(_number(one) for one in part.split(",") if one) for part in parts[1:])
        found[_number(parts[0])] = Change(before, after)
    if not found or len(found) > MOST_PARTITIONS or not all(one.after for one in found.values()):
        raise BadInput(_OTHERS)
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= MAX_INT32):
        raise BadInput(_OTHERS)
    return int(text)


def _words(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def _shown(
    ask: Ask, given: Mapping[str, str], topic: TopicSummary, changes: Changes, problem: str | None, notes: Sequence[str] = ()
) -> Page:
    sizes, more = subject.sizes(ask.source, topic.name, list(changes)) if changes else ({}, [])
    known = [sizes[number] * len(change.adding) for number, change in changes.items() if number in sizes]
    values: dict[str, Any] = {
        "why": None,
        "topic": topic,
        "brokers": [node.number for node in ask.source.summary().nodes],
        "given": {name: given.get(name, "") for name in _FIELDS},
        "is_previewed": bool(given.get("to", "").strip()),
        "rows": [(number, change, sizes.get(number)) for number, change in changes.items()],
        "to_copy": sum(known) if len(known) == len(changes) else None,
        "plan": as_text(changes),
        "problem": problem,
        "notes": [*notes, *more],
    }
    return Page("reassignment_new.html", values, 200 if problem is None else 400)


def ask_to_cancel(ask: Ask) -> Answer:
    """Shows what would stay: the partition `?partition=` of `?topic=`, or all that move of the topic."""
    return form_page(ask, _cancel_form(ask.query.get("topic", ""), _meant(ask)))


def cancel(ask: Ask) -> Answer:
    """Cancels it if the topic's name was typed."""
    moving = _meant(ask)
    topic = ask.query.get("topic", "")
    numbers = _words([one.partition.number for one in moving[:MOST_SHOWN]])
    what = f"cancel reassignment of topic {topic!a}, partitions {numbers}{' and more' if len(moving) > MOST_SHOWN else ''}"
    return submit(ask, _cancel_form(topic, moving), what, lambda: subject.cancel(ask.source, moving), _HOME)


def _meant(ask: Ask) -> list[Moving]:
    """Returns what moves of the topic and partition that are meant. Raises Missing, BadInput, Failure."""
    topic, number = ask.query.get("topic", ""), ask.number("partition", -1, 0, MAX_INT32)
    found, why = or_why(lambda: subject.under_way(ask.source))
    meant = [one for one in found or () if one.partition.topic == topic and number in {-1, one.partition.number}]
    if not meant:
        raise Missing(why or f"No such partition of topic {topic or '(empty name)'} moves; it may have arrived.")
    return meant


def _cancel_form(topic: str, moving: Sequence[Moving]) -> Form:
    text = ["The copies on the brokers that come are deleted, and the partitions stay with the replicas that they had."]
    text += [f"{one.partition}: from {_words(one.replicas)} back to {_words(one.before)}" for one in moving[:MOST_SHOWN]]
    if len(moving) > MOST_SHOWN:
        text.append(f"and {len(moving) - MOST_SHOWN:,} more")
    return Form("Cancel a reassignment", text, "Cancel the reassignment", _HOME, name=topic, called="the topic's name")
