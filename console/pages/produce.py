"""Sends one record that was typed into a form."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, Final

from ottla.commands.client import is_text
from ottla.commands.output import Failure
from ottla.console import changes
from ottla.console.ask import Answer, Ask, BadInput, Page, Redirect, whole
from ottla.console.rendering import segment
from ottla.console.source import TopicSummary

MAX_VALUE_BYTES: Final = 1_048_576
_FIELDS: Final = ("partition", "key", "value", "no_value", "as_hex", "headers")


def form(ask: Ask) -> Answer:
    """Shows the empty form."""
    return _shown(ask.source.topic(ask.args["topic"]), {}, None, 200)


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
