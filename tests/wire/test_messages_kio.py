"""A second opinion on the messages: kio, an independent codec, at every version that it knows.

Kafka's own classes are the judge (test_messages_oracle.py); kio shows whether somebody else's reading of the
protocol arrives at the same bytes. Random entities of kio's go through our decode and encode. Values come from
hypothesis, with a fixed seed, so that a failure comes again.
"""

from __future__ import annotations

import importlib
import io
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import binary, from_type, register_type_strategy
from kio.serial import entity_writer
from kio.static.primitive import Records

from ottla.wire.api import APIS

EXAMPLES = 4
register_type_strategy(Records, binary(max_size=300).map(Records))
pytestmark = pytest.mark.oracle


def kio_entity(module: str, version: int, kind: str) -> type[Any] | None:
    """kio's class for one version of a request or a response; None where kio does not know it."""
    try:
        found = importlib.import_module(f"kio.schema.{module}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    wanted = module.replace("_", "") + kind
    entity: type[Any] = next(value for name, value in vars(found).items() if name.lower() == wanted)
    return entity


def compare(entity: type[Any], decode: Any, encode: Any) -> None:
    write = entity_writer(entity)

    @seed(20)
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(from_type(entity))
    def agree(message: Any) -> None:
        sink = io.BytesIO()
        write(sink, message)
        raw = sink.getvalue()
        decoded, end = decode(raw, 0)
        parts: list[bytes] = []
        encode(decoded, parts)
        assert end == len(raw)
        assert b"".join(parts) == raw

    agree()


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_version_that_kio_knows(key: int) -> None:
    api = APIS[key]
    ours = importlib.import_module(f"ottla.wire.messages.{api.module}")
    for kind in ("request", "response"):
        decode, encode = getattr(ours, f"DECODE_{kind.upper()}"), getattr(ours, f"ENCODE_{kind.upper()}")
        for version in decode:
            entity = kio_entity(api.module, version, kind)
            if entity is not None:
                compare(entity, decode[version], encode[version])


def test_kio_knows_most_of_it() -> None:
    known = [
        (api.module, version, kind)
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
        for kind in ("request", "response")
        if kio_entity(api.module, version, kind)
    ]
    assert len(known) > 400
