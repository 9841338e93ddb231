"""The live tail of a topic: what comes, as it comes, by server-sent events; without script, what has come by a link."""

from __future__ import annotations

import time
from typing import Final

from ottla.console.ask import Answer, Ask, Page, Stream
from ottla.console.errors import BadInput
from ottla.console.pages.messages import FORM, asked_of, cursor_of, cursor_text
from ottla.console.records.reading import Read, Reader
from ottla.console.records.tailing import ROWS_A_SECOND, Tail
from ottla.console.running.streams import Outlet

WAIT_MS: Final = 500
"""The time for which a broker may wait for records before it says that there are none; it answers at once when some come."""
MAX_SHOWN: Final = 500


def page(ask: Ask) -> Answer:
    """Shows the table that the script fills. Without script a link shows what has come since (`?at=`)."""
    topic = ask.source.topic(ask.args["topic"])
    known = {"topic": topic, "form": {name: ask.query.get(name, "") for name in FORM}, "is_tail": True, "problem": None}
    try:
        asked = asked_of(ask, topic.partitions)
    except BadInput as error:
        if error.field not in FORM:
            raise
        empty = {"problem": error, "read": None, "events": None, "again": None, "left_out": 0, "offline": 0}
        return Page("tail.html", {**known, **empty}, 400)
    numbers = asked.numbers
    with Reader(ask.source.cluster, ask.source.admin, topic.name, committed=asked.committed, clock=time.monotonic) as reader:
        have = reader.spans(numbers)
        ends = {number: span.end for number, span in have.items()}
        at = cursor_of(ask.text("at"), "at", have)
        read: Read | None = reader.onwards({**ends, **at}, have, MAX_SHOWN, asked.wanted) if at else None
    cursor = cursor_text(ends if read is None else read.next)
    return Page(
        "tail.html",
        {
            **known,
            "read": read,
            "again": ask.link(at=cursor),
            "events": f"{ask.path}/events{ask.link(at=cursor)}" if have else None,
            "rows_a_second": ROWS_A_SECOND,
            "left_out": len(asked.chosen) - len(numbers),
            "offline": len(numbers) - len(have),
        },
    )


def events(ask: Ask) -> Answer:
    """Returns the stream that begins at `?at=`, or where the browser was when its connection broke."""
    topic = ask.source.topic(ask.args["topic"])
    asked = asked_of(ask, topic.partitions)
    cursor = ask.resume or ask.text("at")
    cursor_of(cursor, "at", {})  # whether it can be meant

    def follow(outlet: Outlet) -> None:
        source = ask.source
        with Reader(
            source.cluster, source.admin, topic.name, committed=asked.committed, clock=time.monotonic, wait_ms=WAIT_MS, ahead=1
        ) as reader:
            have = reader.spans(asked.numbers)
            at = cursor_of(cursor, "at", have)
            starts = {number: min(max(at.get(number, span.end), span.begin), span.end) for number, span in have.items()}
            Tail(reader, asked.wanted, starts, time.monotonic).run(outlet)

    return Stream(follow)
