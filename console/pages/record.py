"""One record: everything about it, its key and value in full as far as a page can show them, and to be saved as bytes."""

from __future__ import annotations

import shlex
import time
from typing import Final

from ottla.commands.positions import MAX_INT64
from ottla.console.ask import Answer, Ask, Download, Page, whole
from ottla.console.errors import Missing
from ottla.console.records.decoding import decode_of
from ottla.console.records.reading import Reader, Record
from ottla.console.rendering.text import MAX_HEX_BYTES, MAX_SHOWN_BYTES, hex_lines
from ottla.wire.batch import MAX_INT32

PARTS: Final = ("key", "value")


def record(ask: Ask) -> Answer:
    """Shows the record at an offset, or says which is the next if there is none."""
    topic, number, offset, found = _asked_record(ask)
    is_there = found is not None and found.offset == offset
    decode = decode_of(topic) if is_there else None
    return Page(
        "record.html",
        {
            "topic": topic,
            "partition": number,
            "offset": offset,
            "record": found if is_there else None,
            "decoded": decode(found.key, found.value) if decode is not None and found is not None else None,
            "command": _consume_command(ask.source.bootstrap, topic, number, offset),
            "next": found,
            "max_shown": MAX_SHOWN_BYTES,
            "max_hex": MAX_HEX_BYTES,
            "hex_lines": hex_lines,
        },
        200 if is_there else 404,
    )


def download(ask: Ask) -> Answer:
    """Returns a key or a value as it is."""
    _, number, offset, found = _asked_record(ask)
    part = ask.args["part"]
    if part not in PARTS or found is None or found.offset != offset:
        raise Missing(f"Partition {number} has no {' or '.join(PARTS)} to save at offset {offset}.")
    data = found.key if part == "key" else found.value
    if data is None:
        raise Missing(f"The {part} of this record is null.")
    return Download(data, f"{part}.bin")


def _consume_command(bootstrap: str, topic: str, number: int, offset: int) -> str:
    """Returns the command that prints this record in a shell, with everything that belongs to it."""
    words = ["ottla", "consume", "--bootstrap", bootstrap, "--partition", str(number), "--from", str(offset), "--count", "1"]
    return shlex.join([*words, "--isolation", "uncommitted", "--json", "--", topic])


def _asked_record(ask: Ask) -> tuple[str, int, int, Record | None]:
    topic = ask.source.topic(ask.args["topic"])
    number = whole(ask.args["partition"], "partition", 0, 0, MAX_INT32)
    offset = whole(ask.args["offset"], "offset", 0, 0, MAX_INT64)
    if number >= topic.partitions:
        raise Missing(f"Topic {topic.name} has no partition {number}: it has {topic.partitions}, counted from 0.")
    with Reader(ask.source.cluster, ask.source.admin, topic.name, committed=False, clock=time.monotonic) as reader:
        have = reader.spans([number])
        if number not in have:
            raise Missing(f"Partition {number} of topic {topic.name} has no leader now, so it cannot be read.")
        return topic.name, number, offset, reader.one(number, offset, have[number])
