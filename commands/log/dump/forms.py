"""The forms in which `ottla log dump` reads keys and values that belong to no schema: as text, or as a number that a serializer
wrote.

The forms are those of Java's serializers: big-endian numbers of a fixed length. Bytes of another length raise Undecodable.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import Any, Final

from ottla.commands.log.dump.schemas import Decoder, Undecodable
from ottla.commands.record_text import Encoding, bytes_to_json
from ottla.wire.records import Record


class Form(StrEnum):
    """The values of `--key-decoder` and `--value-decoder`."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"
    SHORT = "short"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"


_NUMBERS: Final = {
    Form.SHORT: struct.Struct(">h"),
    Form.INTEGER: struct.Struct(">i"),
    Form.LONG: struct.Struct(">q"),
    Form.FLOAT: struct.Struct(">f"),
    Form.DOUBLE: struct.Struct(">d"),
    Form.BOOLEAN: struct.Struct(">?"),
}
_ENCODINGS: Final = {Form.TEXT: Encoding.UTF8, Form.HEX: Encoding.HEX, Form.BASE64: Encoding.BASE64}


def decoder_of_forms(key: Form, value: Form) -> Decoder:
    """Returns a decoder that reads keys and values in these forms."""

    def decode(record: Record) -> dict[str, Any]:
        return {"key": read(key, record.key, "key"), "value": read(value, record.value, "value")}

    return decode


def read(form: Form, data: bytes | None, what: str) -> Any:
    """Decodes the bytes. Raises Undecodable if they do not have this form."""
    if data is None:
        return None
    number = _NUMBERS.get(form)
    if number is None:
        return bytes_to_json(data, _ENCODINGS[form])
    if len(data) != number.size:
        raise Undecodable(f"a {what} of {len(data)} bytes is not of type {form}")
    return number.unpack(data)[0]
