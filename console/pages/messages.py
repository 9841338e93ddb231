"""The records of a topic: from a place onwards, or the newest; of some partitions, with a filter, a page at a time."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import typer

from ottla.commands.log.dump.schemas import TOPICS
from ottla.commands.positions import Kind, Position, Span, parse_position
from ottla.console.ask import Answer, Ask, Page
from ottla.console.errors import BadInput
from ottla.console.records.filters import FIELDS, Filter, filter_of
from ottla.console.records.reading import Read, Reader

DEFAULT_COUNT: Final = 50
MAX_COUNT: Final = 500
MAX_PARTITIONS: Final = 100
"""The most partitions that a page reads."""
_NUMBERS: Final = re.compile(r"\d{1,9}(?:\s*,\s*\d{1,9})*", re.ASCII)
_CURSOR: Final = re.compile(r"\d{1,9}\.\d{1,19}(?:-\d{1,9}\.\d{1,19})*", re.ASCII)
FORM: Final = ("from", "partition", "n", "uncommitted", *FIELDS)
"""The fields of the form."""


def messages(ask: Ask) -> Answer:
    """Shows records. `?from=` is where to begin (see commands/positions.py; the end, or nothing, shows the newest), `?at=` and
    `?before=` are where another page ended. What cannot be meant is said at its field."""
    topic = ask.source.topic(ask.args["topic"])
    known = {
        "topic": topic,
        "form": {name: ask.query.get(name, "") for name in FORM},
        "problem": None,
        "read": None,
        "is_tail": False,
        "is_decoded": topic.name in TOPICS,
        "command": None,
    }
    try:
        asked = asked_of(ask, topic.partitions)
        return Page("messages.html", {**known, **_shown_records(ask, topic.name, asked)})
    except BadInput as error:
        if error.field not in FORM:
            raise
        return Page("messages.html", {**known, "problem": error}, 400)


class Asked(NamedTuple):
    """The contents of the form: what it asks for."""

    place: Position
    most: int
    wanted: Filter
    chosen: Sequence[int]
    committed: bool
    is_choice: bool
    """True if these partitions were chosen, and are not just all."""

    @property
    def numbers(self) -> Sequence[int]:
        """The partitions that are read."""
        return self.chosen[:MAX_PARTITIONS]


def asked_of(ask: Ask, partitions: int) -> Asked:
    """Returns what the form asks for, of a topic with so many partitions. Raises BadInput."""
    count = ask.number("n", DEFAULT_COUNT, 1, MAX_COUNT, label="the number of records")
    try:
        place = parse_position(ask.text("from") or "end", "from")
    except typer.BadParameter as error:
        raise BadInput(f"from: {error.message}", "from") from None
    chosen = _partitions(ask.text("partition"), partitions)
    return Asked(place, count, filter_of(ask.query), chosen, ask.text("uncommitted") != "1", bool(ask.text("partition")))


def _shown_records(ask: Ask, topic: str, asked: Asked) -> dict[str, Any]:
    """Returns what the page shows of the records."""
    place, count, wanted, numbers = asked.place, asked.most, asked.wanted, asked.numbers
    with Reader(ask.source.cluster, ask.source.admin, topic, committed=asked.committed, clock=time.monotonic) as reader:
        have = reader.spans(numbers)
        at, before = cursor_of(ask.text("at"), "at", have), cursor_of(ask.text("before"), "before", have)
        is_newest = place.kind in {Kind.END, Kind.TAIL} and not at
        if is_newest:
            ends = before or {number: span.end for number, span in have.items()}
            number_of = place.number if place.kind is Kind.TAIL and not before else count
            read = reader.newest(ends, have, min(number_of or count, MAX_COUNT), wanted)
        else:
            read = reader.onwards(at or reader.resolve(place, have), have, count, wanted)
    return {
        "read": read,
        "is_newest": is_newest,
        "more": _more(ask, read, is_newest=is_newest),
        "progress": _progress(read, have, is_newest=is_newest),
        "left_out": len(asked.chosen) - len(numbers),
        "offline": len(numbers) - len(have),
        "held": sum(span.end - span.begin for span in have.values()),
        "is_filtered": bool(wanted),
        "command": consume_command(ask.source.bootstrap, topic, asked),
    }


def _more(ask: Ask, read: Read, *, is_newest: bool) -> str | None:
    """Returns the address of the next page, or None at the end."""
    if not read.has_more:
        return None
    cursor = cursor_text(read.next)
    return ask.link(before=cursor, at=None) if is_newest else ask.link(at=cursor, before=None)


def _progress(read: Read, have: Mapping[int, Span], *, is_newest: bool) -> int:
    """Returns how many percent of the offsets lie behind, in the direction that is read."""
    held = sum(have[number].end - have[number].begin for number in read.next)
    left = sum(offset - have[number].begin if is_newest else have[number].end - offset for number, offset in read.next.items())
    return 100 if held <= 0 else min(100, max(0, 100 * (held - left) // held))


def consume_command(bootstrap: str, topic: str, asked: Asked) -> str:
    """Returns the command that reads in a shell from where the form says to the end, without its filter."""
    place = asked.place
    words = ["ottla", "consume", "--bootstrap", bootstrap]
    if asked.is_choice:
        words += [word for number in asked.chosen for word in ("--partition", str(number))]
    if place.kind is Kind.TIME:
        words += ["--from", f"@{place.number}"]
    elif place.kind in {Kind.END, Kind.TAIL}:
        words += ["--from", f"-{place.number or asked.most}"]
    else:
        words += ["--from", "beginning" if place.kind is Kind.BEGINNING else str(place.number)]
    if not asked.committed:
        words += ["--isolation", "uncommitted"]
    return shlex.join([*words, "--exit", "--", topic])


def _partitions(text: str, there: int) -> Sequence[int]:
    """Returns the partitions that the user chose, or all. Raises BadInput."""
    if not text:
        return range(there)
    if not _NUMBERS.fullmatch(text):
        raise BadInput("partition has to be numbers with commas between them, such as 0,2", "partition")
    numbers = sorted({int(word) for word in text.split(",")})
    if numbers[-1] >= there:
        raise BadInput(f"partition {numbers[-1]} is not there: the topic has {there}, counted from 0", "partition")
    return numbers


def cursor_text(offsets: Mapping[int, int]) -> str:
    """Returns where each partition goes on, as `cursor_of` reads it."""
    return "-".join(f"{number}.{offset}" for number, offset in offsets.items())


def cursor_of(text: str, name: str, have: Mapping[int, object]) -> dict[int, int]:
    """Returns where each partition goes on, as a link of another page says. Raises BadInput."""
    if not text:
        return {}
    if not _CURSOR.fullmatch(text):
        raise BadInput(f"{name} has to be as in the links of this page: partition.offset, with - between them")
    found = {int(number): int(offset) for number, _, offset in (word.partition(".") for word in text.split("-"))}
    return {number: offset for number, offset in found.items() if number in have}
