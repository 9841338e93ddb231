"""Sends one record that was typed into a form."""

from __future__ import annotations

import binascii
import re
import time
from collections.abc import Mapping
from typing import Any, Final

from ottla.commands.clients.client import is_text
from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Page, Redirect, whole
from ottla.console.cluster import changes
from ottla.console.cluster.source import TopicSummary
from ottla.console.errors import BadInput, Missing
from ottla.console.records.reading import Reader, Record
from ottla.console.rendering.templates import segment

MAX_VALUE_BYTES: Final = 1_048_576
MAX_AGAIN_BYTES: Final = 262_144
"""The size of the largest record that is filled into the form."""
_PLACE: Final = re.compile(r"\d{1,9}\.\d{1,19}", re.ASCII)
_FIELDS: Final = ("partition", "key", "value", "no_value", "as_hex", "headers")


def form(ask: Ask) -> Answer:
    """Shows the empty form, or with `?again=` the record at that partition and offset, to be sent again."""
    topic = ask.source.topic(ask.args["topic"])
    again = ask.text("again")
    return _shown(topic, _filled(ask, topic, again) if again else {}, None, 200)


def _filled(ask: Ask, topic: TopicSummary, again: str) -> dict[str, str]:
    """Returns the fields of a form that would send a record again. Raises BadInput, Missing."""
    if not _PLACE.fullmatch(again):
        raise BadInput("again has to be partition.offset, such as 0.17")
    number, offset = map(int, again.split("."))
    if number >= topic.partitions:
        raise Missing(f"Topic {topic.name} has no partition {number}.")
    with Reader(ask.source.cluster, ask.source.admin, topic.name, committed=False, clock=time.monotonic) as reader:
        have = reader.spans([number])
        found = reader.one(number, offset, have[number]) if number in have else None
    if found is None or found.offset != offset:
        raise Missing(f"Partition {number} has no record at offset {offset}.")
    return fields_of(found)


def fields_of(record: Record) -> dict[str, str]:
    """Returns the form's fields that `record_of` makes this record of. Raises BadInput for one that a form cannot hold."""
    key, value = record.key or b"", record.value or b""
    if len(key) + len(value) > MAX_AGAIN_BYTES:
        raise BadInput(f"The record is larger than {MAX_AGAIN_BYTES:,} bytes; save it, and send it with ottla produce")
    if record.key == b"" or not all(_is_line(name, data) for name, data in record.headers or ()) or record.headers is None:
        raise BadInput(
            "The record has headers, or an empty key, that a form cannot hold; use ottla consume --json and ottla produce --json"
        )
    as_hex = not (_is_typed(key) and _is_typed(value))
    return {
        "partition": str(record.partition),
        "key": key.hex() if as_hex else key.decode(),
        "value": value.hex() if as_hex else value.decode(),
        "no_value": "1" if record.value is None else "",
        "as_hex": "1" if as_hex else "",
        "headers": "\n".join(f"{name}={(data or b'').decode()}" for name, data in record.headers),
    }


def _is_typed(data: bytes) -> bool:
    """Returns whether a field of a form gives the bytes back as they are: it has no NUL and only one kind of line end."""
    try:
        return not set("\r\0") & set(data.decode())
    except UnicodeDecodeError:
        return False


def send(ask: Ask) -> Answer:
    """Sends the record and goes to it; if that cannot be, the form is shown again and says why."""
    topic = ask.source.topic(ask.args["topic"])
    try:
        record = record_of(topic, ask.form)
        partition, offset = changes.send(ask.source, record)
    except (BadInput, Failure) as error:
        ask.audit(f"produce to {topic.name!a}: {'refused' if isinstance(error, BadInput) else 'failed'}: {error}")
        return _shown(topic, ask.form, str(error), 400)
    sizes = f"key {len(record.key or b'')} B, value {len(record.value or b'')} B"
    ask.audit(f"produce to {topic.name!a} partition {partition} offset {offset} ({sizes}): done")
    return Redirect(f"/topics/{segment(topic.name)}/{partition}/{offset}")


def record_of(topic: TopicSummary, given: Mapping[str, str]) -> changes.NewRecord:
    """Returns the record that the form describes; a blank key is none. Raises BadInput."""
    partition = whole(given.get("partition", ""), "partition", -1, 0, topic.partitions - 1)
    as_hex = given.get("as_hex") == "1"
    key = _bytes(given.get("key", ""), "key", as_hex=as_hex) or None
    value = None if given.get("no_value") == "1" else _bytes(given.get("value", ""), "value", as_hex=as_hex)
    headers = []
    for line in given.get("headers", "").splitlines():
        name, equals, text = line.partition("=")
        if not line.strip():
            continue
        if not name.strip() or not equals or "\0" in name or not is_text(line):
            raise BadInput("headers: each line has to be name=value")
        headers.append((name.strip(), text.encode()))
    return changes.NewRecord(topic.name, None if partition < 0 else partition, key, value, headers)


def _is_line(name: str, data: bytes | None) -> bool:
    """Returns whether a header can be a line `name=value`."""
    if data is None or not _is_typed(data) or not name or name != name.strip() or "=" in name:
        return False
    return len(f"{name}={data.decode()}|".splitlines()) == 1


def _bytes(text: str, name: str, *, as_hex: bool) -> bytes:
    try:
        data = binascii.unhexlify("".join(text.split())) if as_hex else text.replace("\r\n", "\n").encode()
    except (ValueError, UnicodeError):
        raise BadInput(f"{name} has to be pairs of hexadecimal digits" if as_hex else f"{name} has to be text") from None
    if len(data) > MAX_VALUE_BYTES:
        raise BadInput(f"{name} is larger than {MAX_VALUE_BYTES:,} bytes")
    return data


def _shown(topic: TopicSummary, given: Mapping[str, str], problem: str | None, status: int) -> Page:
    values: dict[str, Any] = {"topic": topic, "form": {name: given.get(name, "") for name in _FIELDS}, "problem": problem}
    return Page("produce.html", values, status)
