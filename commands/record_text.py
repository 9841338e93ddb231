"""Records as text: JSON lines that lose nothing, kcat's format strings, and bytes as hex or base64.

In JSON a record is one object on one line:

    {"topic": "t", "partition": 0, "offset": 3, "timestamp": 1795251600000, "key": "k", "value": "v", "headers": [["name", "v"]]}

Bytes are a string if they are UTF-8, else `{"base64": "..."}`; a user may ask for `{"base64": "..."}` or `{"hex": "..."}`
throughout. A missing key, value or timestamp is null, and so are headers that the client library could not decode. Everything
that is written can be read back; reading also accepts headers as an object, and times as text. `topic` and `offset` are ignored
then, since a record that is sent gets its own.

The tokens of a format:

| | | | |
|---|---|---|---|
| `%t` topic | `%p` partition | `%o` offset | `%T` timestamp in ms, -1 for none |
| `%k` key | `%K` its length in bytes, -1 for none | `%s` value | `%S` its length, -1 for none |
| `%h` headers as `name=value,name=value` | `%%` a percent sign | `\\n \\r \\t \\\\ \\xNN` | that byte |
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from ottla.commands.clients.client import is_text
from ottla.commands.output import note
from ottla.commands.positions import MAX_INT64, parse_time_ms

if TYPE_CHECKING:
    from confluent_kafka import Message

Headers = list[tuple[str, bytes | None]]
Formatter = Callable[["Message"], bytes]


class Encoding(StrEnum):
    """The form in which bytes are written."""

    UTF8 = "utf8"
    HEX = "hex"
    BASE64 = "base64"


class BadRecord(ValueError):
    """Raised for a line that does not describe a record."""


class NewRecord(NamedTuple):
    """A record to be sent. With `partition` None the key decides; with `timestamp_ms` None the time is now."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp_ms: int | None = None


# Bytes


def encoded(data: bytes, encoding: Encoding) -> bytes:
    if encoding is Encoding.HEX:
        return binascii.hexlify(data)
    return base64.b64encode(data) if encoding is Encoding.BASE64 else data


def bytes_to_json(data: bytes | None, encoding: Encoding = Encoding.UTF8) -> str | dict[str, str] | None:
    if data is None:
        return None
    if encoding is Encoding.UTF8:
        try:
            return data.decode()
        except UnicodeDecodeError:
            encoding = Encoding.BASE64
    return {encoding.value: encoded(data, encoding).decode("ascii")}


def bytes_from_json(value: object, what: str) -> bytes | None:
    """Returns the bytes of a JSON value. Raises BadRecord, which names `what`, if it has none of the forms."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and len(value) == 1:
            ((form, text),) = value.items()
            if form == Encoding.BASE64:
                return base64.b64decode(text, validate=True)
            if form == Encoding.HEX:
                return bytes.fromhex(text)
    except (ValueError, TypeError) as error:
        raise BadRecord(f"{what}: {error}") from None
    raise BadRecord(f'{what} must be a string, null, {{"base64": "..."}} or {{"hex": "..."}}')


# JSON


def json_formatter(key: Encoding, value: Encoding) -> Formatter:
    """Returns a formatter of records as lines of JSON."""

    def line(message: Message) -> bytes:
        timestamp_ms, headers = timestamp_of(message), headers_of(message)
        record = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": None if timestamp_ms < 0 else timestamp_ms,
            "key": bytes_to_json(message.key(), key),
            "value": bytes_to_json(message.value(), value),
            "headers": None if headers is None else [[name, bytes_to_json(text)] for name, text in headers],
        }
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"

    return line


_FIELDS: Final = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})


def record_from_json(line: bytes) -> NewRecord:
    """Returns the record that a line describes. Raises BadRecord with what is wrong."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadRecord("not a JSON object")
    if unknown := sorted(found.keys() - _FIELDS):
        raise BadRecord(f"unknown field {unknown[0]!r}; known are key, value, headers, partition and timestamp")
    return NewRecord(
        key=bytes_from_json(found.get("key"), "key"),
        value=bytes_from_json(found.get("value"), "value"),
        headers=_headers_from_json(found.get("headers")),
        partition=_whole(found.get("partition"), "partition", 2**31 - 1),
        timestamp_ms=_timestamp_from_json(found.get("timestamp")),
    )


def _headers_from_json(found: Any) -> Headers:
    if found is None:
        return []
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list):
        raise BadRecord("headers must be [[name, value], ...] or an object")
    headers: Headers = []
    for pair in pairs:
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise BadRecord("headers must be [[name, value], ...] or an object")
        if "\0" in pair[0] or not is_text(pair[0]):  # the client library would cut it off there, or end the process
            raise BadRecord(f"the header name {pair[0]!r} cannot be sent")
        headers.append((pair[0], bytes_from_json(pair[1], f"header {pair[0]!r}")))
    return headers


def _timestamp_from_json(found: object) -> int | None:
    if not isinstance(found, str):
        if found == 0:
            raise BadRecord("timestamp 0 cannot be sent: to the client library it means now")
        return _whole(found, "timestamp", MAX_INT64)
    time_ms = parse_time_ms(found)
    if time_ms is None or not 0 < time_ms <= MAX_INT64:
        raise BadRecord(
            f"timestamp {found!r} is not a time after 1970-01-01T00:00:00Z; write milliseconds since 1970 or 2026-11-21T09:00:00Z"
        )
    return time_ms


def _whole(found: object, what: str, high: int) -> int | None:
    if found is None:
        return None
    if type(found) is not int or not 0 <= found <= high:
        raise BadRecord(f"{what} must be a whole number from 0 to {high}")
    return found


# Formats


def line_formatter(key_delimiter: str | None, null: str, key: Encoding, value: Encoding) -> Formatter:
    """Returns a formatter of records as the value and a line end, after the key and a delimiter if one is given."""
    nothing = os.fsencode(null)
    between = None if key_delimiter is None else os.fsencode(key_delimiter)

    def line(message: Message) -> bytes:
        data = message.value()
        text = (nothing if data is None else encoded(data, value)) + b"\n"
        if between is None:
            return text
        data = message.key()
        return (nothing if data is None else encoded(data, key)) + between + text

    return line


_TOKEN: Final = re.compile(r"%(?P<token>.?)|\\(?P<escape>x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


def format_formatter(text: str, null: str, key: Encoding, value: Encoding) -> Formatter:
    """Returns a formatter like kcat's `-f`, which adds no line end of its own. Raises BadParameter for an unknown token."""
    tokens = _tokens(os.fsencode(null), key, value)
    parts: list[bytes | Formatter] = []
    at = 0
    for found in _TOKEN.finditer(text):
        parts.append(os.fsencode(text[at : found.start()]))
        at = found.end()
        token, escape = found["token"], found["escape"]
        if token == "%":
            parts.append(b"%")
        elif token is not None and token in tokens:
            parts.append(tokens[token])
        elif escape is not None and escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        elif escape is not None and len(escape) == 3:
            parts.append(bytes.fromhex(escape[1:]))
        else:
            raise typer.BadParameter(
                f"{found[0]} is unknown; known are %{' %'.join(tokens)} %% and \\n \\r \\t \\0 \\\\ \\xNN", param_hint="--format"
            )
    parts.append(os.fsencode(text[at:]))

    def formatted(message: Message) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(message) for part in parts])

    return formatted


def _tokens(null: bytes, key: Encoding, value: Encoding) -> dict[str, Formatter]:
    def text(data: bytes | None, encoding: Encoding) -> bytes:
        return null if data is None else encoded(data, encoding)

    return {
        "t": lambda message: (message.topic() or "").encode(),
        "p": lambda message: _number(message.partition()),
        "o": lambda message: _number(message.offset()),
        "k": lambda message: text(message.key(), key),
        "K": lambda message: _length(message.key()),
        "s": lambda message: text(message.value(), value),
        "S": lambda message: _length(message.value()),
        "T": lambda message: b"%d" % timestamp_of(message),
        "h": _headers_text,
    }


def _number(number: int | None) -> bytes:
    assert number is not None, "a record that was read has a partition and an offset"
    return b"%d" % number


def _length(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def _headers_text(message: Message) -> bytes:
    return b",".join(name.encode() + b"=" + (b"" if value is None else value) for name, value in headers_of(message) or ())


def timestamp_of(message: Message) -> int:
    """Returns the record's timestamp in ms since 1970; -1 for none."""
    kind, timestamp_ms = message.timestamp()
    return -1 if kind == 0 else timestamp_ms


def headers_of(message: Message) -> Headers | None:
    """Returns the headers; None, with a note, if the client library cannot read them: it decodes their names as UTF-8."""
    try:
        found: Any = message.headers()
    except (SystemError, UnicodeDecodeError):  # the first is how the second may arrive from C
        note(f"{message.topic()} [{message.partition()}] offset {message.offset()}: headers left out: a name is not UTF-8")
        return None
    return list(found or ())
