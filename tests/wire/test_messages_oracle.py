"""Every version of every message against Kafka's own classes: same bytes, same values.

Random messages go to one Java process as JSON and come back as bytes. We encode the same message to the same bytes,
decode those to the values drawn, and end where they end: from bytes, and from the middle of a receive buffer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from compat_tests.reference import messages
from tests.wire.layouts import Layout, all_layouts
from tests.wire.random_messages import Drawer, build, differences

SAMPLES = 12  # a layout
pytestmark = pytest.mark.oracle


def test_every_layout_agrees_with_kafka() -> None:
    drawn = [(la, Drawer(f"{la.name} {k}").message(la.message, la.version)) for la in all_layouts() for k in range(SAMPLES)]
    lines = [f"encode {messages.java_class(la.message)} {la.version} {json.dumps(wanted)}" for la, wanted in drawn]
    answers = messages.ask_kafka(lines=lines).splitlines()
    assert len(answers) == len(lines)
    refused = [f"{la.name}: {answer}" for (la, _), answer in zip(drawn, answers, strict=True) if answer.startswith("!")]
    assert not refused, f"{len(refused)} refused, first: {refused[:3]}"
    wrong = []
    for (layout, wanted), answer in zip(drawn, answers, strict=True):
        wrong += [f"{layout.name}: {problem}" for problem in problems(layout, wanted, bytes.fromhex(answer))]
    assert not wrong, f"{len(wrong)} differences, first: {wrong[:5]}"
    assert len(all_layouts()) == 733  # the whole of 4.4.0


def problems(layout: Layout, wanted: dict[str, Any], raw: bytes) -> list[str]:
    decoded, end = layout.decode(raw, 0)
    found = differences(layout.message.root, layout.version, wanted, decoded)
    if end != len(raw):
        found.append(f"ends at {end} of {len(raw)}")
    if layout.bytes(decoded) != raw:
        found.append("other bytes when encoded again")
    if layout.bytes(build(layout.kind, layout.message.root, wanted, layout.module)) != raw:
        found.append("other bytes when built by keyword and encoded")
    shared = bytearray(b"\xff" * 7 + raw + b"\xff" * 9)  # a receive buffer with something before and behind
    for buffer in (shared, memoryview(shared)):
        again, end = layout.decode(buffer, 7)
        if again != decoded or end != 7 + len(raw):
            found.append(f"{type(buffer).__name__}: decodes to something else")
    return found


def test_kafka_reads_what_we_write() -> None:
    """Our messages as they are without arguments: Kafka must find its own defaults in them, and write the same bytes."""
    written = [(layout, layout.bytes(with_present_values(layout))) for layout in all_layouts()]
    lines = [f"reread {messages.java_class(la.message)} {la.version} {raw.hex()}" for la, raw in written]
    answers = messages.ask_kafka(lines=lines).splitlines()
    wrong = [f"{la.name}: {answer}" for (la, raw), answer in zip(written, answers, strict=True) if answer != raw.hex()]
    assert not wrong, f"{len(wrong)} differences, first: {wrong[:5]}"


def with_present_values(layout: Layout) -> Any:
    """Fields that are None by default, but may not be null in this version, get an empty value."""
    message = layout.kind()
    for f in layout.message.root.layout(layout.version)[0]:
        if f.none_is_default and layout.version not in f.nullable:
            setattr(message, f.name, [] if f.array else "" if f.type == "string" else b"")
    return message
