"""Every version of every message against Kafka's own classes: same bytes, same values, both directions.

Random messages go to one Java process as JSON and come back as bytes. We decode those and must find the values drawn, end where the bytes end, and encode
to the same bytes again, from bytes as from a stretch of a bytearray. Then what we encode is read and written by Kafka in turn.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from layouts import Layout, all_layouts
from random_messages import Drawer, differences
from wiregen import kafka

SAMPLES = 12  # a layout
pytestmark = pytest.mark.oracle


def test_every_layout_agrees_with_kafka() -> None:
    drawn = [(layout, Drawer(f"{layout.name} {k}").message(layout.message, layout.version)) for layout in all_layouts() for k in range(SAMPLES)]
    lines = [f"encode {kafka.java_class(l.message)} {l.version} {json.dumps(d)}" for l, d in drawn]
    answers = kafka.ask_kafka(lines=lines).splitlines()
    assert len(answers) == len(lines)
    refused = [f"{layout.name}: {answer}" for (layout, _), answer in zip(drawn, answers, strict=True) if answer.startswith("!")]
    assert not refused, f"{len(refused)} refused, first: {refused[:3]}"
    wrong = []
    for (layout, wanted), answer in zip(drawn, answers, strict=True):
        raw = bytes.fromhex(answer)
        wrong += [f"{layout.name}: {problem}" for problem in problems(layout, wanted, raw)]
    assert not wrong, f"{len(wrong)} differences, first: {wrong[:5]}"
    assert len(all_layouts()) == 733  # the whole of 4.4.0


def problems(layout: Layout, wanted: dict[str, Any], raw: bytes) -> list[str]:
    decoded, end = layout.decode(raw, 0)
    found = differences(layout.message.root, layout.version, wanted, decoded)
    if end != len(raw):
        found.append(f"ends at {end} of {len(raw)}")
    if layout.bytes(decoded) != raw:
        found.append("other bytes when encoded again")
    shared = bytearray(b"\xff" * 7 + raw + b"\xff" * 9)  # a receive buffer with something before and behind
    for buffer in (shared, memoryview(shared)):
        again, end = layout.decode(buffer, 7)
        if again != decoded or end != 7 + len(raw):
            found.append(f"{type(buffer).__name__}: decodes to something else")
    return found


def test_kafka_reads_what_we_write() -> None:
    """Fresh messages with only the defaults set, which Java's side of the first test never sends."""
    written = [(layout, layout.bytes(with_present_values(layout.kind(), layout))) for layout in all_layouts()]
    lines = [f"reread {kafka.java_class(l.message)} {l.version} {raw.hex()}" for l, raw in written]
    answers = kafka.ask_kafka(lines=lines).splitlines()
    wrong = [f"{l.name}: {answer}" for (l, raw), answer in zip(written, answers, strict=True) if answer != raw.hex()]
    assert not wrong, f"{len(wrong)} differences, first: {wrong[:5]}"


def with_present_values(message: Any, layout: Layout) -> Any:
    """Give fields that are None by default, but may not be null in this version, an empty value."""
    for f in layout.message.root.layout(layout.version)[0]:
        if f.none_is_default and layout.version not in f.nullable:
            setattr(message, f.name, [] if f.array else "" if f.type == "string" else b"")
    return message
