"""The records of Kafka's own topics as JSON, by the decoders of `ottla log dump`: shown and found by their fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.commands.log.dump.schemas import Schema, Undecodable, decoder_of
from ottla.console.rendering.text import Raw
from ottla.wire.records import Record

MAX_DECODED_BYTES: Final = 1 << 20
"""Larger records stay in hex."""


class Decoded(NamedTuple):
    """A key and a value as JSON; or, with the reason in `problem`, as the bytes that they were."""

    key: bytes | None
    value: bytes | None
    problem: str = ""


Decode = Callable[[bytes | None, bytes | None], Decoded]


def decode_of(topic: str) -> Decode | None:
    """Returns what decodes the records of this topic; None if it is not one of Kafka's own."""
    decoder = decoder_of(Schema.AUTO, topic)
    if decoder is None:
        return None

    def decode(key: bytes | None, value: bytes | None) -> Decoded:
        if len(key or b"") + len(value or b"") > MAX_DECODED_BYTES:
            return Decoded(_raw(key), _raw(value), "larger than 1 MiB")
        try:
            fields = decoder(Record(0, 0, key, value))
        except Undecodable as error:
            return Decoded(_raw(key), _raw(value), str(error))
        return Decoded(_json(fields["key"]), _json(fields["value"]))

    return decode


def _json(fields: object) -> bytes | None:
    return None if fields is None else json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _raw(data: bytes | None) -> bytes | None:
    return None if data is None else Raw(data)
