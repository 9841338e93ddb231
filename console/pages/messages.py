"""The records of a topic: from a place onwards, or the newest; of some partitions, with a filter, a page at a time."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.commands.positions import Kind, Position, parse_position
from ottla.console.ask import Answer, Ask, BadInput, Page
from ottla.console.reading import Filter, Read, Reader

DEFAULT_COUNT: Final = 50
MAX_COUNT: Final = 500
MAX_PARTITIONS: Final = 100
"""How many partitions a page reads at most."""
_NUMBERS: Final = re.compile(r"\d{1,9}(?:\s*,\s*\d{1,9})*", re.ASCII)
_CURSOR: Final = re.compile(r"\d{1,9}\.\d{1,19}(?:-\d{1,9}\.\d{1,19})*", re.ASCII)
NEWEST: Final = Position(Kind.END)


def messages(ask: Ask) -> Answer:
    """Shows records. `?from=` is where to begin (see commands/positions.py; the end, or nothing, shows the newest), `?at=` and
    `?before=` are where another page ended."""
    topic = ask.source.topic(ask.args["topic"])
    count = ask.number("n", DEFAULT_COUNT, 1, MAX_COUNT)
    place = parse_position(ask.text("from") or "end", "from")
    wanted = Filter(ask.query.get("key", "").encode(), ask.query.get("value", "").encode())
    chosen = _partitions(ask.text("partition"), topic.partitions)
    numbers = chosen[:MAX_PARTITIONS]
    committed = ask.text("uncommitted") != "1"
    with Reader(ask.source.cluster, ask.source.admin, topic.name, committed=committed, clock=time.monotonic) as reader:
        have = reader.spans(numbers)
        at, before = _cursor(ask.text("at"), "at", have), _cursor(ask.text("before"), "before", have)
        is_newest = place.kind in {Kind.END, Kind.TAIL} and not at
        if is_newest:
            ends = before or {number: span.end for number, span in have.items()}
            number_of = place.number if place.kind is Kind.TAIL and not before else count
            read = reader.newest(ends, have, min(number_of or count, MAX_COUNT), wanted)
        else:
            read = reader.onwards(at or reader.resolve(place, have), have, count, wanted)
    return Page(
        "messages.html",
        {
            "topic": topic,
            "read": read,
            "is_newest": is_newest,
            "more": _more(ask, read, is_newest=is_newest),
            "left_out": len(chosen) - len(numbers),
            "offline": len(numbers) - len(have),
            "held": sum(span.end - span.begin for span in have.values()),
            "form": {name: ask.query.get(name, "") for name in ("from", "partition", "key", "value", "n", "uncommitted")},
            "is_filtered": bool(wanted),
        },
    )


def _more(ask: Ask, read: Read, *, is_newest: bool) -> str | None:
    """Returns the address of the next page, or None at the end."""
    if not read.has_more:
        return None
    cursor = "-".join(f"{number}.{offset}" for number, offset in read.next.items())
    return ask.link(before=cursor, at=None) if is_newest else ask.link(at=cursor, before=None)


def _partitions(text: str, there: int) -> Sequence[int]:
    """Returns the partitions that the user chose, or all. Raises BadInput."""
    if not text:
        return range(there)
    if not _NUMBERS.fullmatch(text):
        raise BadInput("partition has to be numbers with commas between them, such as 0,2")
    numbers = sorted({int(word) for word in text.split(",")})
    if numbers[-1] >= there:
        raise BadInput(f"partition {numbers[-1]} is not there: the topic has {there}, counted from 0")
    return numbers


def _cursor(text: str, name: str, have: Mapping[int, object]) -> dict[int, int]:
    """Returns where each partition goes on, as a link of another page says. Raises BadInput."""
    if not text:
        return {}
    if not _CURSOR.fullmatch(text):
        raise BadInput(f"{name} has to be as in the links of this page: partition.offset, with - between them")
    found = {int(number): int(offset) for number, _, offset in (word.partition(".") for word in text.split("-"))}
    return {number: offset for number, offset in found.items() if number in have}
